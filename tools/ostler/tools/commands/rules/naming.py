"""Whether the words of a command say which files its redirections write."""

from collections.abc import Iterator

from ostler.tools.commands.rules.match import sets_dangerous_variable
from ostler.tools.commands.syntax.parsed import Reading, Redirection


def names_its_files(reading: Reading) -> bool:
    """Whether each file that a redirection writes is known beforehand: neither an expansion nor a folder hides it."""
    return all(_is_absolute(found) or _is_relative(found) for found in _writing(reading))


def named_absolutely(reading: Reading) -> frozenset[str]:
    """The files, written by redirections, that are the same wherever the command runs; `~` is not filled in."""
    if any(map(sets_dangerous_variable, reading.parts)):
        # With another HOME, `~` is another folder.
        return frozenset()
    return frozenset(found.target.text for found in _writing(reading) if _is_absolute(found))


def _writing(reading: Reading) -> Iterator[Redirection]:
    return (found for part in reading.parts for found in part.redirections if found.writes)


def _is_absolute(found: Redirection) -> bool:
    return found.target.kind == "home" or (found.target.kind == "literal" and found.target.text.startswith("/"))


def _is_relative(found: Redirection) -> bool:
    return found.target.kind == "literal" and bool(found.target.text) and found.folders is not None
