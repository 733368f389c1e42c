"""Kinds of agents from files: `agents/*.md` of the project and of the person, each with front matter and a prompt."""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final, get_args

from ostler.protocol.patterns import compile_later
from ostler.protocol.session import Mode
from ostler.server.prompt.agent_kinds import load_built_in_kinds
from ostler.server.settings.agent_kinds.front_matter import BadFrontMatter, Entry, parse_front_matter
from ostler.server.settings.locations import SettingsPlaces, list_project_folders
from ostler.server.settings.safe_read import Unreadable, read_bytes
from ostler.server.settings.types import AgentEntry, Problem, Source
from ostler.tools.services import AgentKind

_NAME: Final = compile_later(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_MAX_FILES: Final = 100
_MAX_DESCRIPTION_CHARS: Final = 4_000
_MODES: Final[tuple[str, ...]] = get_args(Mode)
_MODE_FIELDS: Final = ("mode", "permission_mode", "permissionMode")
_FIELDS: Final = frozenset({"name", "description", "tools", "model", "max_budget_usd", "color", *_MODE_FIELDS})


@dataclass(frozen=True, slots=True)
class AgentFiles:
    """What the files say, those that count most first, and what is wrong with them."""

    entries: tuple[AgentEntry, ...]
    problems: tuple[Problem, ...]
    watched: tuple[str, ...]
    """The folders and files: a change in one of them is a change of the settings."""


class _BadFile(Exception):
    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def load_agent_files(folder: str, places: SettingsPlaces) -> AgentFiles:
    """Blocks."""
    entries: list[AgentEntry] = []
    problems: list[Problem] = []
    watched: list[str] = []
    seen: set[str] = set()
    for source, place in _list_places(folder, places):
        real = os.path.realpath(place)
        if real in seen:  # in the home folder itself, the user's own are nobody's project
            continue
        seen.add(real)
        files = _list_files(place)
        watched += [place, *files]
        if len(files) > _MAX_FILES:
            problems.append(Problem(place, 1, 1, f"It has more than {_MAX_FILES} agents: the others are left out."))
        for file in files[:_MAX_FILES]:
            try:
                entries.append(_read_file(file, source))
            except _BadFile as bad:
                problems.append(Problem(file, bad.line, 1, f"The agent is left out: {bad.message}"))
    return AgentFiles(tuple(entries), tuple(problems), tuple(watched))


def _list_places(folder: str, places: SettingsPlaces) -> Iterable[tuple[Source, str]]:
    """The user's own come first here, so that they are never taken for a project's; precedence is another matter."""
    yield "user", os.path.join(places.home, "agents")
    yield "user", os.path.join(places.user_home, ".claude", "agents")
    for root in list_project_folders(folder):
        yield "project", os.path.join(root, ".ostler", "agents")
        yield "project", os.path.join(root, ".claude", "agents")


def _list_files(place: str) -> list[str]:
    try:
        names = sorted(name for name in os.listdir(place) if name.endswith(".md"))
    except OSError:
        return []
    return [os.path.join(place, name) for name in names]


def _read_file(file: str, source: Source) -> AgentEntry:
    try:
        data = read_bytes(file)
        text = (data or b"").decode("utf-8")
    except Unreadable as error:
        raise _BadFile(1, str(error)) from None
    except UnicodeDecodeError:
        raise _BadFile(1, "It is no UTF-8.") from None
    try:
        parsed = parse_front_matter(text)
    except BadFrontMatter as bad:
        raise _BadFile(bad.line, bad.message) from None
    for name, entry in parsed.entries.items():
        if name not in _FIELDS:
            # Left out as a whole: a misspelled or unknown field may be one that was to narrow it.
            known = ", ".join(sorted(_FIELDS))
            raise _BadFile(entry.line, f"The field {name!r} is not known. The fields are: {known}.")
    if not parsed.body:
        raise _BadFile(1, "There are no instructions below the front matter.")
    kind = _build_kind(parsed.entries, parsed.body, file, source)
    return AgentEntry(kind, source, file, hashlib.sha256(text.encode()).hexdigest())


def _build_kind(entries: dict[str, Entry], body: str, file: str, source: Source) -> AgentKind:
    name = _require(entries, "name")
    if _NAME.fullmatch(name) is None:
        raise _BadFile(entries["name"].line, f"{name[:80]!r} is no name: letters, digits, `-` and `_`, at most 64.")
    if name.casefold() in {kind.name.casefold() for kind in load_built_in_kinds()} | {"fork"}:
        raise _BadFile(entries["name"].line, f"{name!r} is the name of a built-in kind, which no file replaces.")
    model = entries["model"].as_text() if "model" in entries else None
    tools = entries["tools"].as_list() if "tools" in entries else None
    return AgentKind(
        name,
        _require(entries, "description")[:_MAX_DESCRIPTION_CHARS],
        body,
        tools=None if tools in {None, ("*",)} else tools,
        model=None if model in {None, "", "inherit"} else model,
        mode=_read_mode(entries),
        max_budget_usd=_read_cost_limit(entries),
        source=source,
        path=file,
    )


def _require(entries: dict[str, Entry], field: str) -> str:
    text = entries[field].as_text().strip() if field in entries else ""
    if not text:
        raise _BadFile(entries[field].line if field in entries else 1, f"The field {field!r} is missing or empty.")
    return text


def _read_mode(entries: dict[str, Entry]) -> Mode | None:
    for field in _MODE_FIELDS:
        if field in entries:
            text = entries[field].as_text()
            for mode in get_args(Mode):
                if text == mode:
                    found: Mode = mode
                    return found
            raise _BadFile(entries[field].line, f"{text[:80]!r} is no mode. The modes are: {', '.join(_MODES)}.")
    return None


def _read_cost_limit(entries: dict[str, Entry]) -> str | None:
    if "max_budget_usd" not in entries:
        return None
    text = entries["max_budget_usd"].as_text()
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount <= 0:
        raise _BadFile(entries["max_budget_usd"].line, f"{text[:80]!r} is no amount of dollars above 0.")
    return f"{amount:f}"
