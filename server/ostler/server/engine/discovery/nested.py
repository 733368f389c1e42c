"""Instruction files and skills of folders below the session's: they are told once a file there was read."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from ostler.server.engine.discovery.skills import build_skill_state, describe_skill_changes
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.settings_loader import NESTED_SKILLS, load_nested_skills
from ostler.server.prompt.environment import find_git_root
from ostler.server.prompt.instructions import find_nested_instructions
from ostler.server.prompt.system_prompt import render_instruction_file
from ostler.server.settings.skills.files import SKILL_PLACES
from ostler.tools.fs.paths import is_inside
from ostler.tools.threads import read_in_thread

_TOLD: Final = "nested_told"
_MAX_FILES: Final = 50
_MAX_CHARS: Final = 100_000
"""Of all such files of a session."""
_MAX_SKILL_FOLDERS: Final = 50


async def describe_nested(session: LiveSession, paths: Iterable[str]) -> list[str]:
    """What counts for these paths, and the model has not got yet: instruction files, and notes about skills."""
    folder = session.view.folder
    wanted = dict.fromkeys(each for path in paths for each in _list_folders(path, folder))
    new = [each for each in wanted if each not in session.nested_folders]
    if not new:
        return []
    session.nested_folders.update(new)
    return [*await _describe_instructions(session, new), *await _describe_skills(session, new)]


async def _describe_skills(session: LiveSession, new: Sequence[str]) -> list[str]:
    """Where they bring skills that are in effect: what has changed in the list that the model was given."""
    known: list[str] = session.state.get(NESTED_SKILLS) or []
    found = await read_in_thread(_list_with_skills, new)
    more = [each for each in found if each not in known][: _MAX_SKILL_FOLDERS - len(known)]
    if not more:
        return []
    await load_nested_skills(session, [*known, *more])
    notes = describe_skill_changes(session)
    session.remember(**{NESTED_SKILLS: [*known, *more]}, **(build_skill_state(session, 0) if notes else {}))
    return notes


def _list_with_skills(folders: Sequence[str]) -> list[str]:
    """Those of the folders that have a place for some, by their real paths."""
    real = dict.fromkeys(os.path.realpath(each) for each in folders)
    return [each for each in real if any(os.path.isdir(os.path.join(each, *names)) for names in SKILL_PLACES)]


async def _describe_instructions(session: LiveSession, new: Sequence[str]) -> list[str]:
    folder = session.view.folder
    told: list[str] = session.state.get(_TOLD) or []
    if len(told) >= _MAX_FILES:
        return []
    top = find_git_root(folder) or folder
    found = await find_nested_instructions(new, top, config=Path(session.shared.home))
    may_read = session.view.may_read
    untold = [file for file in found.files if file.path not in told]
    files = untold
    if may_read is not None:
        files = await read_in_thread(lambda: [file for file in untold if may_read(os.path.realpath(file.path))])
    shown, chars = [], 0
    for file in files[: _MAX_FILES - len(told)]:
        chars += len(file.text)
        if chars <= _MAX_CHARS:
            shown.append(file)
    if shown:
        session.remember(**{_TOLD: [*told, *(file.path for file in shown)]})
    return [render_instruction_file(file) for file in shown]


def _list_folders(path: str, folder: str) -> list[str]:
    """Those between the session's folder and the file, the outermost first."""
    if not os.path.isabs(path) or not is_inside(path, folder):
        return []
    below = Path(os.path.normpath(path)).parent
    return [str(at) for at in reversed((below, *below.parents)) if is_inside(str(at), folder) and str(at) != folder]
