"""Suggests rules that would allow a command, and recognises the file commands that the mode acceptEdits allows."""

import re
import shlex
from collections.abc import Sequence
from functools import cache
from typing import Final

from ostler.tools.commands.effects.file_programs import load_file_programs
from ostler.tools.commands.rules.match import rule_allows
from ostler.tools.commands.safety.program_table import load_toml
from ostler.tools.commands.safety.read_only import needs_git_guard, part_is_read_only
from ostler.tools.commands.safety.transparent_wrappers import strip_wrappers
from ostler.tools.commands.syntax.parsed import ParsedCommand, SimpleCommand

_MAX_RULES: Final = 5
_MAX_LENGTH: Final = 500
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*")
SIMPLE_FILE_COMMANDS: Final = frozenset({"mkdir", "touch", "cp", "mv", "rm", "rmdir", "sed"})
"""What acceptEdits allows inside the roots, with simple options only."""
_MAKES_NO_LINK: Final = frozenset({"mkdir", "touch"})
_SUBSTITUTE: Final = re.compile(r"s([/|#,:@])((?:(?!\1)[^\\\n]|\\[^\n])*)\1((?:(?!\1)[^\\\n]|\\[^\n])*)\1[gIip0-9]*")


def suggest_rules(parsed: ParsedCommand) -> list[str]:
    """Rule contents that would allow the command next time: one for each part that is not read-only.

    Empty where no rule would do, or more than five would be needed.
    """
    if parsed.problem is not None or any("function" in part.inside for part in parsed.parts):
        return []
    known: dict[str, None] = {}
    too_many = False
    for part in parsed.parts:
        if not part.tokens or part_is_read_only(part):
            continue
        rule = _suggest_rule(part)
        if rule is None:
            return _suggest_whole_line(parsed)
        known[rule] = None
        too_many = len(known) > _MAX_RULES
        if too_many and len(parsed.command) > _MAX_LENGTH:
            break  # neither rules for its parts nor one for the whole line
    return [] if too_many else list(known)


def _suggest_whole_line(parsed: ParsedCommand) -> list[str]:
    command = parsed.command.strip()
    return [command] if len(command) <= _MAX_LENGTH and "*" not in command else []


def _suggest_rule(part: SimpleCommand) -> str | None:
    inner = strip_wrappers(part)
    words = inner.literal_words if inner is not None else None
    if not words:
        return None
    prefix = _find_prefix(words)
    rule = f"{' '.join(prefix)}:*" if prefix else shlex.join(words)
    if (not prefix and "*" in rule) or len(rule) > _MAX_LENGTH or not rule_allows(rule, part):
        return None
    return rule


@cache
def _load_prefixes() -> dict[str, int]:
    found: dict[str, int] = load_toml("prefixes.toml")["prefixes"]
    return found


def _find_prefix(words: Sequence[str]) -> Sequence[str] | None:
    """The words that may be followed by anything; None: only the whole command."""
    known = _load_prefixes()
    for length in (2, 1):
        if len(words) >= length and (taken := known.get(" ".join(words[:length]))) is not None:
            prefix = words[:taken]
            fits = len(prefix) == taken and all(_WORD.fullmatch(word) for word in prefix)
            return prefix if fits else None
    return None


def is_simple_file_command(part: SimpleCommand) -> bool:
    """Whether it only creates, copies, moves, removes or edits the files that it names, one by one."""
    words = part.literal_words
    if words is None or len(words) < 2 or part.assignments or part.inside - {"pipe"}:
        return False
    if words[0] not in SIMPLE_FILE_COMMANDS or any(found.writes for found in part.redirections):
        return False
    if words[0] == "sed":
        return _edits_in_place(words[1:])
    return _has_only(words[1:], load_file_programs()[words[0]].simple)


def has_only_simple_file_commands(parsed: ParsedCommand) -> bool:
    """Whether every part is read-only or a simple file command, and the parts' paths can be checked beforehand.

    A part may move a link to a name that a later part writes through: so only one may do more than create.
    """
    # git would run without its guard, and with whatever the repository's configuration names.
    if not parsed.plain or needs_git_guard(parsed):
        return False
    changing = [part for part in parsed.parts if not part_is_read_only(part)]
    moving = [part for part in changing if part.words[0] not in _MAKES_NO_LINK]
    return all(is_simple_file_command(part) for part in changing) and bool(changing) and len(moving) <= 1


def _has_only(words: Sequence[str], allowed: Sequence[str]) -> bool:
    options = [word for word in words if word.startswith("-") and word != "--"]
    letters = {option[1] for option in allowed if not option.startswith("--")}
    known = all(
        option in allowed or (option[:2] != "--" and len(option) > 1 and set(option[1:]) <= letters)
        for option in options
    )
    return known and len(words) > len(options) + words.count("--")


def _edits_in_place(words: Sequence[str]) -> bool:
    """`sed -i 's/a/b/' FILE…`: of sed's own commands only the plain substitution."""
    rest = [word for word in words if word not in {"-i", "-E", "-r"}]
    if "-i" not in words or len(rest) < 2 or any(word.startswith("-") for word in rest):
        return False
    return _SUBSTITUTE.fullmatch(rest[0]) is not None
