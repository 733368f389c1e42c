"""Renders a patch in colour."""

import re
from collections.abc import Iterator
from typing import Final

from ostler.clients.cli.output import Colour

_COLOURS: Final[dict[str, Colour]] = {"+": "green", "-": "red", "@": "cyan"}
_HUNK: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def render_patch(patch: str) -> list[tuple[str, Colour | None]]:
    """A patch in colour, without its head; the heads of further files stay."""
    return [(line, _COLOURS.get(line[:1])) for line in _strip_head(patch)]


def _strip_head(patch: str) -> Iterator[str]:
    """By the counts of the hunks: a line that was removed may begin like a head, and must not be hidden as one."""
    old = new = files = 0
    for line in patch.removesuffix("\n").split("\n") if patch else ():
        if old > 0 or new > 0:
            old -= line[:1] in {" ", "-", ""}
            new -= line[:1] in {" ", "+", ""}
            yield line
        elif found := _HUNK.match(line):
            old, new = (int(count or 1) for count in found.groups())
            yield line
        elif line.startswith("--- "):
            files += 1
        elif not line.startswith("+++ ") or files > 1:
            yield line
