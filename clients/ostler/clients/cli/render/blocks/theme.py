"""Themes: how each role of a text looks on a terminal."""

import os
from collections.abc import Mapping
from typing import Final

ThemeName = str

_ANSI: Final = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "underline": "4",
    "reverse": "7",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "heading": "1;36",
    "added": "32",
    "removed": "31",
    "added_word": "30;42",
    "removed_word": "30;41",
    "selected": "7",
    "code": "36",
    "bar": "36",
    "thinking": "2;3",
    "typed": "1",
}
"""The sixteen colours that every terminal has, in the person's own palette."""

_DARK: Final = {
    **_ANSI,
    "added": "38;5;114",
    "removed": "38;5;210",
    "added_word": "38;5;231;48;5;28",
    "removed_word": "38;5;231;48;5;124",
    "heading": "1;38;5;117",
    "code": "38;5;180",
    "bar": "38;5;109",
}
_LIGHT: Final = {
    **_ANSI,
    "yellow": "38;5;130",
    "cyan": "38;5;25",
    "green": "38;5;28",
    "red": "38;5;124",
    "added": "38;5;22",
    "removed": "38;5;88",
    "added_word": "38;5;16;48;5;157",
    "removed_word": "38;5;16;48;5;217",
    "heading": "1;38;5;25",
    "code": "38;5;90",
    "bar": "38;5;25",
}
_COLOUR_BLIND: Final = {
    **_ANSI,
    "green": "38;5;39",
    "red": "38;5;208",
    "added": "38;5;39",
    "removed": "38;5;208",
    "added_word": "38;5;16;48;5;39",
    "removed_word": "38;5;16;48;5;208",
}
"""Blue and orange stand where others have green and red."""

THEMES: Final[Mapping[ThemeName, Mapping[str, str]]] = {
    "ansi": _ANSI,
    "dark": _DARK,
    "light": _LIGHT,
    "colour-blind": _COLOUR_BLIND,
}
DEFAULT_THEME: Final = "ansi"
_LIGHT_BACKGROUNDS: Final = {"7", "15"}


def choose_theme(name: str | None) -> ThemeName:
    """The theme of this name; else the one that fits what the terminal says of itself."""
    if name is not None and name in THEMES:
        return name
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    if background:
        return "light" if background in _LIGHT_BACKGROUNDS else "dark"
    return DEFAULT_THEME


class Palette:
    """What a role becomes on this terminal; nothing where there is to be no colour."""

    def __init__(self, name: ThemeName = DEFAULT_THEME) -> None:
        self.name = name
        self.has_colours = not (os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb")

    def find_parameters(self, role: str) -> str:
        if not role or not self.has_colours:
            return ""
        return role if role[0].isdigit() else THEMES[self.name].get(role, "")
