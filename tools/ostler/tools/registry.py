"""The registry of all tools, with those of plug-ins, and the set of tools that a session has."""

import ast
import inspect
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError

from ostler.protocol.ids import SessionId
from ostler.protocol.installed import may_have_entry_points
from ostler.protocol.patterns import compile_later
from ostler.tools.context import SessionView
from ostler.tools.earlier_contract import EARLIER_MEMBERS, adopt_earlier_members, list_earlier_members
from ostler.tools.spelling import find_close
from ostler.tools.tool import AnyTool, Tool

ENTRY_POINTS: Final = "ostler.tools"
PRESETS: Final = ("full", "minimal", "read-only")
_NAME: Final = compile_later(r"[a-zA-Z0-9_-]{1,64}")
_MOVED_MODULES: Final = frozenset({"context", "paths", "threads", "tool"})
"""What plug-ins of an earlier release imported as modules."""
_MAX_LISTED: Final = 50
"""How many tools are listed for a model that asked for one whose name is like none of theirs."""
_EMPTY_SESSION: Final = SessionView(SessionId(""), "/", "/", (), "default")


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A tool that exists but that this session does not have, and why."""

    tool: AnyTool
    reason: str


@dataclass(frozen=True, slots=True)
class Registry:
    """All tools of the daemon, in the order in which they are sent to a model."""

    tools: tuple[AnyTool, ...]
    problems: tuple[str, ...] = ()
    """What went wrong while they were collected: reported once, when the daemon starts."""
    deprecations: tuple[str, ...] = ()
    """Plug-ins that import what the next release does not have: reported likewise."""

    def for_session(
        self,
        wanted: str | Sequence[str],
        denied: Collection[str],
        session: SessionView,
        of_servers: Sequence[AnyTool] = (),
    ) -> "ToolSet":
        """The tools of one session: its preset or list, less what is denied as a whole or not there at all.

        `of_servers` are those of its MCP servers, which stand behind all others.
        """
        available: list[AnyTool] = []
        unavailable: dict[str, Unavailable] = {}
        for tool in (*self.tools, *of_servers):
            reason = _explain_missing(tool, wanted, denied, session)
            if reason is None:
                available.append(tool)
            else:
                unavailable[tool.name] = Unavailable(tool, reason)
        return ToolSet(tuple(available), unavailable)

    def find_unknown(self, names: Iterable[str]) -> list[str]:
        """Names that no tool has; those of MCP servers are known only when the servers have answered."""
        known = {name for tool in self.tools for name in (tool.name, *tool.aliases)}
        return [name for name in names if name not in known and not name.startswith("mcp__")]


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools that one session has."""

    tools: tuple[AnyTool, ...]
    unavailable: dict[str, Unavailable] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()
    """Names of tools that a model is sent, since its prompt cache begins with them, and may not use."""
    by_name: dict[str, AnyTool] = field(init=False)

    def __post_init__(self) -> None:
        names = {alias: tool for tool in self.tools for alias in tool.aliases}
        object.__setattr__(self, "by_name", names | {tool.name: tool for tool in self.tools})

    def without(self, name: str, reason: str) -> "ToolSet":
        """Returns the set without a tool; who asks for it is told the reason."""
        tool = self.by_name.get(name)
        if tool is None:
            return self
        kept = tuple(each for each in self.tools if each is not tool)
        return ToolSet(kept, {**self.unavailable, tool.name: Unavailable(tool, reason)})

    def extend(self, further: Iterable[AnyTool]) -> "ToolSet":
        """Returns a set with further tools at its end: what was sent before them stays as it was."""
        return ToolSet((*self.tools, *further), self.unavailable, self.refused)

    def find(self, name: str) -> AnyTool | str:
        """The tool by its name or alias, or a message for the model about why there is none."""
        tool = self.by_name.get(name)
        if tool is not None and tool.name in self.refused:
            return _refuse(tool)
        if tool is not None:
            return tool
        for absent in self.unavailable.values():
            if name == absent.tool.name or name in absent.tool.aliases:
                if absent.tool.name in self.refused:
                    return _refuse(absent.tool)
                return f"The tool {absent.tool.name} cannot be used here: {absent.reason}."
        return f"There is no tool {name[:100]!r}. {self._suggest_names(name[:100])}"

    def _suggest_names(self, name: str) -> str:
        """Names that the model may have meant; where none is similar, a list of all."""
        close = find_close(name, self.by_name, 3)
        if close:
            return f"Did you mean {' or '.join(close)}?"
        known = [tool.name for tool in self.tools]
        more = f" and {len(known) - _MAX_LISTED} more" if len(known) > _MAX_LISTED else ""
        return f"The tools are: {', '.join(known[:_MAX_LISTED]) or 'none'}{more}."


def _refuse(tool: AnyTool) -> str:
    return f"The tool {tool.name} is not for you: you work for another session. Do without, or report back."


def _explain_missing(
    tool: AnyTool, wanted: str | Sequence[str], denied: Collection[str], session: SessionView
) -> str | None:
    if not tool.is_enabled(session):
        return tool.explain_absence(session)
    if any(name in denied for name in (tool.name, *tool.aliases, *tool.rule_names)):
        return "a rule denies it as a whole"
    match wanted:
        case "full":
            return None
        case "minimal":
            return None if tool.in_minimal else "the session has only the tools of the preset 'minimal'"
        case "read-only":
            allowed = tool.only_reads or tool.permissions.requires_user
            return None if allowed else "the session has only tools that read"
        case _:
            listed = any(name in wanted for name in (tool.name, *tool.aliases, *tool.rule_names))
            return None if listed else "it is not on the session's list of tools"


def collect(built_in: Sequence[AnyTool], plug_ins: Iterable[AnyTool | str]) -> Registry:
    """Builds the registry: sorted by code point, built-in tools first; of two with one name the later is reported."""
    kept: dict[str, AnyTool] = {}
    taken: set[str] = set()
    problems: list[str] = []
    candidates: list[AnyTool | str] = [*sorted(built_in, key=_get_name), *_sort_plug_ins(plug_ins)]
    for tool in candidates:
        if isinstance(tool, str):
            problems.append(tool)
        elif taken & {tool.name, *tool.aliases}:
            clash = ", ".join(sorted(taken & {tool.name, *tool.aliases}))
            problems.append(f"The tool {tool.name} of {tool.source} is left out: the name {clash} is taken.")
        else:
            kept[tool.name] = tool
            taken |= {tool.name, *tool.aliases}
    plugged = [tool for tool in kept.values() if tool.source != "built-in"]
    deprecations = [words for tool in plugged for words in (*_find_old_imports(tool), *_find_earlier_members(tool))]
    return Registry(tuple(kept.values()), tuple(problems), tuple(deprecations))


def _get_name(tool: AnyTool) -> str:
    return tool.name


def _sort_plug_ins(plug_ins: Iterable[AnyTool | str]) -> list[AnyTool | str]:
    return sorted(plug_ins, key=lambda one: one if isinstance(one, str) else one.name)


def _find_old_imports(tool: AnyTool) -> list[str]:
    """A line for each module below `ostler.tools` that a plug-in's module imports from: they may move at any time."""
    module = sys.modules[type(tool).__module__]
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        # It came without its source, as a compiled or zipped package may.
        return []
    names = {name for node in ast.walk(tree) for name in _list_imported_modules(node)}
    return [
        f"{module.__name__} of {tool.source} imports {name}, which the next release may not have: "
        f"import from {ENTRY_POINTS} instead."
        for name in sorted(names)
    ]


def _find_earlier_members(tool: AnyTool) -> list[str]:
    """A line for each member that a plug-in's tool still has from the contract of an earlier release."""
    return [
        f"{type(tool).__name__} of {tool.source} has the member {member}, which the next release will not read: "
        f"say it as {EARLIER_MEMBERS[member]} instead."
        for member in list_earlier_members(tool)
    ]


def _list_imported_modules(node: ast.AST) -> list[str]:
    """The modules below `ostler.tools` that a statement imports."""
    below = f"{ENTRY_POINTS}."
    if isinstance(node, ast.ImportFrom) and node.module == ENTRY_POINTS:
        return [f"{below}{name.name}" for name in node.names if name.name in _MOVED_MODULES]
    if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith(below):
        return [node.module]
    if isinstance(node, ast.Import):
        return [name.name for name in node.names if name.name.startswith(below)]
    return []


def from_entry_points() -> list[AnyTool | str]:
    """The tools of installed plug-ins, or a line about each that could not be loaded."""
    if not may_have_entry_points(ENTRY_POINTS):
        return []
    # Imported here: most daemons have no plug-ins, and it takes long.
    from importlib.metadata import entry_points  # noqa: PLC0415

    found: list[AnyTool | str] = []
    for point in entry_points(group=ENTRY_POINTS):
        package = point.dist.name if point.dist else point.value
        try:
            found.append(_check_tool(point.load()(), package))
        except _NoDescription as error:
            found.append(f"The plug-in {point.name} of {package} could not be loaded: {error}.")
        except Exception as error:  # noqa: BLE001 - a plug-in can raise anything, and must not keep the daemon from starting
            found.append(f"The plug-in {point.name} of {package} could not be loaded: {error!r}.")
    return found


class _NoDescription(Exception):
    """A plug-in's tool has no description for the model; the message says what to do about it."""


def _check_tool(tool: object, package: str) -> AnyTool:
    """Checks a tool of a plug-in, and raises what is wrong: one without a description would break every request."""
    if not isinstance(tool, Tool):
        raise TypeError(f"{tool!r} is no ostler.tools.tool.Tool")
    if _NAME.fullmatch(tool.name) is None:
        raise ValueError(f"{tool.name!r} is no name that models take")
    if not _read_description(tool).strip():
        raise _NoDescription(f"the description of {tool.name} is empty")
    tool.input_schema(_EMPTY_SESSION)
    adopt_earlier_members(tool)
    _check_examples(tool)
    tool.source = package
    return tool


def _check_examples(tool: AnyTool) -> None:
    """Raises ValueError for an example that does not fit the schema: every model request with it would be refused."""
    for number, example in enumerate(tool.input_examples):
        try:
            tool.parse(example)
        except ValidationError as error:
            first = error.errors()[0]
            problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise ValueError(f"input_examples[{number}] does not fit its Input: {problem}") from error


def _read_description(tool: AnyTool) -> str:
    """The description that the model reads. Raises _NoDescription where its Markdown file is missing."""
    if type(tool).description is not Tool.description:
        return tool.description(_EMPTY_SESSION)
    module = type(tool).__module__
    package, _, name = module.rpartition(".")
    way_out = f"or give {type(tool).__name__} a description() of its own"
    if not package:
        # A top-level module has no package folder in which the Markdown file could be installed.
        raise _NoDescription(
            f"its module {module} is in no package, where {name}.md could stand beside it: put it into one, {way_out}"
        )
    try:
        return tool.description(_EMPTY_SESSION)
    except FileNotFoundError:
        raise _NoDescription(f"there is no {name}.md beside its module {module}: write it, {way_out}") from None
