"""Instruction files of folders below the session's: they reach the model when it reads a file there, once."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ostler.server.engine.session.live import LiveSession
from ostler.server.prompt.environment import find_git_root
from ostler.server.prompt.instructions import find_nested_instructions
from ostler.server.prompt.system_prompt import render_instruction_file
from ostler.tools.fs.paths import is_inside
from ostler.tools.threads import read_in_thread

_TOLD: Final = "nested_told"
_MAX_FILES: Final = 50
_MAX_CHARS: Final = 100_000
"""Of all such files of a session."""


async def describe_nested(session: LiveSession, paths: Iterable[str]) -> list[str]:
    """The files that count for these paths, and that the model has not got yet."""
    folder = session.view.folder
    wanted = dict.fromkeys(each for path in paths for each in _list_folders(path, folder))
    new = [each for each in wanted if each not in session.nested_folders]
    session.nested_folders.update(new)
    told: list[str] = session.state.get(_TOLD) or []
    if not new or len(told) >= _MAX_FILES:
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
