"""Where skills are: `skills/NAME/SKILL.md` and `commands/NAME.md` of the project and of the person."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ostler.server.settings.locations import SettingsPlaces, list_project_folders
from ostler.server.settings.skills.parse import BadSkill, parse_skill
from ostler.server.settings.types import Problem, SkillEntry, Source
from ostler.tools.fs.paths import is_inside

_SKILL_FILE: Final = "SKILL.md"
SKILL_PLACES: Final[Sequence[tuple[str, str]]] = ((".ostler", "skills"), (".claude", "skills"), (".claude", "commands"))
"""Of a folder of a project."""
_MAX_FILES: Final = 200
"""Of one place."""
_MAX_DEPTH: Final = 3
"""How many folders there may be between a place and a skill in it."""
_MAX_FOLDERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class SkillFiles:
    """What the files say, those that count most first, and what is wrong with them."""

    entries: tuple[SkillEntry, ...]
    problems: tuple[Problem, ...]
    watched: tuple[str, ...]
    """The folders and files: a change in one of them is a change of the settings."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder that skills or commands are in."""

    path: str
    source: Source
    root: str
    """The folder that their rules start from; a project's skill never lies outside of it."""
    has_commands: bool = False


def load_skill_files(folder: str, places: SettingsPlaces, known_tools: Collection[str] | None = None) -> SkillFiles:
    """Blocks."""
    return _load(_list_places(folder, places), known_tools)


def load_nested_skill_files(folders: Iterable[str], project: str) -> SkillFiles:
    """Those of folders below the project's, real paths. They allow no tools: nobody was asked about that. Blocks."""
    top = os.path.realpath(project)
    inside = [folder for folder in folders if is_inside(folder, top) and os.path.realpath(folder) == folder]
    found = _load((place for folder in inside for place in _list_project_places(folder)), None)
    allowing = (
        Problem(entry.file, 1, 1, "Its allowed-tools allow nothing: the skill is in a folder below the session's.")
        for entry in found.entries
        if entry.allowed
    )
    entries = tuple(replace(entry, allowed=()) for entry in found.entries[:_MAX_FILES])
    return SkillFiles(entries, (*found.problems, *allowing), found.watched)


def _load(places: Iterable[_Place], known_tools: Collection[str] | None) -> SkillFiles:
    entries: list[SkillEntry] = []
    problems: list[Problem] = []
    watched: list[str] = []
    seen: set[str] = set()
    for place in places:
        real = os.path.realpath(place.path)
        if real in seen:  # in the home folder itself, the user's own are nobody's project
            continue
        seen.add(real)
        found, folders = _find_files(place)
        watched += [*folders, *(file for file, _ in found)]
        if len(found) > _MAX_FILES:
            problems.append(
                Problem(place.path, 1, 1, f"It has more than {_MAX_FILES} skills: the others are left out.")
            )
        for file, name in found[:_MAX_FILES]:
            try:
                entry, complaints = _read(file, name, place, known_tools)
            except BadSkill as bad:
                problems.append(Problem(file, bad.line, 1, f"The skill is left out: {bad.message}"))
                continue
            problems += complaints
            entries.append(entry)
    return SkillFiles(tuple(entries), (*problems, *_find_doubles(entries)), tuple(watched))


def _list_places(folder: str, places: SettingsPlaces) -> Iterator[_Place]:
    """The user's own come first here, so that they are never taken for a project's; precedence is another matter."""
    yield _Place(os.path.join(places.home, "skills"), "user", places.user_home)
    yield _Place(os.path.join(places.user_home, ".claude", "skills"), "user", places.user_home)
    yield _Place(os.path.join(places.user_home, ".claude", "commands"), "user", places.user_home, has_commands=True)
    for root in list_project_folders(folder):
        yield from _list_project_places(root)


def _list_project_places(root: str) -> Iterator[_Place]:
    for names in SKILL_PLACES:
        yield _Place(os.path.join(root, *names), "project", root, has_commands=names[-1] == "commands")


def _find_files(place: _Place) -> tuple[list[tuple[str, str]], list[str]]:
    """The files, each with the name that its place gives it, and the folders that were looked through."""
    found: list[tuple[str, str]] = []
    folders: list[str] = []
    waiting: list[tuple[str, tuple[str, ...]]] = [(place.path, ())]
    while waiting and len(folders) < _MAX_FOLDERS:
        folder, parts = waiting.pop(0)
        folders.append(folder)
        names = _list_names(folder)
        if not place.has_commands and parts and _SKILL_FILE in names:
            found.append((os.path.join(folder, _SKILL_FILE), parts[-1]))
            continue  # what lies beside it belongs to it
        if place.has_commands:
            files = (name for name in names if name.endswith(".md"))
            found += [(os.path.join(folder, name), ":".join((*parts, name.removesuffix(".md")))) for name in files]
        if len(parts) < _MAX_DEPTH:
            below = (name for name in names if not name.startswith(".") and os.path.isdir(os.path.join(folder, name)))
            waiting += [(os.path.join(folder, name), (*parts, name)) for name in below]
    return found, folders


def _list_names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _read(
    file: str, name: str, place: _Place, known_tools: Collection[str] | None
) -> tuple[SkillEntry, Sequence[Problem]]:
    real = os.path.realpath(file)
    if place.source == "project" and not is_inside(real, os.path.realpath(place.root)):
        raise BadSkill(1, "It leads out of the project.")
    folder = None if place.has_commands else os.path.dirname(file)
    return parse_skill(file, name, place.source, place.root, folder, known_tools)


def _find_doubles(entries: Sequence[SkillEntry]) -> Iterator[Problem]:
    """Skills of one source that have the name of another one before them."""
    first: dict[tuple[Source, str], SkillEntry] = {}
    for entry in entries:
        counting = first.setdefault((entry.source, entry.name), entry)
        if counting is not entry:
            yield Problem(
                entry.file, 1, 1, f"The skill {entry.name} is left out: {counting.file} has this name, too, and counts."
            )
