"""Worktrees of sessions: a session enters one and leaves it, and an agent is given one for as long as it works.

What git is asked to do stands in `ostler.server.worktrees`. Here it is told to hooks, and stored with the session.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import anyio

from ostler.protocol import times
from ostler.protocol.ids import SessionId, TurnId
from ostler.server.engine.journal.session_view import store_session
from ostler.server.engine.session.hooks import SessionHooks
from ostler.server.engine.session.live import LiveSession
from ostler.server.events.event_log import EventLog
from ostler.server.hooks import Outcome
from ostler.server.observability import logs
from ostler.server.worktrees.git import GitFailed
from ostler.server.worktrees.inspection import WorktreeGone, inspect_worktree
from ostler.server.worktrees.names import BadName, check_name, make_random_name
from ostler.server.worktrees.worktree import Worktree, WorktreeChanges, WorktreeOutcome
from ostler.server.worktrees.worktrees import (
    adopt_worktree,
    create_worktree,
    finish_worktree,
    release_worktree,
    remove_half_made,
    remove_worktree,
)
from ostler.storage import Snapshot, Tx
from ostler.storage.repositories.sessions import WORKTREE, SessionRecord
from ostler.tools.services import EnteredWorktree, LeftWorktree, WorktreeRefused
from ostler.tools.threads import change_in_thread, read_in_thread

_MAKING: Final = "makes_worktree_in"
"""In the session's state while a worktree is being made: what a crash leaves of it is looked for from this folder."""
_SHELL_FOLDER: Final = "shell_folder"
_BEFORE: Final = "before_worktree"
"""In the session's state while it is in a worktree that it has entered: where it was before."""
_MAX_LISTED: Final = 20
_UNDO_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class SessionWorktrees:
    """See `ostler.tools.services.Worktrees`; and for agents, `create_for_agent` and `finish`."""

    session: LiveSession
    turn_id: TurnId | None

    async def enter(self, name: str | None) -> EnteredWorktree:
        session = self.session
        if (known := self._find_own()) is not None:
            raise WorktreeRefused(f"This session is in the worktree {known.path} already. Leave it with ExitWorktree.")
        folder = session.view.shell_folder
        before = {"shell_folder": folder, WORKTREE: session.record.options.get(WORKTREE)}
        made = await self._make_noted(folder, name, session.record.id)
        try:
            state = {**_drop(session.state, _MAKING), _SHELL_FOLDER: made.path, _BEFORE: before}
            await self._move(made.as_json(), state)
        except BaseException:
            # Not stored, so that nobody is in it.
            with anyio.CancelScope(shield=True), anyio.move_on_after(_UNDO_SECONDS):
                await change_in_thread(finish_worktree, made, session.shared.umask)
            raise
        return EnteredWorktree(made.path, made.branch)

    async def leave(self, *, remove: bool, discard: bool) -> LeftWorktree:
        worktree = self._find_own()
        if worktree is None:
            raise WorktreeRefused("This session is in no worktree that it made: there is none to leave.")
        removed, note, discarded = False, "", WorktreeChanges()
        try:
            if remove:
                discarded = await self._remove(worktree, discard=discard)
                removed = True
            else:
                await change_in_thread(release_worktree, worktree)
        except WorktreeGone as gone:
            removed, note = True, str(gone)
        except GitFailed as error:
            if remove:
                refusal = f"The worktree was not removed, and the session is still in it: {error}"
                raise WorktreeRefused(refusal) from None
            note = f"The worktree {worktree.path} was kept, and stays locked in git: {error}"
        before = self.session.state.get(_BEFORE) or {}
        folder = str(before.get("shell_folder") or "")
        if not await read_in_thread(os.path.isdir, folder):
            folder = str((before.get(WORKTREE) or {}).get("path") or self.session.record.cwd)
        await self._move(before.get(WORKTREE), {**_drop(self.session.state, _BEFORE), _SHELL_FOLDER: folder})
        files, commits = discarded.files, discarded.commits
        return LeftWorktree(worktree.path, worktree.branch, folder, removed, files, commits, note)

    def _find_own(self) -> Worktree | None:
        """The worktree that the session itself has entered, and that it may leave."""
        worktree = self.session.worktree
        own = worktree is not None and worktree.owner == self.session.record.id and not worktree.isolates
        return worktree if own else None

    # For agents.

    async def create_for_agent(self, agent: SessionId, name: str | None = None) -> Worktree:
        """A worktree for an agent of this session, from the commit of the folder that it is in; null: a random name.

        To be called when the agent's session is stored, and before its first turn. Its `as_json` is then the option
        `WORKTREE` of that session: its folder, and its only root, which it cannot leave. Raises WorktreeRefused.
        """
        made = await self._make(self.session.view.shell_folder, name, agent)
        return replace(made, isolates=True)

    @property
    def isolated(self) -> bool:
        """Whether the session is an agent's with a worktree of its own."""
        return self._find_isolating() is not None

    async def finish(self) -> WorktreeOutcome | None:
        """At the end of this session, which is an agent's: its worktree is removed where nothing was changed in it.

        Else it is kept, also where git cannot tell. Null: it was given none.
        """
        worktree = self._find_isolating()
        if worktree is None:
            return None
        with contextlib.suppress(GitFailed):
            if not await change_in_thread(inspect_worktree, worktree):
                await self._fire_remove(worktree)
        return await change_in_thread(finish_worktree, worktree, self.session.shared.umask)

    def _find_isolating(self) -> Worktree | None:
        """The worktree that the session was given as an agent, also while it is in one that it has entered."""
        worktree = self.session.worktree
        if worktree is not None and not worktree.isolates:
            stored = (self.session.state.get(_BEFORE) or {}).get(WORKTREE)
            worktree = Worktree.from_json(stored) if stored is not None else None
        # That of its parent is its parent's to end.
        return worktree if worktree is not None and worktree.owner == self.session.record.id else None

    async def has_lost_its_own(self) -> bool:
        """Whether it is an agent whose worktree was removed at its end, as nothing was changed in it."""
        worktree = self._find_isolating()
        return worktree is not None and not await read_in_thread(os.path.isdir, worktree.path)

    async def move_into(self, made: Worktree, together: Callable[[Tx], None]) -> None:
        """Such an agent goes on in another one, which was made for it."""
        state = {**_drop(self.session.state, _BEFORE), _SHELL_FOLDER: made.path}
        await self._move(made.as_json(), state, together)

    # Making one.

    async def _make_noted(self, folder: str, name: str | None, owner: SessionId) -> Worktree:
        """Makes it, with a note in the session's state by which a crash is known to have come in between."""
        session, writes = self.session, self.session.journal.writes
        state = session.state = {**session.state, _MAKING: folder}
        await writes.write(lambda tx: writes.put_state(tx, state))
        try:
            return await self._make(folder, name, owner)
        except BaseException:
            session.remember(**{_MAKING: None})
            raise

    async def _make(self, folder: str, name: str | None, owner: SessionId) -> Worktree:
        try:
            chosen = check_name(name) if name is not None else make_random_name()
            outcome = await SessionHooks(self.session, self.turn_id).fire("WorktreeCreate", name=chosen)
            if (why := outcome.block or outcome.stop) is not None:
                raise WorktreeRefused(f"No worktree was made: a hook refuses it. {why}")
            if (printed := _find_printed_path(outcome)) is not None:
                return await change_in_thread(adopt_worktree, folder, printed, owner)
            return await change_in_thread(create_worktree, folder, chosen, owner, self.session.shared.umask)
        except (BadName, GitFailed) as error:
            raise WorktreeRefused(f"No worktree was made: {error}") from None

    # Removing it.

    async def _remove(self, worktree: Worktree, *, discard: bool) -> WorktreeChanges:
        changes = await change_in_thread(inspect_worktree, worktree)
        if changes and not discard:
            raise WorktreeRefused(_describe_changes(worktree, changes))
        await self._fire_remove(worktree)
        umask = self.session.shared.umask
        return await change_in_thread(lambda: remove_worktree(worktree, umask, discard=discard))

    async def _fire_remove(self, worktree: Worktree) -> None:
        facts = {"worktree_path": worktree.path, "worktree_branch": worktree.branch}
        await SessionHooks(self.session, self.turn_id).fire("WorktreeRemove", **facts)

    # Storing where the session is.

    async def _move(
        self,
        worktree: dict[str, Any] | None,
        state: dict[str, Any],
        together: Callable[[Tx], None] = lambda tx: None,
    ) -> None:
        """The session's record and its folder for commands, in one unit of work."""
        writes = self.session.journal.writes

        def work(tx: Tx) -> SessionRecord:
            before = tx.sessions.get(writes.session_id)
            options = _drop(before.options, WORKTREE) | ({WORKTREE: worktree} if worktree is not None else {})
            record = replace(before, options=options, updated_at=times.now())
            tx.states.put(writes.session_id, state)
            store_session(tx, record, writes.used)
            together(tx)
            return record

        self.session.move_to(await writes.write(work), state)


def _drop(facts: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if key != name}


def _find_printed_path(outcome: Outcome) -> str | None:
    """The path that a WorktreeCreate hook printed, as its only line, or the last."""
    for run in outcome.runs:
        lines = run.stdout.strip().splitlines()
        if run.outcome == "passed" and lines and lines[-1].startswith("/"):
            return lines[-1].strip()
    return None


def _describe_changes(worktree: Worktree, changes: WorktreeChanges) -> str:
    """What would be lost, for the model to show."""
    parts = [f"The worktree {worktree.path} was not removed, and the session is still in it."]
    for title, found in (("Uncommitted files", changes.files), ("Commits that are merged nowhere", changes.commits)):
        if found:
            more = f"\n  … and {len(found) - _MAX_LISTED} more" if len(found) > _MAX_LISTED else ""
            listed = "".join(f"\n  {line}" for line in found[:_MAX_LISTED])
            parts.append(f"{title}:{listed}{more}")
    parts.append(
        "Commit and merge them, leave with the action `keep`, or, where the person agrees to lose them, repeat it with "
        "discard_changes."
    )
    return "\n".join(parts)


# Without a live session: when one is deleted, and after a crash.


async def finish_deleted(record: SessionRecord, umask: int) -> None:
    """Removes the worktree of a session that is deleted, where nothing was changed in it."""
    stored = record.options.get(WORKTREE)
    if stored is None or stored["owner"] != record.id:
        return
    outcome = await change_in_thread(finish_worktree, Worktree.from_json(stored), umask)
    logs.log.info("worktree_finished", session_id=record.id, kept=outcome.kept, why=outcome.why)


async def recover_worktree(log: EventLog, session_id: SessionId, umask: int) -> None:
    """Takes back a worktree that a session was making when the daemon died."""

    def read_rows(snapshot: Snapshot) -> tuple[dict[str, Any], SessionRecord | None]:
        return snapshot.states.find(session_id), snapshot.sessions.find(session_id)

    state, record = await log.read(read_rows)
    folder = state.get(_MAKING)
    if folder is None or record is None:
        return
    await take_back(folder, session_id, umask, spared=record.worktree_path)
    await log.write(lambda tx: tx.states.put(session_id, _drop(state, _MAKING)), record.root_id)


async def take_back(
    folder: str, owner: SessionId, umask: int, spared: str | None = None, name: str | None = None
) -> None:
    """Takes back the worktrees that were half made for a session or an agent; `spared` is the one that it is in.

    `name`: the one with this name, which nobody else has chosen, whoever its lock names by now.

    For an agent whose session is stored without its worktree when the daemon starts again.
    """
    try:
        removed = await change_in_thread(remove_half_made, folder, owner, umask, spared, name)
    except GitFailed as error:
        logs.log.warning("worktree_not_recovered", session_id=owner, reason=str(error))
        return
    for path in removed:
        logs.log.info("worktree_taken_back", session_id=owner, path=path)
