"""The checks of Write and Edit for notebooks: they may create new ones; others are changed with NotebookEdit."""

from typing import Final

from ostler.tools.files.editing import read_state
from ostler.tools.formats.notebook import REPAIR_HINT, check_notebook
from ostler.tools.fs import paths
from ostler.tools.fs.text_file import TextFile, Unreadable
from ostler.tools.tool import Failure

_EMPTY_NOTEBOOK: Final = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


def is_notebook(path: str, place: str) -> bool:
    """By its name, or by that of the file to which it resolves."""
    return path.lower().endswith(".ipynb") or place.lower().endswith(".ipynb")


def is_empty(before: TextFile | None) -> bool:
    return before is None or not before.text.strip()


def refuse_edit(path: str, place: str) -> Failure:
    leads = "" if path.lower().endswith(".ipynb") else f" leads to {paths.make_printable(place)}, which"
    return Failure(f"{path[-500:]}{leads} is a notebook: change its cells with NotebookEdit.", read_state.NOTEBOOK)


def check_write(path: str, place: str, before: TextFile | None, content: str) -> Failure | None:
    """A notebook may be written only where the file is new or empty, and the content is a valid notebook."""
    if not is_notebook(path, place):
        return None
    try:
        check_notebook(path, before.text if before is not None and before.text.strip() else content)
    except Unreadable as error:
        hint = f"A notebook without cells is {_EMPTY_NOTEBOOK}" if is_empty(before) else REPAIR_HINT
        return Failure(f"Nothing was written: {error} {hint}", read_state.NOTEBOOK)
    return None if is_empty(before) else refuse_edit(path, place)
