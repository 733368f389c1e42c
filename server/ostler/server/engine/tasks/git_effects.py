"""What a background command did to a git repository: found in the same way as for a command in the foreground."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import Protocol

from ostler.protocol.events import GitChange, PullRequest
from ostler.protocol.ids import SessionId
from ostler.protocol.shapes import Task
from ostler.tools.shell.git_effects import find_git_changes
from ostler.tools.shell.git_head import ReflogSnapshot, may_move_head, read_reflog_since
from ostler.tools.shell.output.output_file import OutputFile


class _PullLinker(Protocol):
    def link_pull(self, pull: PullRequest) -> None: ...


class _Actor(Protocol):
    @property
    def live(self) -> _PullLinker: ...


FindActor = Callable[[SessionId], Awaitable[_Actor]]
"""Finds the actor of a session; loads it where it is not in memory."""


def find_git_change(task: Task, path: str, folders: Iterable[str], ran_seconds: float = 0.0) -> GitChange | None:
    """The commits, branches and pull requests of a completed task; None where it made none. Blocks.

    `ran_seconds` is how long the command ran, where that is known: it may have started long before it became a task.
    """
    if task.type != "local_bash" or task.status != "completed" or not task.command:
        return None
    try:
        output = OutputFile.open(path)
    except OSError:
        return None
    try:
        text, ended_in = output.read_shown(), output.read_ending().folder
    finally:
        output.close()
    moves = []
    if may_move_head(task.command):
        places = [place for place in (*folders, ended_in) if place]
        moves = read_reflog_since(task.command, places, ReflogSnapshot({}, _compute_start_ns(task, ran_seconds)))
    done = find_git_changes(task.command, text, moves)
    return GitChange.model_validate({"call_id": task.call_id, **done.model_dump()}) if done is not None else None


def _compute_start_ns(task: Task, ran_seconds: float) -> int:
    """The start of the command: the reflogs were not read before it, so entries from then on count as its own."""
    became = datetime.fromisoformat(task.started_at).timestamp()
    ended = datetime.fromisoformat(task.ended_at or task.started_at).timestamp()
    return int(min(became, ended - ran_seconds) * 1_000_000_000)


async def link_pull(find: FindActor, session_id: SessionId, done: GitChange) -> None:
    """Add a pull request that was opened to the session's metadata. Raises ProtocolError."""
    if done.pr is not None and done.pr.action == "created":
        (await find(session_id)).live.link_pull(done.pr)
