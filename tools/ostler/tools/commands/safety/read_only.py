"""Whether a command only reads: every simple command of it stands in the table, with options that the table has."""

from dataclasses import dataclass
from functools import cache
from typing import Final

from ostler.tools.commands.safety.git_config import git_config_problem
from ostler.tools.commands.safety.program_table import Refused, programs
from ostler.tools.commands.safety.special_programs import SPECIAL, Harmless, by_options
from ostler.tools.commands.syntax.parsed import Part, Reading
from ostler.tools.commands.syntax.working_dirs import resolved

_MAX_PARTS: Final = 50
"""More than a person would read; above it nothing passes unasked."""


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """The verdict, why, and the part that decided it."""

    ok: bool
    reason: str
    part: str | None


def is_read_only(reading: Reading, folder: str) -> ReadOnly:
    """Whether the command changes nothing, run in a folder. Looks at the repository where git runs."""
    if reading.problem is not None:
        return ReadOnly(ok=False, reason=f"it is not fully understood: {reading.problem}", part=None)
    if not reading.plain:
        return ReadOnly(ok=False, reason="it is not a plain command", part=None)
    if len(reading.parts) > _MAX_PARTS:
        return ReadOnly(ok=False, reason=f"it has more than {_MAX_PARTS} parts", part=None)
    for part in reading.parts:
        try:
            judged(part)
        except Refused as error:
            return ReadOnly(ok=False, reason=str(error), part=part.text)
    return _git_verdict(reading, folder)


def part_is_read_only(part: Part) -> bool:
    """Whether one part of a command would pass; of git only with its guard."""
    return why_not_read_only(part) is None


def why_not_read_only(part: Part) -> str | None:
    """What one part of a command may do beside reading; null where that is nothing."""
    try:
        judged(part)
    except Refused as error:
        return str(error)
    return None


def judged(part: Part) -> Harmless:
    """What a part reads. Raises Refused where it may do more than read."""
    if part.assignments:
        raise Refused("it sets a variable")
    if part.inside & {"function", "substitution", "background", "loop"}:
        raise Refused("it is not a plain command")
    for found in part.redirections:
        if not found.copies and not (found.operator in _TO_NOWHERE and found.target.literal == "/dev/null"):
            raise Refused(f"it redirects to or from {found.target.source}")
    return judged_by_words(part)


def judged_by_words(part: Part) -> Harmless:
    """The same by the program and its arguments alone."""
    name = part.words[0] if part.words else None
    if name is None:
        raise Refused("its program is not known")
    words = part.literal_words
    if words is not None and " ".join(words) in _versions():
        return Harmless()
    program = programs().get(name)
    if program is None:
        raise Refused(f"{name} is not in the table of programs that only read")
    arguments = part.tokens[1:]
    return SPECIAL[program.special](arguments) if program.special else by_options(program, arguments)


@cache
def _versions() -> frozenset[str]:
    return frozenset(programs()["versions"].exact)


_TO_NOWHERE: Final = frozenset({">", ">>", "&>", "&>>", ">|", ">&", "<"})


def needs_git_guard(reading: Reading) -> bool:
    """Whether git runs in it, so that the guard's variables have to be set."""
    return any(part.tokens and part.tokens[0].literal == "git" for part in reading.parts)


def _git_verdict(reading: Reading, folder: str) -> ReadOnly:
    for part in reading.parts:
        if not part.tokens or part.tokens[0].literal != "git":
            continue
        if part.folders is None:
            return ReadOnly(ok=False, reason="it is not known in which repository git would run", part=part.text)
        for place in part.folders:
            problem = git_config_problem(resolved(folder, place))
            if problem is not None:
                return ReadOnly(ok=False, reason=problem, part=part.text)
    return ReadOnly(ok=True, reason="every part of it only reads", part=None)
