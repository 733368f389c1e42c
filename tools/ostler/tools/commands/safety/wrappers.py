"""Unwraps commands: finds what runs inside `sudo`, `xargs`, `sh -c`, `find -exec` and their like."""

import posixpath
from dataclasses import dataclass, replace
from typing import Final
from weakref import WeakKeyDictionary

from ostler.tools.commands.inner.git_commands import split_name
from ostler.tools.commands.inner.shell_lines import SHELLS, Opened, make_undecided
from ostler.tools.commands.inner.wrapped_commands import FINDERS, count_option_words, open_command
from ostler.tools.commands.inner.wrapper_table import Wrapper, load_wrappers
from ostler.tools.commands.syntax.parsed import ParsedCommand, SimpleCommand
from ostler.tools.commands.syntax.words import Word

__all__ = [
    "SHELLS",
    "OpenedPart",
    "Wrapper",
    "count_option_words",
    "is_fully_resolved",
    "is_undecided",
    "list_programs",
    "load_wrappers",
    "may_run_others",
    "open_all",
    "open_part",
    "unwrap",
    "unwrap_all",
]

_MAX_DEPTH: Final = 8
_MAX_INSIDE: Final = 5_000
_MAX_WORDS: Final = 30_000
"""Commands found inside one, and their words; with more, the rest counts as unknown."""
_MAX_CACHED: Final = 1_000
_opened_cache: Final[WeakKeyDictionary[ParsedCommand, "tuple[OpenedPart, ...]"]] = WeakKeyDictionary()
_last_long: Final[WeakKeyDictionary[ParsedCommand, "tuple[OpenedPart, ...]"]] = WeakKeyDictionary()
"""Of commands with more inside only the last one: a decision needs it several times, and it takes much memory."""
_EVALUATING: Final = frozenset({
    "[[", "test", "[", "let", "printf", "read", "unset", "declare", "typeset", "local", "export", "readonly",
    "mapfile", "readarray", "wait", "getopts",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenedPart:
    """A simple command by its program's bare name, and what it runs; None: it is not known to run others."""

    part: SimpleCommand
    opened: Opened | None


def unwrap(part: SimpleCommand) -> tuple[SimpleCommand, ...]:
    """The part and everything that runs inside it, each with its program's bare name and without git's global options.

    A part whose first word is None stands for a command that is known only at run time.
    """
    return tuple(found.part for found in open_part(part))


def open_part(part: SimpleCommand) -> list[OpenedPart]:
    """The part and everything that runs inside it, with what is known of each."""
    found: list[OpenedPart] = []
    waiting = [(part, 0)]
    words = 0
    while waiting:
        here, depth = waiting.pop()
        words += len(here.tokens) if depth else 0
        if depth > _MAX_DEPTH or len(found) > _MAX_INSIDE or words > _MAX_WORDS:
            found.append(OpenedPart(make_undecided(here), None))
            break
        named = split_name(_strip_program_path(here))
        opened = open_command(named)
        found.append(OpenedPart(named, opened))
        if opened is not None:
            waiting.extend((inner, depth + 1) for inner in opened.commands)
    return found


def open_all(parsed: ParsedCommand) -> tuple[OpenedPart, ...]:
    """All that runs in a command: its parts, and what runs inside them. Cached: a decision needs it several times."""
    found = _opened_cache.get(parsed) or _last_long.get(parsed)
    if found is None:
        found = tuple([inner for part in parsed.parts for inner in open_part(part)])
        if len(found) <= _MAX_CACHED:
            _opened_cache[parsed] = found
        else:
            _last_long.clear()
            _last_long[parsed] = found
    return found


def unwrap_all(parsed: ParsedCommand) -> tuple[SimpleCommand, ...]:
    """The simple commands of `open_all`."""
    return tuple([found.part for found in open_all(parsed)])


def list_programs(parsed: ParsedCommand) -> frozenset[str | None]:
    """The programs that are run; None among them: one is not known."""
    return frozenset(part.words[0] for part in unwrap_all(parsed) if part.tokens)


def is_fully_resolved(parsed: ParsedCommand) -> bool:
    """Whether it is known of every command in it, wrapped ones too, which program it is."""
    if parsed.problem is not None:
        return False
    if _evaluates_hidden_text(parsed):
        return False
    return not any(is_undecided(inner) for inner in unwrap_all(parsed))


def may_run_others(parsed: ParsedCommand) -> bool:
    """Whether one of its parts is a program that runs another, whatever its arguments are."""
    names = {part.words[0] for part in parsed.parts if part.tokens}
    return not names.isdisjoint(SHELLS | FINDERS) or any(name in load_wrappers() for name in names)


def is_undecided(part: SimpleCommand) -> bool:
    """Whether its program is not known. Arithmetic runs none."""
    if not part.tokens or part.tokens[0].kind == "literal":
        return False
    return not part.tokens[0].source.startswith("((")


def _evaluates_hidden_text(parsed: ParsedCommand) -> bool:
    """Arithmetic and subscripts run substitutions in literal text, as in `x='a[$(id)]'; ((x))`."""
    names = {part.tokens[0].literal for part in parsed.parts if part.tokens}
    if "let" not in names and "((" not in parsed.command and "$[" not in parsed.command and not names & _EVALUATING:
        return False
    texts = [token.text for part in parsed.parts for token in part.tokens if token.kind == "literal"]
    texts += [value for part in parsed.parts for _, value in part.assignments if value]
    return any("[" in text and ("$(" in text or "`" in text) for text in texts)


def _strip_program_path(part: SimpleCommand) -> SimpleCommand:
    if not part.tokens or part.tokens[0].kind not in {"literal", "home"}:
        return part
    first = part.tokens[0]
    if first.kind == "literal" and "/" not in first.text:
        return part
    name = posixpath.basename(first.text) or first.text
    return replace(part, tokens=(Word(first.source, name, "literal"), *part.tokens[1:]))
