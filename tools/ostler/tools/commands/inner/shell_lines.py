"""Finds the command lines that a shell is given: after `-c`, on its standard input, or as a file that is a descriptor.

Also parses a word that is a command line, which other wrappers have, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools.commands.syntax.parsed import SimpleCommand, make_literal_word, make_unknown_word
from ostler.tools.commands.syntax.parser import parse_command
from ostler.tools.commands.syntax.words import Word
from ostler.tools.commands.syntax.working_dirs import nest_folders

SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash"})
_LONG_LINES: Final = ("--command", "--init-command")
_LONG_VALUES: Final = frozenset({"--rcfile", "--init-file"})
_LETTERS_WITH_VALUE: Final = "oO"
_MAX_LINES: Final = 200
_DESCRIPTOR: Final = compile_later(r"/dev/(?:stdin|fd/.*)|/proc/[^/]+/(?:task/[^/]+/)?fd/.*")


@dataclass(frozen=True, slots=True)
class Opened:
    """What a command runs, one wrapper deep."""

    commands: tuple[SimpleCommand, ...] = ()
    own: tuple[Word, ...] = ()
    """Words that belong to none of these commands and are not known to be data: a program's name may be among them."""
    hidden: str | None = None
    """Why it may run more than these commands."""


def names_descriptor(text: str) -> bool:
    """Whether a path is one of the process's own descriptors: what is in that file stands elsewhere on the line."""
    return text == "-" or _DESCRIPTOR.fullmatch(text) is not None


def make_undecided(part: SimpleCommand, source: str = "") -> SimpleCommand:
    """A command that is known only at run time."""
    # With a blank before it no text is taken for arithmetic, which runs nothing.
    return replace(part, tokens=(make_unknown_word(f" {source or part.text}"),), assignments=(), redirections=())


def parse_line(part: SimpleCommand, text: Word | None) -> list[SimpleCommand]:
    """The parts of a command line that is the text of a word."""
    if text is None:
        return []
    if text.literal is None:
        return [make_undecided(part, text.source)]
    parsed = parse_command(text.literal)
    inner = [
        replace(found, folders=nest_folders(part.folders, found.folders), inside=found.inside | part.inside)
        for found in parsed.parts
    ]
    return [*inner, make_undecided(part, text.literal)] if parsed.problem and text.literal.strip() else inner


def parse_lines(part: SimpleCommand, texts: Sequence[Word | None]) -> list[SimpleCommand]:
    """The parts of several such lines; of more than anybody gives, one more command is unknown."""
    found = [inner for text in texts[:_MAX_LINES] for inner in parse_line(part, text)]
    return [*found, make_undecided(part)] if len(texts) > _MAX_LINES else found


def open_shell(part: SimpleCommand) -> Opened:
    """`-c TEXT`, or the text of a heredoc; a script by its path is a program like any other."""
    tokens, place = part.tokens, 1
    lines, values = list[SimpleCommand](), list[Word]()
    has_text = from_stdin = False
    while place < len(tokens):
        token = tokens[place]
        text = token.literal
        if text is None:
            return Opened((*lines, make_undecided(part, token.source)))
        if text in {"-", "--"} or text[:1] not in {"-", "+"}:
            place += 1 if text in {"-", "--"} else 0
            break
        place += 1
        if text.startswith("--"):
            name, equals, value = text.partition("=")
            if any(each.startswith(name) for each in _LONG_LINES):
                lines += parse_line(part, Word(value, value, "literal") if equals else _get(tokens, place))
                has_text = True
            if not equals and name in _LONG_VALUES:
                place += 1
            continue
        if text.startswith("-C") and tokens[0].text == "fish":
            lines += parse_line(part, make_literal_word(text[2:]) if text[2:] else _get(tokens, place))
        attached = text.partition("c")[2] if text[0] == "-" else ""
        if attached and (tokens[0].text == "fish" or " " in attached):
            lines += parse_line(part, make_literal_word(attached))
        has_text |= text[0] == "-" and "c" in text
        from_stdin |= "s" in text
        # The values of `-o` and `-O` follow, bundled or not (`-oc errexit 'ls'`). Shells differ in how many they take,
        # so each such word is read as the line, too.
        taken = sum(text.count(letter) for letter in _LETTERS_WITH_VALUE)
        values += tokens[place : place + taken] if has_text else ()
        place += taken
    lines += parse_lines(part, values)
    rest = tokens[place:]
    if has_text:
        return Opened((*lines, *parse_line(part, rest[0] if rest else None)), own=rest[1:])
    if from_stdin or not rest or (rest[0].literal is not None and names_descriptor(rest[0].text)):
        read = open_stdin(part)
        return Opened((*lines, *read.commands), rest, read.hidden)
    script = rest[0]
    return Opened((*lines, *([make_undecided(part, script.source)] if script.literal is None else [])), own=rest)


def open_stdin(part: SimpleCommand) -> Opened:
    """The commands in the text on its standard input, where that stands on the line."""
    given = [found for found in part.redirections if found.operator.startswith("<")]
    if not given and "pipe" not in part.inside:
        return Opened(hidden=f"{part.tokens[0].text} runs what it reads")
    texts = [found.target for found in given if found.operator.startswith("<<")]
    if not texts or len(texts) < len(given):
        return Opened((make_undecided(part),))
    return Opened(tuple(inner for text in texts for inner in parse_line(part, text)))


def _get(tokens: tuple[Word, ...], place: int) -> Word | None:
    return tokens[place] if place < len(tokens) else None
