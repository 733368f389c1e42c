"""What a request can ask of the rehearsal model, one class each."""

from dataclasses import dataclass
from typing import Any, Literal

Join = Literal["apart", "with", "after"]
"""How a step depends on the one before it: `apart` is done whatever becomes of that one; `with` and `after` only when
it went well; `after` also waits for its results."""


@dataclass(frozen=True, slots=True)
class Read:
    path: str
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class ListFiles:
    pattern: str
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class Find:
    pattern: str
    """A regular expression."""
    shown: str
    """The same as the person wrote it."""
    folder: str | None = None
    glob: str | None = None


@dataclass(frozen=True, slots=True)
class Fetch:
    """Read a page of the web."""

    url: str


@dataclass(frozen=True, slots=True)
class SearchWeb:
    """Search the web."""

    query: str
    otherwise: Find | None = None
    """What is done where the web cannot be searched; none where it was asked for by name."""


@dataclass(frozen=True, slots=True)
class Replace:
    old: str
    new: str
    path: str
    every: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    content: str
    path: str


@dataclass(frozen=True, slots=True)
class Run:
    command: str
    in_background: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    question: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    steps: "tuple[RequestedStep, ...]"


@dataclass(frozen=True, slots=True)
class MakeList:
    items: "tuple[ListItem, ...]"


@dataclass(frozen=True, slots=True)
class ListItem:
    subject: str
    steps: "tuple[RequestedStep, ...]"
    """What it asks for; none where it is only to be written down."""


@dataclass(frozen=True, slots=True)
class Delegate:
    """Hand work to agents."""

    works: tuple[str, ...]
    """What each of them is to do."""
    kind: str | None = None
    in_background: bool = False
    isolated: bool = False
    """Each works in a git worktree of its own."""


@dataclass(frozen=True, slots=True)
class Think:
    about: str


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float


@dataclass(frozen=True, slots=True)
class PermissionTest:
    pass


@dataclass(frozen=True, slots=True)
class UseTool:
    """Any tool, with the input as the person wrote it."""

    tool: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Introduce:
    """Say what it is, and what it understands."""


@dataclass(frozen=True, slots=True)
class Unclear:
    hint: str = ""


Step = (
    Read
    | ListFiles
    | Find
    | Fetch
    | SearchWeb
    | Replace
    | Write
    | Run
    | Ask
    | Plan
    | MakeList
    | Delegate
    | Think
    | Say
    | Wait
    | PermissionTest
    | UseTool
    | Introduce
    | Unclear
)


@dataclass(frozen=True, slots=True)
class RequestedStep:
    """One step as a person asked for it."""

    step: Step
    words: str
    join: Join = "apart"
