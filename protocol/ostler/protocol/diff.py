"""What a session has done to files, all its turns together."""

from typing import Literal

from ostler.protocol.ids import SessionId
from ostler.protocol.wire import Shape

FileAction = Literal["created", "changed", "deleted"]


class FileDiff(Shape):
    """A file that is not what it was before the session changed it first."""

    path: str
    """The file, by its real path."""
    action: FileAction
    """What became of it since."""
    patch: str | None
    """As `diff -u` writes it; null where `note` says why."""
    additions: int | None
    """Lines that are there now and were not; null where there is no patch."""
    deletions: int | None
    """Lines that were there and are not any more; null where there is no patch."""
    binary: bool = False
    """It holds, or held, something else than text."""
    note: str | None = None
    """Why there is no patch, or why it does not show everything."""


class SessionDiff(Shape):
    """The files that a session and its agents changed, as they were before and as they are now."""

    session_id: SessionId
    """Whose changes these are."""
    files: list[FileDiff]
    """By path. What is again as it was does not show, nor does what commands did."""
    left_out: int = 0
    """Further files that were changed and are not shown here, because there are too many."""
