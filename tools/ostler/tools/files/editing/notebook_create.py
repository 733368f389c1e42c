"""Notebooks as files that Write and Edit come across: new ones are made, all others are changed cell by cell."""

from typing import Final

from ostler.tools.files.editing import read_state
from ostler.tools.formats.notebook import WAY_TO_MEND, check_notebook
from ostler.tools.fs import paths
from ostler.tools.fs.text_file import TextFile, Unreadable
from ostler.tools.tool import Failure

_EMPTY: Final = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


def is_notebook(path: str, place: str) -> bool:
    """By its name, and by that of the file which it leads to."""
    return path.lower().endswith(".ipynb") or place.lower().endswith(".ipynb")


def is_empty(before: TextFile | None) -> bool:
    return before is None or not before.text.strip()


def why_not_edited(path: str, place: str) -> Failure:
    leads = "" if path.lower().endswith(".ipynb") else f" leads to {paths.printable(place)}, which"
    return Failure(f"{path[-500:]}{leads} is a notebook: change its cells with NotebookEdit.", read_state.NOTEBOOK)


def why_not_written(path: str, place: str, before: TextFile | None, content: str) -> Failure | None:
    """A text becomes a notebook only where there is none yet, and where it is one."""
    if not is_notebook(path, place):
        return None
    try:
        check_notebook(path, before.text if before is not None and before.text.strip() else content)
    except Unreadable as error:
        hint = f"A notebook without cells is {_EMPTY}" if is_empty(before) else WAY_TO_MEND
        return Failure(f"Nothing was written: {error} {hint}", read_state.NOTEBOOK)
    return None if is_empty(before) else why_not_edited(path, place)
