"""What a command that went behind its call did to a repository: the same look as after one that was waited for."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import Protocol

from ostler.protocol.events import GitChange, PullRequest
from ostler.protocol.ids import SessionId
from ostler.protocol.shapes import Task
from ostler.tools.shell.git_effects import git_changes
from ostler.tools.shell.git_head import Journals, may_move, moves_since
from ostler.tools.shell.output.output_file import OutputFile


class _Linking(Protocol):
    def link_pull(self, pull: PullRequest) -> None: ...


class _Actor(Protocol):
    @property
    def live(self) -> _Linking: ...


FindActor = Callable[[SessionId], Awaitable[_Actor]]
"""The way to a session, live or not."""


def git_done(task: Task, path: str, folders: Iterable[str], ran_seconds: float = 0.0) -> GitChange | None:
    """For a task that is completed; null where it did nothing of the kind. Blocks.

    `ran_seconds` is how long it ran, where that is known: it may have begun long before it became a task.
    """
    if task.type != "local_bash" or task.status != "completed" or not task.command:
        return None
    try:
        output = OutputFile.open(path)
    except OSError:
        return None
    try:
        text, ended_in = output.shown(), output.ending().folder
    finally:
        output.close()
    moves = []
    if may_move(task.command):
        places = [place for place in (*folders, ended_in) if place]
        moves = moves_since(task.command, places, Journals({}, _began_ns(task, ran_seconds)))
    done = git_changes(task.command, text, moves)
    return GitChange.model_validate({"call_id": task.call_id, **done.model_dump()}) if done is not None else None


def _began_ns(task: Task, ran_seconds: float) -> int:
    """Nobody looked at the journals before it began: what stands in them is its own from then on."""
    became = datetime.fromisoformat(task.started_at).timestamp()
    ended = datetime.fromisoformat(task.ended_at or task.started_at).timestamp()
    return int(min(became, ended - ran_seconds) * 1_000_000_000)


async def link_pull(find: FindActor, session_id: SessionId, done: GitChange) -> None:
    """A pull request that was opened is noted in the session's metadata. Raises ProtocolError."""
    if done.pr is not None and done.pr.action == "created":
        (await find(session_id)).live.link_pull(done.pr)
