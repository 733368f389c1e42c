"""Expands the patterns of a read-only command, and writes the text that runs: the names that were found, quoted."""

import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ostler.tools.commands.safety.program_table import NotReadOnly
from ostler.tools.commands.syntax.globs import GlobLimits, NotExpandable, expand_glob, strip_glob_quotes
from ostler.tools.commands.syntax.parsed import ParsedCommand, SimpleCommand, make_literal_word
from ostler.tools.commands.syntax.strict_parser import find_word_spans
from ostler.tools.commands.syntax.words import Word
from ostler.tools.commands.syntax.working_dirs import resolve_folder

_OPTION_SIGNS: Final = ("-", "+")
_OPTION_WITH_TEXT: Final = re.compile(r"--[a-z][a-z-]*=")
_PATTERN_SIGNS: Final = re.compile(r"[*?]+|\[[^/\]]*\]?|\]")


@dataclass(frozen=True, slots=True)
class GlobExpansion:
    """A command with the names that its patterns found in the place of the patterns."""

    parsed: ParsedCommand
    words: Mapping[tuple[int, int], tuple[str, ...]]
    """What each pattern became, by the part that it is in and its place there."""
    literal: str | None = None
    """The whole text that runs, where it is another one than the command with its patterns expanded."""
    paths: tuple[str, ...] = ()
    """All that was found, absolute but not resolved: also what the program takes for mere text is shown by its name."""


def has_globs(parsed: ParsedCommand) -> bool:
    """Whether a word of it is a pattern; whether it finds anything is known only by a look at the disk."""
    return any(token.kind == "glob" for part in parsed.parts for token in part.tokens)


def may_become_option(token: Word) -> bool:
    """Whether the shell may make an option of it, or go up from what it finds: such a pattern only we may expand."""
    if token.kind != "glob" or _OPTION_WITH_TEXT.match(token.text):
        return False
    return token.text[0] in "*?[-+" or ".." in token.text.split("/")


def put_stand_ins(part: SimpleCommand) -> SimpleCommand:
    """The part with a name in place of each pattern, for a first look without the disk."""
    if not any(token.kind == "glob" for token in part.tokens):
        return part
    tokens = (
        make_literal_word(_PATTERN_SIGNS.sub("x", token.text)) if token.kind == "glob" else token
        for token in part.tokens
    )
    return replace(part, tokens=tuple(tokens))


def expand_globs(parsed: ParsedCommand, folder: str) -> GlobExpansion:
    """The command, run in a folder, with its patterns expanded. Blocks. Raises NotReadOnly where that is not safe."""
    limits, found, parts = GlobLimits(), dict[tuple[int, int], tuple[str, ...]](), list[SimpleCommand]()
    paths = dict[str, None]()
    for number, part in enumerate(parsed.parts):
        tokens: list[Word] = []
        for place, token in enumerate(part.tokens):
            if token.kind == "glob":
                here = _find_folder(token, part, folder)
                names = expand_word(token, here, limits)
                paths.update(dict.fromkeys(posixpath.join(here, name) for name in names))
                found[number, place] = names = names or (strip_glob_quotes(token),)
                tokens += map(make_literal_word, names)
            else:
                tokens.append(token)
        parts.append(replace(part, tokens=tuple(tokens)))
    return GlobExpansion(replace(parsed, parts=tuple(parts)), found, paths=tuple(paths))


def _find_folder(token: Word, part: SimpleCommand, folder: str) -> str:
    if part.folder is None or (part.words and part.words[0] == "cd"):
        # Where `cd` leads to decides what all later words mean.
        raise NotReadOnly(f"the folder is not known in which {token.source} is looked for")
    return resolve_folder(folder, part.folder)


def expand_word(token: Word, folder: str, limits: GlobLimits) -> tuple[str, ...]:
    """What a pattern finds; nothing where there is nothing. Blocks. Raises NotReadOnly where that is not safe."""
    try:
        names = expand_glob(token, folder, limits)
    except NotExpandable as error:
        raise NotReadOnly(str(error)) from None
    for name in names:
        if name.startswith(_OPTION_SIGNS) and not _OPTION_WITH_TEXT.match(token.text):
            raise NotReadOnly(f"{token.source} finds {name}, which looks like an option")
        if not name.isprintable():
            raise NotReadOnly(f"{token.source} finds a name with characters that cannot be shown")
    return tuple(names)


def write_literally(parsed: ParsedCommand, expansion: GlobExpansion | None) -> str:
    """The text of a plain command in which the shell has nothing left to decide.

    Each pattern is what it was expanded to, and each other literal word is quoted as we understood it.
    """
    if expansion is not None and expansion.literal is not None:
        return expansion.literal
    pieces, end = list[str](), 0
    for number, place, begin, after in find_word_spans(parsed.command):
        token = parsed.parts[number].tokens[place]
        pieces += [
            parsed.command[end:begin],
            write_word(token, expansion.words.get((number, place)) if expansion else None),
        ]
        end = after
    return "".join((*pieces, parsed.command[end:]))


def _quote(name: str) -> str:
    # A bare number before a redirection would be its descriptor.
    return f"'{name}'" if name.isdecimal() else shlex.quote(name)


def write_word(token: Word, names: tuple[str, ...] | None) -> str:
    """A word in which the shell has nothing left to decide: what a pattern stands for, or what is literal, quoted."""
    if names is not None:
        return " ".join(map(_quote, names))
    if token.kind != "literal":
        return token.source
    quoted = shlex.quote(token.text)
    # What was quoted stays so: a bare word may be an alias or a keyword.
    return quoted if quoted != token.text else token.source
