"""Reads a line with loops, conditions, groups and substitutions: what stands in what, and the pieces of each word.

A grammar of ours, and no guess: what is not in it makes the whole line one that is not understood. What is made of it
is written anew (`unrolling`), so that a mistake here can change what a line shows, but never what it may do.
"""

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from ostler.tools.commands.safety.composites.arithmetic import NotComposite, compute

_MAX_LENGTH: Final = 4_000
_MAX_DEPTH: Final = 8
_BLANKS: Final = " \t"
_ENDS: Final = " \t\n;|&()<>"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
"""A variable of a loop. The shell's own are in capitals."""
_REDIRECTION: Final = re.compile(r"([0-2]?)(>>|>&|>|<)(?![<>&(|])[ \t]*|()(&>)(?![<>&(|])[ \t]*")
_ARITHMETIC: Final = re.compile(r"\$\(\(([0-9+\-*/%() \t]{1,200}?)\)\)")
_ESCAPES: Final = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_ESCAPABLE: Final = '$`"\\'
_RESERVED: Final = frozenset({
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
    "until", "while", "{", "}", "[[", "]]", "time", "!",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bare:
    """Characters without quotes: patterns and braces mean something in them."""

    text: str


@dataclass(frozen=True, slots=True)
class Quoted:
    """Text in which nothing means anything."""

    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(…)`, or `<(…)` where `file` is set."""

    line: "Sequence"
    quoted: bool
    file: bool = False


Piece = Bare | Quoted | Variable | Substitution
WordPieces = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Redirect:
    fd: str
    operator: str
    target: WordPieces


@dataclass(frozen=True, slots=True)
class Simple:
    words: tuple[WordPieces, ...]
    redirects: tuple[Redirect, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    name: str
    words: tuple[WordPieces, ...]
    body: "Sequence"


@dataclass(frozen=True, slots=True)
class Condition:
    """`if` and `elif`, each with what follows its `then`, and `else`."""

    branches: "tuple[tuple[Sequence, Sequence], ...]"
    otherwise: "Sequence | None"


@dataclass(frozen=True, slots=True)
class Group:
    kind: Literal["(", "{"]
    line: "Sequence"


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a pipeline, with the redirections of what is more than a simple command."""

    command: Simple | Loop | Condition | Group
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    negated: bool
    elements: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    """Pipelines, each with the operator behind it: `&&`, `||`, `;` or nothing."""

    pipelines: tuple[tuple[Pipeline, str], ...]


def read_structure(text: str) -> Sequence:
    """The structure of a line. Raises NotComposite."""
    if len(text) > _MAX_LENGTH:
        raise NotComposite("it is too long")
    reader = _Reader(text)
    line = reader.read_sequence(frozenset())
    if reader.place != len(text):
        raise NotComposite(f"its structure is not known at character {reader.place}")
    return line


@dataclass(slots=True)
class _Reader:
    text: str
    place: int = 0
    depth: int = field(default=0)

    def read_sequence(self, ends: frozenset[str]) -> Sequence:
        """Up to one of the reserved words, or a closing parenthesis, or the end."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise NotComposite("it is nested too deeply")
        found: list[tuple[Pipeline, str]] = []
        while True:
            self._skip_lines()
            if self._at_end() or self._peek_word() in ends:
                break
            pipeline = self._read_pipeline()
            operator = self._read_operator()
            found.append((pipeline, operator))
            if operator in {"&&", "||"}:
                self._skip_lines()
                if self._at_end() or self._peek_word() in ends:
                    raise NotComposite("an operator has no command")
            elif not operator:
                break
        if not found:
            raise NotComposite("there is no command")
        self.depth -= 1
        return Sequence(tuple(found))

    def _at_end(self) -> bool:
        return self.place >= len(self.text) or self.text[self.place] == ")"

    def _skip(self) -> None:
        while self.place < len(self.text) and self.text[self.place] in _BLANKS:
            self.place += 1

    def _skip_lines(self) -> None:
        while self.place < len(self.text) and self.text[self.place] in " \t\n":
            self.place += 1

    def _starts(self, sign: str) -> bool:
        return self.text.startswith(sign, self.place)

    def _peek_word(self) -> str:
        """The bare word that begins here, where a reserved word may stand."""
        end = self.place
        while end < len(self.text) and self.text[end] not in _ENDS and self.text[end] not in "'\"\\$`":
            end += 1
        whole = end >= len(self.text) or self.text[end] in _ENDS
        return self.text[self.place : end] if whole else ""

    def _take(self, word: str) -> None:
        self._skip_lines()
        if self._peek_word() != word:
            raise NotComposite(f"{word} is missing")
        self.place += len(word)

    def _read_operator(self) -> str:
        self._skip()
        for operator in ("&&", "||"):
            if self._starts(operator):
                self.place += 2
                return operator
        if self._starts(";;") or self._starts("&") or self._starts("|"):
            raise NotComposite("it holds an operator that is not known")
        if self._starts(";") or self._starts("\n"):
            self.place += 1
            return ";"
        return ""

    def _read_pipeline(self) -> Pipeline:
        negated = self._peek_word() == "!"
        self.place += negated
        elements: list[Element] = []
        while True:
            self._skip_lines() if elements else self._skip()
            elements.append(self._read_element())
            self._skip()
            if not self._starts("|") or self._starts("||"):
                return Pipeline(negated, tuple(elements))
            if self._starts("|&"):
                raise NotComposite("it holds an operator that is not known")
            self.place += 1

    def _read_element(self) -> Element:
        command: Loop | Condition | Group
        if self._starts("((") or self._at_end():
            raise NotComposite("a command is missing")
        if self._starts("("):
            self.place += 1
            command = Group("(", self.read_sequence(frozenset()))
            self._close()
        else:
            match self._peek_word():
                case "for":
                    command = self._read_loop()
                case "if":
                    command = self._read_condition()
                case "{":
                    self.place += 1
                    command = Group("{", self.read_sequence(frozenset({"}"})))
                    self._take("}")
                case word if word in _RESERVED - {"[["}:
                    raise NotComposite(f"{word} stands where a command should be")
                case _:
                    return Element(self._read_simple())
        redirects: list[Redirect] = []
        self._skip()
        while (redirect := self._read_redirect()) is not None:
            redirects.append(redirect)
            self._skip()
        return Element(command, tuple(redirects))

    def _close(self) -> None:
        self._skip_lines()
        if not self._starts(")"):
            raise NotComposite("a parenthesis is not closed")
        self.place += 1

    def _read_loop(self) -> Loop:
        self._take("for")
        self._skip()
        found = _OWN_NAME.fullmatch(name := self._peek_word())
        if found is None:
            raise NotComposite("the variable of a loop is not one in small letters")
        self.place += len(name)
        self._take("in")
        words = self._read_words()
        if self._read_operator() != ";":
            raise NotComposite("a loop has no body")
        self._take("do")
        body = self.read_sequence(frozenset({"done"}))
        self._take("done")
        return Loop(name, words, body)

    def _read_words(self) -> tuple[WordPieces, ...]:
        words: list[WordPieces] = []
        self._skip()
        while self.place < len(self.text) and self.text[self.place] not in "\n;|&()<>":
            words.append(self._read_word())
            self._skip()
        return tuple(words)

    def _read_condition(self) -> Condition:
        branches: list[tuple[Sequence, Sequence]] = []
        ends, otherwise = frozenset({"elif", "else", "fi"}), None
        self._take("if")
        while True:
            test = self.read_sequence(frozenset({"then"}))
            self._take("then")
            branches.append((test, self.read_sequence(ends)))
            self._skip_lines()
            if self._peek_word() != "elif":
                break
            self._take("elif")
        if self._peek_word() == "else":
            self._take("else")
            otherwise = self.read_sequence(frozenset({"fi"}))
        self._take("fi")
        return Condition(tuple(branches), otherwise)

    def _read_simple(self) -> Simple:
        words: list[WordPieces] = []
        redirects: list[Redirect] = []
        while True:
            self._skip()
            if (redirect := self._read_redirect()) is not None:
                redirects.append(redirect)
            elif self._starts("<("):
                words.append((self._read_file_substitution(),))
                self._end_word()
            elif self.place >= len(self.text) or self.text[self.place] in "\n;|&)":
                break
            else:
                words.append(self._read_word())
        if not words:
            raise NotComposite("a command is missing")
        return Simple(_as_test(words), tuple(redirects))

    def _read_redirect(self) -> Redirect | None:
        found = _REDIRECTION.match(self.text, self.place)
        if found is None:
            return None
        self.place = found.end()
        return Redirect(found[1] or "", found[2] or found[4], self._read_word())

    def _read_file_substitution(self) -> Substitution:
        self.place += 2
        line = self.read_sequence(frozenset())
        self._close()
        return Substitution(line, quoted=True, file=True)

    def _end_word(self) -> None:
        if self.place < len(self.text) and self.text[self.place] not in " \t\n;|&)":
            raise NotComposite("a word goes on behind a substitution")

    def _read_word(self) -> WordPieces:
        pieces: list[Piece] = []
        if self._starts("#"):
            raise NotComposite("it holds a comment")
        while self.place < len(self.text) and self.text[self.place] not in _ENDS:
            self._read_piece(pieces)
        if not pieces or (self.place < len(self.text) and self.text[self.place] in "(<>"):
            raise NotComposite(f"a word is not understood at character {self.place}")
        return _join_pieces(pieces)

    def _read_piece(self, pieces: list[Piece]) -> None:
        match self.text[self.place]:
            case "'":
                end = self.text.find("'", self.place + 1)
                if end < 0:
                    raise NotComposite("a quote is not closed")
                pieces.append(Quoted(self.text[self.place + 1 : end]))
                self.place = end + 1
            case '"':
                self._read_double_quotes(pieces)
            case "\\":
                following = self.text[self.place + 1 : self.place + 2]
                if not following or following == "\n":
                    raise NotComposite("a line is continued")
                pieces.append(Quoted(following))
                self.place += 2
            case "$":
                pieces.append(self._read_dollar(quoted=False))
            case "`":
                raise NotComposite("it holds a sign that is not known")
            case "~" if not pieces or self.text[self.place - 1] in "=:":
                raise NotComposite("a home folder is not known")
            case sign:
                pieces.append(Bare(sign))
                self.place += 1

    def _read_double_quotes(self, pieces: list[Piece]) -> None:
        self.place += 1
        pieces.append(Quoted(""))
        while self.place < len(self.text):
            sign = self.text[self.place]
            if sign == '"':
                self.place += 1
                return
            if sign == "`":
                raise NotComposite("it holds a sign that is not known")
            if sign == "$" and self.text[self.place + 1 : self.place + 2] not in {'"', " ", "|", ")", "/"}:
                pieces.append(self._read_dollar(quoted=True))
                continue
            if sign == "\\":
                following = self.text[self.place + 1 : self.place + 2]
                if following == "\n":
                    raise NotComposite("a line is continued")
                escaped = following in _ESCAPABLE
                pieces.append(Quoted(following if escaped else "\\"))
                self.place += 1 + escaped
                continue
            pieces.append(Quoted(sign))
            self.place += 1
        raise NotComposite("a quote is not closed")

    def _read_dollar(self, *, quoted: bool) -> Piece:
        if (found := _ARITHMETIC.match(self.text, self.place)) is not None:
            self.place = found.end()
            return Quoted(str(compute(found[1])))
        self.place += 1
        if self._starts("("):
            if self._starts("(("):
                raise NotComposite("its arithmetic is not known")
            self.place += 1
            line = self.read_sequence(frozenset())
            self._close()
            return Substitution(line, quoted)
        if self._starts("'") and not quoted:
            return self._read_escapes()
        braced = self._starts("{")
        self.place += braced
        name = "?" if self._starts("?") else (found[0] if (found := _NAME.match(self.text, self.place)) else "")
        self.place += len(name)
        if not name or (braced and not self._starts("}")):
            raise NotComposite("an expansion is not known")
        self.place += braced
        return Variable(name, quoted)

    def _read_escapes(self) -> Quoted:
        self.place += 1
        text: list[str] = []
        while self.place < len(self.text):
            sign = self.text[self.place]
            if sign == "'":
                self.place += 1
                return Quoted("".join(text))
            if sign == "\\":
                self.place += 1
                sign = _ESCAPES.get(self.text[self.place : self.place + 1], "")
                if not sign:
                    raise NotComposite("an escaped character is not known")
            text.append(sign)
            self.place += 1
        raise NotComposite("a quote is not closed")


def _join_pieces(pieces: list[Piece]) -> WordPieces:
    """The pieces of a word, with neighbours of one kind as one."""
    joined: list[Piece] = []
    for piece in pieces:
        match joined[-1] if joined else None, piece:
            case Bare(before), Bare(text):
                joined[-1] = Bare(before + text)
            case Quoted(before), Quoted(text):
                joined[-1] = Quoted(before + text)
            case _:
                joined.append(piece)
    # The quotes around a quoted piece; beside an unquoted one they may make a word of nothing.
    kept = [piece for piece in joined if piece != Quoted("")]
    return tuple(kept if kept and all(getattr(piece, "quoted", True) for piece in kept) else joined)


_TESTS: Final = frozenset({"-e", "-f", "-d", "-s", "-L", "-h", "-r", "-w", "-x", "-n", "-z"})


def _as_test(words: list[WordPieces]) -> tuple[WordPieces, ...]:
    """`[[ -f x ]]` as `[ -f x ]`: with one operator before one word both do the same."""
    if _bare_text(words[0]) != "[[":
        return tuple(words)
    inner = words[1:-1]
    negated = [word for word in inner[:1] if _bare_text(word) == "!"]
    test = inner[len(negated) :]
    fits = len(test) == 2 and _bare_text(test[0]) in _TESTS and _bare_text(words[-1]) == "]]"
    # `[` would split and expand what `[[` takes as it is.
    plain = fits and all(
        isinstance(piece, Quoted)
        or (isinstance(piece, Bare) and not set(piece.text) & set("*?[{"))
        or getattr(piece, "quoted", False)
        for piece in test[1]
    )
    if not plain:
        raise NotComposite("a test is not known")
    return ((Bare("["),), *inner, (Bare("]"),))


def _bare_text(word: WordPieces) -> str:
    return (
        "".join(piece.text for piece in word if isinstance(piece, Bare))
        if all(isinstance(piece, Bare) for piece in word)
        else ""
    )
