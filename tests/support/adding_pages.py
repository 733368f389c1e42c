"""What the pages about adding something say to do."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOOL_PAGE: Final = "adding-a-tool.md"
SETTING_PAGE: Final = "adding-a-setting.md"
ADDING_PAGES: Final = (TOOL_PAGE, SETTING_PAGE)
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"`((?:tools|protocol|tests)/[\w/.-]+\.(?:py|md))`")


@dataclass(frozen=True, slots=True)
class Step:
    """A block of a page: a new file, a change of one, or a command."""

    kind: str
    file: str
    text: str


def read_steps(page: Path) -> list[Step]:
    """The blocks of a page; each is about the file that was named last."""
    text, steps = page.read_text(), []
    for block in _BLOCK.finditer(text):
        files = _FILE.findall(text, 0, block.start())
        steps.append(Step(block[1], files[-1] if files else "", block[2]))
    return steps
