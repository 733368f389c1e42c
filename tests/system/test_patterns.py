"""Regular expressions mean the same on every Python that is supported."""

import re
from typing import Final

from tests.support.repository import ROOT

ROOMS: Final = ("protocol", "storage", "tools", "server", "clients")
_POSSESSIVE_GROUP: Final = re.compile(r"(?<!\\)\)(?:[*+?]|\{[\d,]+\})\+")


def test_no_pattern_repeats_a_group_possessively() -> None:
    r"""Before Python 3.11.5, `(?: *+\w++(?= ))++` takes "ab cd" of "ab cd-": of a round that fails, a part is kept.

    `(?>(?: *+\w++(?= ))+)` says the same, and takes "ab" everywhere.
    """
    assert _POSSESSIVE_GROUP.search(r"(?:ab)++")
    places = [
        f"{file.relative_to(ROOT)}:{number}"
        for room in ROOMS
        for file in (ROOT / room).rglob("*.py")
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if ")" in line and _POSSESSIVE_GROUP.search(line)
    ]
    assert places == []
