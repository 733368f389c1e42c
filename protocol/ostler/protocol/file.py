"""Files that a person mentions: finding one by a few letters of its path, and reading it."""

from typing import Annotated, Literal

from pydantic import Field

from ostler.protocol.ids import SessionId
from ostler.protocol.wire import Params, PathText, Shape


class FileSearch(Params):
    """What to look for."""

    session_id: SessionId
    """The session in whose folders to look."""
    query: Annotated[str, Field(max_length=4096)] = ""
    """Letters of the path, in their order; nothing: what stands in the folder itself."""
    limit: Annotated[int, Field(ge=1, le=200)] = 20
    """How many at the most."""


class FoundFile(Shape):
    """A file or a folder that fits."""

    path: str
    """Relative to the session's folder, or absolute where it is in another one; folders end in a slash."""
    kind: Literal["file", "folder"]
    """What it is."""
    score: int
    """How well it fits; only good for comparing those of one answer."""


class FoundFiles(Shape):
    """What was found, best first."""

    files: list[FoundFile]
    """Only what the session may read, and nothing that git ignores."""


class FileRead(Params):
    """Which lines to read."""

    session_id: SessionId
    """The session that may read it."""
    path: PathText
    """Absolute, or relative to the session's folder."""
    offset: Annotated[int, Field(ge=0)] = 0
    """How many lines to leave out at the beginning."""
    limit: Annotated[int, Field(ge=1, le=10_000)] = 2000
    """How many lines at the most."""


class FileContent(Shape):
    """Lines of a text file."""

    path: str
    """The file, with all links resolved."""
    content: str
    """The lines, with their ends."""
    total_lines: int
    """How many lines there are; of a file over 10 MB, how many in its beginning."""
    next_offset: int | None
    """The `offset` to go on with; null at the end."""
    whole: bool
    """False: the file is longer than 10 MB, and the rest cannot be read in this way."""
