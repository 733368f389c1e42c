"""A second, strict parser for plain commands: where it and the syntax tree disagree, a command is not understood.

It knows words, the operators `&&`, `||`, `;`, `|` and newline, comments and simple redirections; for what only reads
also `( … )` and here-documents of literal text. Nothing else.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools.commands.syntax.words import Word, is_named_expansion, scan_word

RESERVED: Final = frozenset({
    "!", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select",
    "then", "until", "while", "{", "}", "[[", "]]", "time",
})  # fmt: skip
_SEPARATOR: Final = compile_later(r"[ \t]*+(&&|\|\|?(?!&)|;(?![;&])|\n)")
_REDIRECTION: Final = compile_later(r"&>>|&>|>>|>\||>&|<&|<<<|>|<(?![<>(])")
_HEREDOC: Final = compile_later(r"<<(-?)[ \t]*+(?:'(\w+)'|\"(\w+)\"|([A-Za-z_]\w*+))(?=[ \t\n|;&]|\Z)", re.ASCII)
"""The start of a here-document whose end is a plain word, quoted or not."""
_EXPANDED_TEXT: Final = compile_later(r"[$`\\]")
_SKIPPED: Final = compile_later(r"(?:[ \t]|\\\n)+")
_COMMENT: Final = compile_later(r"#[^\n]*")
_BARE: Final = compile_later(
    r"(?:[ \t]*+[A-Za-z_./:=@%+,^-][A-Za-z0-9_./:=@%+,^-]*+(?=[ \t\n|&;]|\Z))+"  # none that may be a descriptor
)
"""A run of literal words, which most of a command is."""
_DESCRIPTOR_DIGITS: Final = 9
ASSIGNMENT: Final = compile_later(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")


@dataclass(slots=True)
class PlainCommand:
    """One simple command: its words, and its redirections as descriptor, operator and target."""

    words: list[Word] = field(default_factory=list)
    redirections: list[tuple[str, str, Word]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StrictReading:
    """The simple commands of a command, and whether nothing stands around them but operators."""

    commands: list[PlainCommand]
    plain: bool


def parse_strictly(text: str, known: dict[str, Word] | None = None) -> StrictReading | None:
    """What a command consists of; None where more is in it than this parser knows.

    `known`: a cache of literal words by their source; what is found is added.
    """
    reader = _StrictParser(text, {} if known is None else known)
    if not reader.parse() or not all(map(_is_plain, reader.commands)):
        return None
    return StrictReading(reader.commands, not reader.holds_more)


def join_lines(text: str) -> str | None:
    """The command without comments, and with `;` for each newline that ends a command; None where it is not plain."""
    reader = _StrictParser(text, {})
    if "\\\n" in text or not reader.parse() or reader.holds_more:  # only the tree knows which lines are continued
        return None
    characters = list(text)
    for begin, end in reader.comments:
        characters[begin:end] = " " * (end - begin)
    for place in reader.line_ends:
        characters[place] = ";"
    return "".join(characters)


def find_word_spans(text: str) -> list[tuple[int, int, int, int]]:
    """Where the words of a plain command stand that are more than bare characters: command, word, begin and end."""
    reader = _StrictParser(text, {})
    return reader.word_spans if reader.parse() else []


def names_descriptor(source: str) -> bool:
    """Whether a word that touches a redirection is no argument: `{name}>f` puts a descriptor's number into a variable.

    Also where the braces hold no name: which names the shell takes is its own affair. And a number that is too long for
    a descriptor is a word again.
    """
    return (source[:1] == "{" and source[-1:] == "}") or (source.isdecimal() and len(source) > _DESCRIPTOR_DIGITS)


def divides_after_dash(operator: str, target: Word) -> bool:
    """Whether the shell ends the redirection inside of this word: in `<& -x` the dash closes, `x` is an argument."""
    return operator in {"<&", ">&"} and target.source.startswith("-") and target.source != "-"


def _is_plain(command: PlainCommand) -> bool:
    first = command.words[0]
    if first.source == "time" and len(command.words) > 1:
        # A reserved word, and yet `time ls` is `ls` with the same words: it is looked at as if it were a program.
        return True
    return first.kind == "literal" and first.source not in RESERVED and not ASSIGNMENT.match(first.source)


@dataclass(frozen=True, slots=True)
class _Heredoc:
    """A here-document whose text has not been read yet."""

    command: PlainCommand
    end: str
    strips: bool
    quoted: bool
    place: int


class _StrictParser:
    __slots__ = (
        "closed", "commands", "comments", "depth", "heredoc", "holds_more", "known", "line_ends", "open", "place",
        "text", "waiting", "word_spans",
    )  # fmt: skip

    def __init__(self, text: str, known: dict[str, Word]) -> None:
        self.text = text
        self.known = known
        self.place = 0
        self.commands: list[PlainCommand] = []
        self.comments: list[tuple[int, int]] = []
        self.line_ends: list[int] = []
        """Newlines that end a command."""
        self.word_spans: list[tuple[int, int, int, int]] = []
        """Words that are more than bare characters: of which command, which of its words, and where it stands."""
        self.open: PlainCommand | None = None
        self.waiting = False
        """An operator needs a command after it; newlines may come between."""
        self.depth = 0
        """Parentheses that are open."""
        self.closed = False
        """One was just closed: an operator has to follow."""
        self.heredoc: _Heredoc | None = None
        """Its text begins at the end of the line."""
        self.holds_more = False
        """More than a plain command may: a here-document or parentheses."""

    def parse(self) -> bool:
        while self.place < len(self.text):
            if not self.closed and (bare := _BARE.match(self.text, self.place)):
                self._read_bare_words(bare)
            elif separator := _SEPARATOR.match(self.text, self.place):
                self.place = separator.end()
                if not self._read_separator(separator[1]):
                    return False
            elif not self._read_token():
                return False
        whole = self.depth == 0 and self.heredoc is None and not (self.holds_more and "\\\n" in self.text)
        return whole and bool(self.commands) and not self.waiting and (self.open is None or bool(self.open.words))

    def _read_token(self) -> bool:
        if skipped := _SKIPPED.match(self.text, self.place):
            self.place = skipped.end()
            return True
        character = self.text[self.place]
        if character == "#":
            begin, self.place = self.place, _match_end(_COMMENT.match(self.text, self.place))
            self.comments.append((begin, self.place))
            return True
        if character in "()":
            return self._open_group() if character == "(" else self._close_group()
        if self.closed:
            return False
        if character in "<>&":
            if heredoc := _HEREDOC.match(self.text, self.place):
                return self._begin_heredoc(heredoc)
            if redirection := _REDIRECTION.match(self.text, self.place):
                return self._read_redirection("", redirection)
        return self._read_word()

    def _open_group(self) -> bool:
        self.place += 1
        self.depth += 1
        fits = self.open is None and not self.closed and self.heredoc is None
        # Two of them at once are arithmetic.
        fits &= self.text[self.place : self.place + 1] != "("
        self.waiting = self.holds_more = True
        return fits

    def _close_group(self) -> bool:
        self.place += 1
        self.depth -= 1
        fits = self.depth >= 0 and not self.waiting and self.heredoc is None
        fits &= self.closed or (self.open is not None and bool(self.open.words))
        self.open, self.closed = None, True
        return fits

    def _begin_heredoc(self, found: re.Match[str]) -> bool:
        if self.heredoc is not None:
            return False
        strips, *ends = found.groups()
        command = self._open_command()
        self.heredoc = _Heredoc(command, next(filter(None, ends)), bool(strips), ends[2] is None, found.start())
        command.redirections.append(("", f"<<{strips}", Word("", "", "literal")))
        self.place = found.end()
        self.holds_more = True
        return True

    def _read_heredoc(self, heredoc: "_Heredoc") -> bool:
        """The lines up to the one that ends it. Behind them a new command begins."""
        # A quoted newline before this one would be read in another order.
        if "\n" in self.text[heredoc.place : self.place - 1]:
            return False
        begin = line = self.place
        while line <= len(self.text):
            end = self.text.find("\n", line)
            end = len(self.text) if end < 0 else end
            shown = self.text[line:end].lstrip("\t") if heredoc.strips else self.text[line:end]
            if shown == heredoc.end:
                text = self.text[begin:line]
                self.place = min(end + 1, len(self.text))
                heredoc.command.redirections = [
                    (
                        fd,
                        operator,
                        Word(text, text, "literal") if operator.startswith("<<") and operator != "<<<" else word,
                    )
                    for fd, operator, word in heredoc.command.redirections
                ]
                return heredoc.quoted or _EXPANDED_TEXT.search(text) is None
            line = end + 1
        return False

    def _read_bare_words(self, found: re.Match[str]) -> None:
        self.place = found.end()
        words, known = self._open_command().words, self.known
        for source in found.group().split():
            word = known.get(source)
            if word is None:
                word = known[source] = Word(source, source, "literal")
            words.append(word)

    def _read_separator(self, operator: str) -> bool:
        if self.open is None and not self.closed:
            return operator == "\n" and self.heredoc is None
        if self.open is not None and not self.open.words:
            return False
        self.closed = False
        if operator == "\n":
            self.line_ends.append(self.place - 1)
        self.open = None
        self.waiting = operator in {"&&", "||", "|"}
        if operator == "\n" and self.heredoc is not None:
            heredoc, self.heredoc = self.heredoc, None
            return self._read_heredoc(heredoc)
        return True

    def _read_word(self) -> bool:
        start = self.place
        word, end = scan_word(self.text, start)
        if end == start or (word.kind == "unknown" and not is_named_expansion(word)):
            return False
        self.place = end
        source = word.source.replace("\\\n", "")  # the shell joins continued lines before it looks for a descriptor
        if self.text[end : end + 1] in {"<", ">"} and names_descriptor(source):
            return False
        redirection = _REDIRECTION.match(self.text, end) if source.isdecimal() else None
        if redirection is None and source.isdecimal() and self.text.startswith("<<", end):
            return False
        if redirection is not None:
            usual = source == word.source and not redirection.group().startswith("&")
            return usual and self._read_redirection(source, redirection)
        command = self._open_command()
        self.word_spans.append((len(self.commands) - 1, len(command.words), start, end))
        command.words.append(word)
        return True

    def _read_redirection(self, fd: str, found: re.Match[str]) -> bool:
        blank = _SKIPPED.match(self.text, found.end())
        start = blank.end() if blank else found.end()
        word, end = scan_word(self.text, start)
        # The shell would read a `#`, or a number before the next redirection, in another way.
        following = self.text[end : end + 1]
        if end == start or word.kind == "unknown" or word.source.startswith("#") or following in {"<", ">", "("}:
            return False
        if divides_after_dash(found.group(), word):
            return False
        self.place = end
        self._open_command().redirections.append((fd, found.group(), word))
        return True

    def _open_command(self) -> PlainCommand:
        if self.open is None:
            self.open = PlainCommand()
            self.commands.append(self.open)
            self.waiting = False
        return self.open


def _match_end(found: re.Match[str] | None) -> int:
    assert found is not None
    return found.end()
