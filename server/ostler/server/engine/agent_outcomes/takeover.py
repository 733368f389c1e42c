"""What a call that a crash cut off finds of the agent that it had started: it is never started a second time."""

from collections.abc import Mapping
from dataclasses import dataclass

from ostler.protocol.ids import CallId, SessionId
from ostler.protocol.shapes import Call, Task, Turn
from ostler.server.engine.agent_outcomes.outcome import build_outcome
from ostler.server.engine.session.agent_facts import find_agent_facts
from ostler.server.worktrees.worktree import Worktree, WorktreeOutcome
from ostler.storage import Snapshot
from ostler.storage.repositories.sessions import WORKTREE, SessionRecord
from ostler.tools.agents.agent import Agent, AgentOutput, AgentStarted, build_output

INTERRUPTED_BEFORE: str = "Interrupted before the agent began: the daemon stopped. Nothing was done."


@dataclass(frozen=True, slots=True)
class StartedAgent:
    """An agent as it is stored."""

    record: SessionRecord
    turn: Turn | None
    """Its last turn, which that call began; none where the daemon was killed before."""
    task: Task | None
    """Its task, where the call has put it into the background."""

    @property
    def at_work(self) -> bool:
        return self.turn is not None and self.turn.status != "ended"


def find_started(snapshot: Snapshot, parent_id: SessionId, call_id: CallId) -> StartedAgent | None:
    """The agent that a call has started, or has resumed."""
    for record in _list_children(snapshot, parent_id):
        facts = find_agent_facts(record)
        if facts is not None and facts.call_id == call_id:
            turns = _list_turns_since(snapshot, record.id, call_id)
            tasks = [each.task for each in snapshot.tasks.list_by_sessions([parent_id])]
            task = next((each for each in tasks if (each.agent_id, each.call_id) == (record.id, call_id)), None)
            return StartedAgent(record, turns[-1] if turns else None, task)
    return None


def _list_turns_since(snapshot: Snapshot, agent_id: SessionId, call_id: CallId) -> list[Turn]:
    """The turns that the call can have begun: of an agent that it was about to resume, not those of before."""
    call = snapshot.calls.find(call_id)
    began = (call.started_at if call is not None else None) or ""
    return [turn for turn in snapshot.turns.list_by_session(agent_id) if (turn.started_at or began) >= began]


def list_children_ids(snapshot: Snapshot, parent_id: SessionId) -> list[SessionId]:
    return [record.id for record in _list_children(snapshot, parent_id)]


def list_worktrees_to_end(snapshot: Snapshot, parent_id: SessionId) -> dict[SessionId, Worktree]:
    """The worktrees of agents that have ended, and whose calls have not heard of it."""
    found: dict[SessionId, Worktree] = {}
    for record in _list_children(snapshot, parent_id):
        stored, facts = record.options.get(WORKTREE), find_agent_facts(record)
        if not stored or facts is None or stored["owner"] != record.id or not stored["isolates"]:
            continue
        call = snapshot.calls.find(facts.call_id)
        if call is not None and call.status == "running" and snapshot.turns.find_current(record.id) is None:
            found[record.id] = Worktree.from_json(stored)
    return found


def complete_call(call: Call, agent: StartedAgent, worktrees: Mapping[SessionId, WorktreeOutcome]) -> Call:
    """The call with the outcome of an agent that has ended, or that goes on in the background."""
    if agent.task is not None:
        started = AgentStarted(
            agent_id=agent.record.id,
            task_id=agent.task.id,
            description=agent.task.description,
            prompt=str(call.input.get("prompt", "")),
        )
        return _complete(call, started, is_error=False)
    assert agent.turn is not None
    outcome = build_outcome(agent.turn, 0, worktrees.get(agent.record.id))
    return _complete(call, build_output(outcome), is_error=outcome.status != "completed")


def _complete(call: Call, output: AgentOutput | AgentStarted, *, is_error: bool) -> Call:
    changes = {"output": output.model_dump(mode="json"), "content": Agent().render(output)}
    return call.model_copy(update={"status": "completed", "is_error": is_error, **changes})


def _list_children(snapshot: Snapshot, parent_id: SessionId) -> list[SessionRecord]:
    return [record for record in snapshot.sessions.list_family(parent_id) if record.parent_id == parent_id]
