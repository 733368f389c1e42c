"""Decides whether a command only reads: the table has all its simple commands, and all their options."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from ostler.tools.commands.safety.git_config import find_git_config_problem
from ostler.tools.commands.safety.glob_expansion import GlobExpansion, expand_globs, has_globs, put_stand_ins
from ostler.tools.commands.safety.program_table import NotReadOnly, load_programs
from ostler.tools.commands.safety.special_programs import SPECIAL, ReadAccess, check_options
from ostler.tools.commands.syntax.parsed import ParsedCommand, SimpleCommand
from ostler.tools.commands.syntax.working_dirs import resolve_folder

_MAX_PARTS: Final = 50
"""More than a person would read; with more of them a command always needs an ask."""


@dataclass(frozen=True, slots=True)
class ReadOnlyVerdict:
    """The verdict, why, and the part that decided it."""

    ok: bool
    reason: str
    part: str | None
    expansion: GlobExpansion | None = None
    """What its patterns stand for, where it has any: the verdict is about that, and nothing else may run."""


def is_read_only(parsed: ParsedCommand, folder: str) -> ReadOnlyVerdict:
    """Whether the command changes nothing, run in a folder. Blocks where it has patterns, or git runs."""
    if parsed.problem is not None:
        return ReadOnlyVerdict(ok=False, reason=f"it is not fully understood: {parsed.problem}", part=None)
    if not parsed.plain:
        return ReadOnlyVerdict(ok=False, reason="it is not a plain command", part=None)
    if len(parsed.parts) > _MAX_PARTS:
        return ReadOnlyVerdict(ok=False, reason=f"it has more than {_MAX_PARTS} parts", part=None)
    for part in parsed.parts:
        try:
            check_part(part)
        except NotReadOnly as error:
            return ReadOnlyVerdict(ok=False, reason=str(error), part=part.text)
    try:
        expansion = expand_globs(parsed, folder) if has_globs(parsed) else None
        for part in expansion.parsed.parts if expansion is not None else ():
            check_part(part)
    except NotReadOnly as error:
        return ReadOnlyVerdict(ok=False, reason=str(error), part=None)
    return replace(_check_git(parsed, folder), expansion=expansion)


def part_is_read_only(part: SimpleCommand) -> bool:
    """Whether one part of a command only reads; git does so only with its guard."""
    return explain_not_read_only(part) is None


def explain_not_read_only(part: SimpleCommand) -> str | None:
    """What one part of a command may do besides reading; None where it only reads."""
    try:
        check_part(part)
    except NotReadOnly as error:
        return str(error)
    return None


def check_part(part: SimpleCommand) -> ReadAccess:
    """What a part reads. Raises NotReadOnly where it may do more than read."""
    if part.assignments:
        raise NotReadOnly("it sets a variable")
    if part.inside & {"function", "substitution", "background", "loop"}:
        raise NotReadOnly("it is not a plain command")
    for found in part.redirections:
        if not found.copies and not (found.operator in _NULL_OPERATORS and found.target.literal == "/dev/null"):
            raise NotReadOnly(f"it redirects to or from {found.target.source}")
    return check_words(put_stand_ins(part))


def check_words(part: SimpleCommand) -> ReadAccess:
    """The same by the program and its arguments alone."""
    name = part.words[0] if part.words else None
    if name is None:
        raise NotReadOnly("its program is not known")
    words = part.literal_words
    if words is not None and " ".join(words) in _load_version_commands():
        return ReadAccess()
    program = load_programs().get(name)
    if program is None:
        raise NotReadOnly(f"{name} is not in the table of programs that only read")
    arguments = part.tokens[1:]
    return SPECIAL[program.special](arguments) if program.special else check_options(program, arguments)


@cache
def _load_version_commands() -> frozenset[str]:
    return frozenset(load_programs()["versions"].exact)


_NULL_OPERATORS: Final = frozenset({">", ">>", "&>", "&>>", ">|", ">&", "<"})


def needs_git_guard(parsed: ParsedCommand) -> bool:
    """Whether git runs in it, so that the guard's variables have to be set."""
    return any(part.tokens and part.tokens[0].literal == "git" for part in parsed.parts)


def _check_git(parsed: ParsedCommand, folder: str) -> ReadOnlyVerdict:
    for part in parsed.parts:
        if not part.tokens or part.tokens[0].literal != "git":
            continue
        if part.folders is None:
            return ReadOnlyVerdict(ok=False, reason="it is not known in which repository git would run", part=part.text)
        for place in part.folders:
            problem = find_git_config_problem(resolve_folder(folder, place))
            if problem is not None:
                return ReadOnlyVerdict(ok=False, reason=problem, part=part.text)
    return ReadOnlyVerdict(ok=True, reason="every part of it only reads", part=None)
