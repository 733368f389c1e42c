"""The person's own editor and pager, which the chat lends its terminal to."""

import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Final

from ostler.clients.cli.output import sanitize
from ostler.clients.cli.terminal.console import Console

_EDITORS: Final = ("vi", "nano")
_PAGERS: Final = ("less", "more")


async def edit_text(console: Console, text: str) -> str:
    """The text as the person left it in $VISUAL or $EDITOR; as it was, where the editor failed. Raises OSError."""
    editor = _find_program(("VISUAL", "EDITOR"), _EDITORS)
    if editor is None:
        raise OSError("there is no editor. Set EDITOR, and start the chat again")
    with tempfile.TemporaryDirectory(prefix="ostler-plan-") as folder:
        file = Path(folder) / "plan.md"
        file.write_text(text, "utf-8")
        if await console.run_program([*editor, str(file)]) != 0:
            return text
        return file.read_bytes().decode("utf-8", "replace")


async def page_text(console: Console, text: str) -> bool:
    """Show it in $PAGER; False where there is none. Raises OSError."""
    pager = _find_program(("PAGER",), _PAGERS)
    if pager is None:
        return False
    with tempfile.TemporaryDirectory(prefix="ostler-plan-") as folder:
        file = Path(folder) / "plan.md"
        # A terminal must not be steered by it.
        file.write_text("\n".join(sanitize(line) for line in text.split("\n")), "utf-8")
        return await console.run_program([*pager, str(file)]) == 0


def _find_program(variables: tuple[str, ...], others: tuple[str, ...]) -> list[str] | None:
    for name in variables:
        if words := shlex.split(os.environ.get(name, "")):
            return words
    return next(([other] for other in others if shutil.which(other)), None)
