"""Mentions: `@FILE` or `@FILE:10-20` in what a person types becomes a block with the lines of that file."""

import os
import re
from typing import Final

from ostler.protocol.turn import Input, InputFile, InputText

_MENTION: Final = re.compile(r"(?:^|(?<=\s))@(\S+)")
_RANGE: Final = re.compile(r"(.+?):(\d+)(?:-(\d+))?$")
_AFTER_WORDS: Final = ".,;:!?)]}\"'"
"""What may follow a path in a sentence."""
_MOST_FILES: Final = 20


def build_input(words: str, folder: str) -> Input:
    """The words, and the files that they mention, as far as these are there."""
    files = dict.fromkeys(file for found in _MENTION.findall(words) if (file := _find_file(found, folder)) is not None)
    if not files:
        return words
    blocks = [InputFile(path=path, start_line=start, end_line=end) for path, start, end in list(files)[:_MOST_FILES]]
    return [InputText(text=words), *blocks]


def _find_file(written: str, folder: str) -> tuple[str, int | None, int | None] | None:
    for text in dict.fromkeys((written, written.rstrip(_AFTER_WORDS))):
        if not text:
            continue
        if os.path.exists(os.path.join(folder, text)):
            return text, None, None
        found = _RANGE.match(text)
        if found and os.path.isfile(os.path.join(folder, found[1])) and int(found[2]) > 0:
            start, end = int(found[2]), int(found[3] or found[2])
            return found[1], start, max(start, end)
    return None
