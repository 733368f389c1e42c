"""Decides whether an awk script only prints: a small grammar of ours, in which nothing can run, write or read files.

What is not in it is refused: `getline`, `system`, `|`, a `>` that may redirect, functions, and every variable that awk
itself reads other files or the environment through.
"""

import re
from dataclasses import dataclass, field
from typing import Final

_MAX_LENGTH: Final = 4_000
_TOKENS: Final = re.compile(
    r"""(?P<blank>[ \t]+|\\\n)
    |(?P<string>"(?:[^"\\\n]|\\[^\n])*")
    |(?P<number>[0-9]+(?:\.[0-9]+)?(?![A-Za-z_0-9.]))
    |(?P<call>[A-Za-z_][A-Za-z_0-9]*+)(?=\()
    |(?P<name>[A-Za-z_][A-Za-z_0-9]*+)
    |(?P<sign>\+\+|--|&&|\|\||==|!=|<=|>=|!~|\+=|-=|\*=|[-+*%^?:,;(){}\[\]$~!<>=\n/])""",
    re.VERBOSE,
)
# A bracket that holds a slash ends the pattern for some versions of awk and not for others: it is not in here.
_PATTERN: Final = re.compile(r"/(?:[^/\[\]\\\n]|\\[^\n]|\[\^?(?:\[:[a-z]+:\]|[^\]\[/\\\n])+\])+/")
_STATEMENTS: Final = frozenset({"print", "printf", "next", "exit", "if", "else", "for", "in", "BEGIN", "END"})
_CALLS: Final = frozenset({
    "length", "substr", "index", "toupper", "tolower", "split", "sub", "gsub", "match", "sprintf", "int", "if", "for",
    "print", "printf",
})  # fmt: skip
_VARIABLES: Final = frozenset({"NR", "NF", "FNR", "FILENAME", "FS", "OFS", "ORS", "RS", "RSTART", "RLENGTH", "SUBSEP"})
_OWN_VARIABLE: Final = re.compile(r"[a-z_][a-z_0-9]*")
_REFUSED: Final = re.compile(
    r"getline|system|close|fflush|function|func|return|delete|while|do|switch|case|default|nextfile|include|load|"
    r"namespace|strftime|systime|mktime|typeof|isarray|extension|srand|rand|stopme|dbreak"
)
"""Words that are no variables: of awk, or of one of its versions."""
_HIDDEN: Final = re.compile(r"system|getline|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|ARGV|ARGC")
"""Not even in a string: so that a string which we see where awk sees none hides nothing."""
_BEFORE_PATTERN: Final = frozenset({"", "{", "}", ";", "\n", ",", "(", "&&", "||", "!", "~", "!~", "print"})


def prints_only(script: str) -> bool:
    """Whether a script does nothing but print what it is given."""
    if len(script) > _MAX_LENGTH or _HIDDEN.search(script) or not script.strip():
        return False
    return _ScriptScan(script).run()


def is_own_variable(name: str) -> bool:
    """Whether it is a variable that awk only computes with: of the script, or one that separates fields."""
    own = _OWN_VARIABLE.fullmatch(name) is not None and _REFUSED.fullmatch(name) is None
    return (own and name not in _CALLS | _STATEMENTS) or name in _VARIABLES


@dataclass(slots=True)
class _ScriptScan:
    script: str
    place: int = 0
    before: str = ""
    """The token before this one; a string, number or variable counts as `value`."""
    braces: int = 0
    parens: list[str] = field(default_factory=list)
    """Of each open parenthesis the word before it."""

    def run(self) -> bool:
        while self.place < len(self.script):
            if not self._step():
                return False
        return self.braces == 0 and not self.parens

    def _step(self) -> bool:
        if self.script[self.place] == "/" and self.before in _BEFORE_PATTERN:
            return self._read_pattern()
        found = _TOKENS.match(self.script, self.place)
        if found is None:
            return False
        self.place = found.end()
        kind, text = str(found.lastgroup), found.group()
        match kind:
            case "blank":
                return True
            case "string" | "number":
                self.before = "value" if kind == "number" else "string"
                return True
            case "name" | "call":
                return self._read_name(text, calls=kind == "call")
            case _:
                return self._read_sign(text)

    def _read_pattern(self) -> bool:
        found = _PATTERN.match(self.script, self.place)
        if found is None:
            return False
        self.place = found.end()
        self.before = "pattern"
        return True

    def _read_name(self, text: str, *, calls: bool) -> bool:
        if self.parens and text in {"print", "printf"}:
            # The head of a `for` may hold it, with a redirection.
            return False
        known = text in _CALLS if calls else text in _STATEMENTS | {"length"} or is_own_variable(text)
        self.before = text if text in _STATEMENTS or text in _CALLS else "value"
        return known

    def _read_sign(self, text: str) -> bool:
        allowed = True
        match text:
            case "{":
                self.braces += 1
                allowed = not self.parens
            case "}":
                self.braces -= 1
                allowed = self.braces >= 0 and not self.parens
            case "(":
                self.parens.append(self.before)
            case ")":
                allowed = bool(self.parens)
                if self.parens:
                    self.parens.pop()
            case ">" | ">=":
                # Behind print it would be a redirection: it compares where no print can be.
                allowed = self.braces == 0 or self.parens[:1] in (["if"], ["for"])
            case "/":
                # Behind anything else it may begin a pattern.
                allowed = self.before == "value"
        self.before = text
        return allowed
