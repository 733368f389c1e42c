"""Parses one word of a command: removes its quotes, and finds whether its value is known only at run time."""

from dataclasses import dataclass
from typing import Final, Literal

from ostler.protocol.patterns import compile_later

BLANKS: Final = " \t\n"
METACHARACTERS: Final = " \t\n|&;()<>"
_GLOBS: Final = "*?["
_ESCAPABLE: Final = '$`"\\\n'
"""The characters that a backslash escapes inside double quotes."""
_HARMLESS_AFTER_DOLLAR: Final = '" |)/'
"""Before one of these a dollar inside double quotes is literal."""

_SIMPLE: Final = compile_later(r"""(?:([A-Za-z0-9_./:=@%+,^-]+)|'([^']*)'|"([^"$`\\]*)")(?=[ \t\n|&;()<>]|\Z)""")
"""A word that is all bare or all in one pair of quotes, which most are."""

_NAMES: Final = (
    "PATH", "HOME", "PWD", "OLDPWD", "USER", "LOGNAME", "HOSTNAME", "SHELL", "LANG", "LC_ALL", "TERM", "TZ",
    "EDITOR", "VISUAL", "PAGER", "DISPLAY", "COLUMNS", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
    "PYTHONPATH", "NODE_ENV", "NODE_PATH", "JAVA_HOME", "GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR",
)  # fmt: skip
"""Variables that say where things are, and never what somebody keeps secret."""
_NAMED: Final = rf"\$(?:\?|(?:{'|'.join(_NAMES)})(?![A-Za-z0-9_]))"
_NAMED_EXPANSION: Final = compile_later(
    rf"""(?>(?:[A-Za-z0-9_./:=@%+,^-]++|{_NAMED}|"(?>(?:[^"$`\\]++|{_NAMED})*)")+)(?=[ \t\n|&;()<>]|\Z)"""
)
"""A word in which nothing is expanded but some of `$?`, `$PATH`, `$HOME` and their like."""

NAMED_VARIABLES: Final = frozenset({"$?", *(f"${name}" for name in _NAMES)})
_NAMED_ALONE: Final = NAMED_VARIABLES | {f'"{source}"' for source in NAMED_VARIABLES}
"""What most of these words are."""

WordKind = Literal["literal", "glob", "home", "unknown"]


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written, and what the shell makes of it."""

    source: str
    text: str
    """Without its quotes; of a glob the pattern, with what was quoted made literal by brackets."""
    kind: WordKind
    """`home`: it begins with `~/` and is literal otherwise. `unknown`: its value is known only at run time."""

    @property
    def literal(self) -> str | None:
        return self.text if self.kind == "literal" else None


def read_word(source: str) -> Word:
    """The word that is the whole of a text."""
    word, end = scan_word(source, 0)
    return word if end == len(source) and source else Word(source, "", "unknown")


def is_named_expansion(word: Word) -> bool:
    """Whether it is known only at run time, but for nothing else than `$?`, `$PATH`, `$HOME` and their like in it."""
    if word.kind != "unknown" or "$" not in word.source:
        return False
    return word.source in _NAMED_ALONE or _NAMED_EXPANSION.fullmatch(word.source) is not None


def scan_word(text: str, start: int) -> tuple[Word, int]:
    """The word that begins here, and where it ends. What cannot be read to its end is unknown, up to the text's end."""
    if (simple := _SIMPLE.match(text, start)) is not None:
        bare, single, double = simple.groups()
        return Word(simple.group(), bare or single or double or "", "literal"), simple.end()
    if (named := _NAMED_EXPANSION.match(text, start)) is not None and "$" in named.group():
        return Word(named.group(), "", "unknown"), named.end()
    scan = _WordScanner(text, start)
    while scan.place < len(text) and text[scan.place] not in METACHARACTERS:
        if not scan.step():
            return Word(text[start:], "", "unknown"), len(text)
    source = text[start : scan.place]
    return Word(source, *scan.build_result(source)), scan.place


class _WordScanner:
    __slots__ = ("brace", "bracket", "glob", "home", "listed", "pattern", "place", "plain", "start", "text", "unknown")

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.start = start
        self.place = start
        self.plain: list[str] = []
        self.pattern: list[str] = []
        self.glob = self.bracket = self.brace = self.listed = self.home = self.unknown = False

    def step(self) -> bool:
        """Reads one character or one quoted piece; False where the piece is not closed."""
        match self.text[self.place]:
            case "'":
                return self._read_single_quotes()
            case '"':
                return self._read_double_quotes()
            case "\\":
                return self._read_backslash()
            case "`":
                return False
            case "$":
                self._read_dollar()
            case character:
                self._read_bare(character)
        return True

    def build_result(self, source: str) -> tuple[str, WordKind]:
        if self.unknown or (self.brace and self.listed):
            return "", "unknown"
        if self.home:
            return ("", "unknown") if self.glob else ("".join(self.plain), "home")
        if self.glob:
            return "".join(self.pattern), "glob"
        return "".join(self.plain), "literal"

    def _append_quoted(self, text: str) -> None:
        self.plain.append(text)
        self.pattern.append("".join(f"[{character}]" if character in _GLOBS else character for character in text))

    def _read_single_quotes(self) -> bool:
        end = self.text.find("'", self.place + 1)
        if end < 0:
            return False
        self._append_quoted(self.text[self.place + 1 : end])
        self.place = end + 1
        return True

    def _read_double_quotes(self) -> bool:
        text, place, read = self.text, self.place + 1, list[str]()
        while place < len(text):
            character = text[place]
            following = text[place + 1 : place + 2]
            if character == '"':
                self._append_quoted("".join(read))
                self.place = place + 1
                return True
            if character == "`" or (character == "$" and following not in _HARMLESS_AFTER_DOLLAR):
                return False
            if character == "\\" and following and following in _ESCAPABLE:
                read.append("" if following == "\n" else following)
                place += 2
                continue
            read.append(character)
            place += 1
        return False

    def _read_backslash(self) -> bool:
        following = self.text[self.place + 1 : self.place + 2]
        if not following:
            return False
        if following != "\n":
            self._append_quoted(following)
        self.place += 2
        return True

    def _read_dollar(self) -> None:
        following = self.text[self.place + 1 : self.place + 2]
        if following == "(" or (following and following not in METACHARACTERS):
            self.unknown = True
        self._append_quoted("$")
        self.place += 1

    def _read_bare(self, character: str) -> None:
        if character == "~":
            self._read_tilde()
        elif character in "*?" or (character == "]" and self.bracket):
            self.glob = True
        elif character == "[":
            self.bracket = True
        elif character == "{":
            self.brace = True
        elif character == "," or self.text.startswith("..", self.place):
            self.listed = True
        self.plain.append(character)
        self.pattern.append(character)
        self.place += 1

    def _read_tilde(self) -> None:
        if self.place == self.start:
            following = self.text[self.place + 1 : self.place + 2]
            self.home = not following or following == "/" or following in METACHARACTERS
            self.unknown |= not self.home
        elif self.text[self.place - 1] in "=:":
            self.unknown = True
