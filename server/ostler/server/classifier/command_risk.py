"""Finds what makes a command high risk, in what the parser understood of it."""

import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from ostler.server.classifier.tables import load_table
from ostler.tools.commands import (
    ParsedCommand,
    SimpleCommand,
    find_file_accesses,
    find_forbidding_rule,
    is_simple_file_command,
    may_match_when_run,
    sets_dangerous_variable,
    unwrap,
)
from ostler.tools.commands.effects.file_programs import load_file_programs
from ostler.tools.fs import paths

_MAX_PARTS: Final = 50
_MAX_INSIDE: Final = 200
"""Parts with all that runs inside them; no command that a person would read has as many."""
_IN_WORD: Final = re.compile(r"[=:,@]")
_HIDDEN_PATTERN: Final = re.compile(r"(?:^|/)\.[^/]*[*?\[{$]")


def find_command_risk(reading: ParsedCommand, folder: str, roots: Sequence[str]) -> str | None:
    """Why a person has to see a command that would start in a folder."""
    if reading.problem is not None:
        return f"it is not fully understood: {reading.problem}"
    inner = list(_list_inner_parts(reading))
    if len(reading.parts) > _MAX_PARTS or len(inner) > _MAX_INSIDE:
        return "it has more parts than anybody would read"
    if runs_download(inner):
        return "it runs what it downloads"
    return _check_tables(reading) or _check_parts(inner) or _check_places(reading, folder, roots)


def list_command_names(reading: ParsedCommand, folder: str) -> Iterator[str]:
    """What a command may name as a file: its words without their quotes, and where its patterns and links lead now."""
    for found in find_file_accesses(reading, folder):
        yield from (found.path, paths.resolve_path(found.path))
    for part in _list_inner_parts(reading):
        words = [*part.tokens, *(found.target for found in part.redirections)]
        for text in [*(word.text for word in words), *(value or "" for _, value in part.assignments)]:
            yield text
            yield from _IN_WORD.split(text)


def runs_download(inner: Sequence[SimpleCommand]) -> bool:
    """Whether something in it fetches, and something else runs what it is given."""
    names = {part.tokens[0].literal for part in inner if part.tokens}
    tables = load_table("risk.toml")
    return bool(names & set(tables["downloaders"])) and bool(names & set(tables["interpreters"]))


def _list_inner_parts(reading: ParsedCommand) -> Iterator[SimpleCommand]:
    for part in reading.parts:
        yield from unwrap(part)


@cache
def _load_rules() -> dict[str, str]:
    """Every rule of the table, and its reason."""
    return {rule: group["why"] for group in load_table("risk.toml")["commands"] for rule in group["rules"]}


def _check_tables(reading: ParsedCommand) -> str | None:
    rules = _load_rules()
    found = find_forbidding_rule(reading, list(rules))
    if found is not None:
        return f"{rules[found]} ({found.removesuffix(':*')})"
    # A program known only at run time may be any; such a word may be the one that a rule names, where it is first.
    if may_match_when_run(reading, [rule for rule in rules if rule.endswith(":*")]):
        return "only the run decides what it does"
    return None


def _check_parts(inner: Sequence[SimpleCommand]) -> str | None:
    for part in inner:
        if sets_dangerous_variable(part):
            return "it sets a variable that decides what runs"
        name = part.tokens[0].literal if part.tokens else None
        if name in load_table("risk.toml")["deleting"] and not is_simple_file_command(part):
            return f"it deletes or moves more than a few named files ({name})"
        if name in load_table("risk.toml")["downloaders"] and not _only_fetches(part):
            return f"it may send something to another machine ({name})"
        if any(token.kind != "literal" and _HIDDEN_PATTERN.search(token.source) for token in part.tokens):
            return "a pattern in it may name hidden files"
        if _writes_unknown_file(part):
            return "only the run decides which file it writes"
    return None


def _only_fetches(part: SimpleCommand) -> bool:
    """Options from the table, and addresses that are literal: an expansion could carry anything away."""
    words = part.literal_words
    if words is None:
        return False
    tables = load_table("risk.toml")
    letters = set(tables["download_letters"])
    options = [word for word in words[1:] if word.startswith("-")]
    return all(option in tables["download_options"] or set(option[1:]) <= letters for option in options)


def _writes_unknown_file(part: SimpleCommand) -> bool:
    """It writes a file, and which one is not known beforehand."""
    writing = [found for found in part.redirections if found.writes]
    if any(found.target.kind == "unknown" or found.folders is None for found in writing):
        return True
    program = load_file_programs().get(part.tokens[0].literal or "") if part.tokens else None
    if program is None or (program.writes == "none" and not program.writes_to and program.transfer is None):
        return False
    return part.folders is None or any(token.kind == "unknown" for token in part.tokens)


def _check_places(reading: ParsedCommand, folder: str, roots: Sequence[str]) -> str | None:
    for part in reading.parts:
        if part.folders is None:
            return "only the run decides in which folder it runs"
        for place in part.folders:
            if not _is_inside(posixpath.join(folder, place), roots):
                return "it runs in a folder outside the project"
    harmless = load_table("risk.toml")["harmless_devices"]
    for found in find_file_accesses(reading, folder):
        if found.writes and found.path not in harmless and not _is_inside(found.path, roots):
            return "it writes or deletes outside the project"
    return None


def _is_inside(path: str, roots: Sequence[str]) -> bool:
    return "\0" not in path and paths.is_inside_any(paths.resolve_path(path), roots)
