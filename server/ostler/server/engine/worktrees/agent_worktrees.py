"""The worktrees of agents: made before an agent's session is stored, and ended with its turn.

While one is made, the session of its parent has a note of it: after a crash, what nobody works in yet is taken back.
"""

from typing import Any, Final

from ostler.protocol.ids import SessionId, TurnId
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.worktrees.session_worktrees import SessionWorktrees, take_back
from ostler.server.events.event_log import EventLog
from ostler.server.worktrees.names import make_random_name
from ostler.server.worktrees.worktree import Worktree
from ostler.storage import Snapshot, Tx
from ostler.storage.repositories.sessions import SessionRecord

_MAKING: Final = "makes_worktrees_for"
"""In the parent's state: by agent, the folder whose repository gets a worktree for it, and the name of that.

The name, too, as its lock does not tell for long whose it is: who makes the next worktree there releases stale locks.
"""


async def make_worktree(parent: LiveSession, turn_id: TurnId | None, agent: SessionId) -> Worktree:
    """A worktree for an agent that is about to be stored; `drop_note` goes with that. Raises WorktreeRefused."""
    name = make_random_name()
    noted = {**parent.state.get(_MAKING, {}), agent: [parent.view.shell_folder, name]}
    state = parent.state = {**parent.state, _MAKING: noted}
    writes = parent.journal.writes
    await writes.write(lambda tx: writes.put_state(tx, state))
    try:
        return await SessionWorktrees(parent, turn_id).create_for_agent(agent, name)
    except BaseException:
        without = drop_note(parent, agent)
        writes.post(lambda tx: writes.put_state(tx, without))
        raise


async def renew_worktree(parent: LiveSession, turn_id: TurnId | None, agent: LiveSession) -> None:
    """Where an agent that goes on has lost its worktree, it gets another one. Raises WorktreeRefused."""
    worktrees = SessionWorktrees(agent, None)
    if not await worktrees.has_lost_its_own():
        return
    made = await make_worktree(parent, turn_id, agent.record.id)
    writes, without = parent.journal.writes, drop_note(parent, agent.record.id)
    await worktrees.move_into(made, lambda tx: writes.put_state(tx, without))


def drop_note(parent: LiveSession, agent: SessionId) -> dict[str, Any]:
    """The parent's state, to be stored together with the agent that works in the worktree now."""
    noted = {each: folder for each, folder in parent.state.get(_MAKING, {}).items() if each != agent}
    parent.state = {**parent.state, _MAKING: noted}
    return parent.state


async def recover_agent_worktrees(log: EventLog, session_id: SessionId, umask: int) -> None:
    """Takes back the worktrees that were being made for agents of a session when the daemon died."""

    def read_rows(snapshot: Snapshot) -> tuple[dict[str, Any], SessionRecord | None]:
        return snapshot.states.find(session_id), snapshot.sessions.find(session_id)

    state, record = await log.read(read_rows)
    noted: dict[str, list[str]] = state.get(_MAKING, {})
    if not noted or record is None:
        return
    for agent, (folder, name) in noted.items():
        await take_back(folder, SessionId(agent), umask, name=name)

    def forget(tx: Tx) -> None:
        tx.states.put(session_id, {name: value for name, value in state.items() if name != _MAKING})

    await log.write(forget, record.root_id)
