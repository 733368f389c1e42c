"""The agents below a session: those that are stored, and those that wait for their place."""

from ostler.protocol.agent import AgentInfo, AgentState
from ostler.protocol.ids import CallId, SessionId, TaskId
from ostler.protocol.shapes import Turn
from ostler.server.engine.agents.queue import AgentQueue
from ostler.server.engine.session.agent_facts import find_agent_facts
from ostler.storage import Snapshot


def list_agents(snapshot: Snapshot, session_id: SessionId, queue: AgentQueue) -> list[AgentInfo]:
    """All agents below a session, parents before children, and those that wait last."""
    found = list_stored_agents(snapshot, session_id)
    family = {session_id, *(agent.agent_id for agent in found if agent.agent_id is not None)}
    return found + queue.list_waiting(family)


def list_stored_agents(snapshot: Snapshot, session_id: SessionId) -> list[AgentInfo]:
    """The agents that have a session, parents before children."""
    _, *members = snapshot.sessions.list_family(session_id)
    if not members:
        return []
    used = snapshot.usage.sum_sessions([member.id for member in members])
    tasks = _find_tasks(snapshot, {member.parent_id for member in members if member.parent_id is not None})
    found: list[AgentInfo] = []
    for member in members:
        facts = find_agent_facts(member)
        if facts is None or member.parent_id is None:
            continue
        turns = snapshot.turns.list_by_session(member.id)
        last = turns[-1] if turns else None
        status = _find_state(last) if last is not None else _find_state_before_turn(snapshot, facts.call_id)
        # The daemon was killed before it began: that was its end.
        ended_at = last.ended_at if last is not None else member.created_at if status == "killed" else None
        found.append(
            AgentInfo(
                agent_id=member.id,
                call_id=facts.call_id,
                task_id=tasks.get(member.id),
                name=facts.name,
                kind=facts.kind,
                status=status,
                parent_id=member.parent_id,
                description=facts.description,
                model=member.model,
                mode=member.mode,
                worktree=member.worktree_path,
                usage=used[member.id],
                started_at=member.created_at,
                ended_at=ended_at,
            )
        )
    return found


def _find_tasks(snapshot: Snapshot, parents: set[SessionId]) -> dict[SessionId, TaskId]:
    records = snapshot.tasks.list_by_sessions(parents)
    return {record.task.agent_id: record.task.id for record in records if record.task.agent_id is not None}


def _find_state_before_turn(snapshot: Snapshot, call_id: CallId) -> AgentState:
    """It is about to begin; where its call is over, the daemon was killed before it could."""
    call = snapshot.calls.find(call_id)
    return "queued" if call is not None and call.status != "completed" else "killed"


def _find_state(turn: Turn) -> AgentState:
    if turn.status != "ended":
        return turn.status
    match turn.reason:
        case "completed":
            return "completed"
        case "interrupted":
            return "killed"
        case _:
            return "failed"
