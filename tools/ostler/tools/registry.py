"""Which tools there are, and which of them a session has."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Final

from pydantic import ValidationError

from ostler.protocol.ids import SessionId
from ostler.tools.context import Surroundings
from ostler.tools.tool import AnyTool, Tool

ENTRY_POINTS: Final = "ostler.tools"
MINIMAL: Final = ("Bash", "Read", "Edit")
PRESETS: Final = ("full", "minimal", "read-only")
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NEAR: Final = 0.55
_LISTED: Final = 50
"""How many tools are named to a model that asked for one that is like none of them."""
_NOWHERE: Final = Surroundings(SessionId(""), "/", "/", (), "default")


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A tool that exists but that this session does not have, and why."""

    tool: AnyTool
    reason: str


@dataclass(frozen=True, slots=True)
class Registry:
    """All tools of the daemon, in the order in which a model is told of them."""

    tools: tuple[AnyTool, ...]
    problems: tuple[str, ...] = ()
    """What went wrong while they were collected: told once, when the daemon starts."""

    def for_session(
        self, wanted: str | Sequence[str], denied: Collection[str], surroundings: Surroundings
    ) -> "ToolSet":
        """The tools of one session: its preset or list, less what is denied as a whole or not there at all."""
        available: list[AnyTool] = []
        unavailable: dict[str, Unavailable] = {}
        for tool in self.tools:
            reason = _missing(tool, wanted, denied, surroundings)
            if reason is None:
                available.append(tool)
            else:
                unavailable[tool.name] = Unavailable(tool, reason)
        return ToolSet(tuple(available), unavailable)

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Names that no tool has."""
        known = {name for tool in self.tools for name in (tool.name, *tool.aliases)}
        return [name for name in names if name not in known]


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools that one session has."""

    tools: tuple[AnyTool, ...]
    unavailable: dict[str, Unavailable] = field(default_factory=dict)
    by_name: dict[str, AnyTool] = field(init=False)

    def __post_init__(self) -> None:
        names = {alias: tool for tool in self.tools for alias in tool.aliases}
        object.__setattr__(self, "by_name", names | {tool.name: tool for tool in self.tools})

    def extended(self, further: Iterable[AnyTool]) -> "ToolSet":
        """With further built-in tools, each at its place in the order."""
        own = [tool for tool in self.tools if tool.source == "built-in"]
        others = [tool for tool in self.tools if tool.source != "built-in"]
        return ToolSet((*sorted([*own, *further], key=_name), *others), self.unavailable)

    def find(self, name: str) -> AnyTool | str:
        """The tool by its name or alias, or words for the model about why there is none."""
        tool = self.by_name.get(name)
        if tool is not None:
            return tool
        for absent in self.unavailable.values():
            if name == absent.tool.name or name in absent.tool.aliases:
                return f"The tool {absent.tool.name} cannot be used here: {absent.reason}."
        return f"There is no tool {name[:100]!r}. {self._closest(name[:100])}"

    def _closest(self, name: str) -> str:
        """What the model may have meant; where nothing is near, what there is."""
        # Imported here: only a mistake needs it.
        import difflib  # noqa: PLC0415

        # Whoever writes `read_file` or `BASH` means what it means in small letters.
        names = {known.casefold(): known for known in self.by_name}
        close = difflib.get_close_matches(name.casefold(), names, n=3, cutoff=_NEAR)
        if close:
            return f"Did you mean {' or '.join(names[each] for each in close)}?"
        known = [tool.name for tool in self.tools]
        more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
        return f"The tools are: {', '.join(known[:_LISTED]) or 'none'}{more}."


def _missing(
    tool: AnyTool, wanted: str | Sequence[str], denied: Collection[str], surroundings: Surroundings
) -> str | None:
    if not tool.is_enabled(surroundings):
        return "it is disabled"
    if tool.name in denied or any(alias in denied for alias in tool.aliases):
        return "a rule denies it as a whole"
    match wanted:
        case "full":
            return None
        case "minimal":
            return None if tool.name in MINIMAL else "the session has only the tools of the preset 'minimal'"
        case "read-only":
            allowed = tool.only_reads or tool.name == "AskUserQuestion"
            return None if allowed else "the session has only tools that read"
        case _:
            listed = tool.name in wanted or any(alias in wanted for alias in tool.aliases)
            return None if listed else "it is not on the session's list of tools"


def collect(built_in: Sequence[AnyTool], plug_ins: Iterable[AnyTool | str]) -> Registry:
    """Sorted by code point, built-in ones first; of two with one name the earlier stays, the loser is reported."""
    kept: dict[str, AnyTool] = {}
    taken: set[str] = set()
    problems: list[str] = []
    arrivals: list[AnyTool | str] = [*sorted(built_in, key=_name), *_sorted_plug_ins(plug_ins)]
    for tool in arrivals:
        if isinstance(tool, str):
            problems.append(tool)
        elif taken & {tool.name, *tool.aliases}:
            clash = ", ".join(sorted(taken & {tool.name, *tool.aliases}))
            problems.append(f"The tool {tool.name} of {tool.source} is left out: the name {clash} is taken.")
        else:
            kept[tool.name] = tool
            taken |= {tool.name, *tool.aliases}
    return Registry(tuple(kept.values()), tuple(problems))


def _name(tool: AnyTool) -> str:
    return tool.name


def _sorted_plug_ins(plug_ins: Iterable[AnyTool | str]) -> list[AnyTool | str]:
    return sorted(plug_ins, key=lambda one: one if isinstance(one, str) else one.name)


def from_entry_points() -> list[AnyTool | str]:
    """The tools of installed plug-ins, or a line about each that could not be loaded."""
    found: list[AnyTool | str] = []
    for point in entry_points(group=ENTRY_POINTS):
        package = point.dist.name if point.dist else point.value
        try:
            found.append(_loaded(point.load()(), package))
        except _Wordless as flaw:
            found.append(f"The plug-in {point.name} of {package} could not be loaded: {flaw}.")
        except Exception as error:  # noqa: BLE001 - a plug-in can raise anything, and must not keep the daemon from starting
            found.append(f"The plug-in {point.name} of {package} could not be loaded: {error!r}.")
    return found


class _Wordless(Exception):
    """It has nothing that a model could read; the message says what to do about it."""


def _loaded(tool: object, package: str) -> AnyTool:
    """Raises whatever is wrong with it: a tool that cannot be described would break every request."""
    if not isinstance(tool, Tool):
        raise TypeError(f"{tool!r} is no ostler.tools.tool.Tool")
    if _NAME.fullmatch(tool.name) is None:
        raise ValueError(f"{tool.name!r} is no name that models take")
    if not _described(tool).strip():
        raise _Wordless(f"the description of {tool.name} is empty")
    tool.input_schema(_NOWHERE)
    _check_examples(tool)
    tool.source = package
    return tool


def _check_examples(tool: AnyTool) -> None:
    """One that does not fit would have every request refused."""
    for number, example in enumerate(tool.input_examples):
        try:
            tool.parse(example)
        except ValidationError as error:
            first = error.errors()[0]
            flaw = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise ValueError(f"input_examples[{number}] does not fit its Input: {flaw}") from error


def _described(tool: AnyTool) -> str:
    """What the model reads of it. Raises _Wordless where a file is to say so and there is none."""
    if type(tool).description is not Tool.description:
        return tool.description(_NOWHERE)
    module = type(tool).__module__
    package, _, name = module.rpartition(".")
    way_out = f"or give {type(tool).__name__} a description() of its own"
    if not package:
        # A module by itself has no folder of its own that a file could come with.
        raise _Wordless(
            f"its module {module} is in no package, where {name}.md could stand beside it: put it into one, {way_out}"
        )
    try:
        return tool.description(_NOWHERE)
    except FileNotFoundError:
        raise _Wordless(f"there is no {name}.md beside its module {module}: write it, {way_out}") from None
