"""What an MCP server declares of its tools: what no model could be sent is left out by name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import orjson

from ostler.tools.permissions.subject import list_server_rules, normalize_name
from ostler.tools.text import cut_text, one_line

MAX_TOOLS: Final = 1_000
"""Of one server: a model could not choose among more, and each costs memory."""
MAX_DESCRIPTION: Final = 2_000
MAX_SCHEMA_BYTES: Final = 100_000
MAX_NAME: Final = 128
_MAX_OWN_NAME: Final = 1_000
_MAX_PROBLEMS: Final = 10


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """A tool as its server declares it."""

    server: str
    tool: str
    """The server's own name for it."""
    description: str
    schema: Mapping[str, Any]
    title: str = ""
    reads_only: bool = False
    """The server says that it changes nothing."""
    destructive: bool = False
    always_load: bool = False
    search_hint: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools that can be used, and a line about each that cannot."""

    tools: tuple[ToolDeclaration, ...] = ()
    problems: tuple[str, ...] = ()


NO_TOOLS: Final = Listing()


class BadDeclaration(Exception):
    """A model cannot be sent this; the message says why."""


def read_listing(server: str, given: Sequence[Any], *, always_load: bool = False) -> Listing:
    """The tools of a server's answer. `always_load`: its entry says that none of them is deferred."""
    tools: dict[str, ToolDeclaration] = {}
    problems: list[str] = []
    for each in given[:MAX_TOOLS]:
        try:
            declared = _read_declaration(server, each, always_load)
        except BadDeclaration as bad:
            problems.append(str(bad))
            continue
        if declared.tool in tools:
            problems.append(f"The tool {declared.tool!r} is declared twice; the first one counts.")
        tools.setdefault(declared.tool, declared)
    if len(given) > MAX_TOOLS:
        problems.append(f"It declares {len(given)} tools, of which the first {MAX_TOOLS} are used.")
    if len(problems) > _MAX_PROBLEMS:
        problems = [*problems[:_MAX_PROBLEMS], f"… and {len(problems) - _MAX_PROBLEMS} more."]
    return Listing(tuple(tools.values()), tuple(problems))


def _read_declaration(server: str, given: Any, always_load: bool) -> ToolDeclaration:
    name = given.get("name") if isinstance(given, dict) else None
    if not isinstance(name, str) or not name or len(name) > _MAX_OWN_NAME:
        raise BadDeclaration("A tool without a usable name is left out.")
    shown = repr(cut_text(name, 100))
    schema = given.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise BadDeclaration(f"The tool {shown} is left out: the root of its schema is no object.")
    try:
        size = len(orjson.dumps(schema))
    except (TypeError, ValueError, RecursionError):
        raise BadDeclaration(f"The tool {shown} is left out: its schema cannot be sent to a model.") from None
    if size > MAX_SCHEMA_BYTES:
        why = f"its schema has {size:,} bytes, and {MAX_SCHEMA_BYTES:,} are the most"
        raise BadDeclaration(f"The tool {shown} is left out: {why}.")
    hints, meta = _as_dict(given.get("annotations")), _as_dict(given.get("_meta"))
    title = _as_text(given.get("title")) or _as_text(hints.get("title"))
    return ToolDeclaration(
        server,
        name,
        cut_text(_as_text(given.get("description")) or title or name, MAX_DESCRIPTION),
        {**schema, "type": "object"},
        one_line(title, 200),
        reads_only=hints.get("readOnlyHint") is True,
        destructive=hints.get("destructiveHint") is True and hints.get("readOnlyHint") is not True,
        always_load=always_load or meta.get("anthropic/alwaysLoad") is True,
        search_hint=one_line(_as_text(meta.get("anthropic/searchHint")) or _as_text(meta.get("searchHint")), 200),
    )


def _as_text(given: Any) -> str:
    return given.encode("utf-8", "replace").decode() if isinstance(given, str) else ""


def _as_dict(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}


# Names.


def name_tools(declared: Iterable[ToolDeclaration], taken: Iterable[str] = ()) -> dict[str, ToolDeclaration]:
    """The tools by the names that models call them by, sorted by these.

    A name says nothing certain: `mcp__a__b__c` may be of the server `a` or `a__b`. Rules use the declaration.
    """
    named: dict[str, ToolDeclaration] = {}
    known = set(taken)
    for each in sorted(declared, key=lambda one: (one.server, one.tool)):
        name = build_name(each.server, each.tool)
        if name in known:
            name = _cut_with_hash(name, f"{each.server}\0{each.tool}", always=True)
        if name not in known:
            known.add(name)
            named[name] = each
    return dict(sorted(named.items()))


def build_name(server: str, tool: str) -> str:
    """`mcp__SERVER__TOOL`, in characters that a provider takes."""
    return _cut_with_hash(f"mcp__{normalize_name(server)}__{normalize_name(tool)}", f"{server}\0{tool}")


def _cut_with_hash(name: str, own: str, *, always: bool = False) -> str:
    if len(name) <= MAX_NAME and not always:
        return name
    mark = sha256(own.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{name[: MAX_NAME - len(mark) - 1]}_{mark}"


def list_rule_names(server: str, tool: str) -> tuple[str, ...]:
    """The names under which rules and lists may speak of it: by the server's own names, and as models write them."""
    servers, tools = list_server_rules(server), dict.fromkeys((tool, normalize_name(tool)))
    return (*servers, *(f"{a}__{b}" for a in servers for b in tools))
