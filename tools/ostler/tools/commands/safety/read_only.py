"""Decides whether a command only reads: the table has all its simple commands, and all their options."""

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ostler.tools.commands.safety.composites.composite_line import CompositeLine, NotComposite, read_composite
from ostler.tools.commands.safety.fixed_commands import find_chooser
from ostler.tools.commands.safety.git_config import find_git_config_problem
from ostler.tools.commands.safety.glob_expansion import GlobExpansion, expand_globs, has_globs, put_stand_ins
from ostler.tools.commands.safety.network_reads import check_network_words
from ostler.tools.commands.safety.program_table import NotReadOnly, ReadAccess
from ostler.tools.commands.safety.read_only_programs.checksum_lists import find_checksum_problem
from ostler.tools.commands.safety.read_only_programs.git_forms import is_same_repository
from ostler.tools.commands.safety.read_only_programs.listing import find_listing_problem
from ostler.tools.commands.safety.read_only_programs.xargs_command import check_xargs
from ostler.tools.commands.safety.special_programs import check_program
from ostler.tools.commands.syntax.parsed import ParsedCommand, Redirection, SimpleCommand
from ostler.tools.commands.syntax.working_dirs import resolve_folder

_MAX_PARTS: Final = 50
"""More than a person would read; with more of them a command always needs an ask."""

READ_ONLY_ENVIRONMENT: Final = {
    "LESSSECURE": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "MANPAGER": "cat",
    "PAGER": "cat",
    # Neither a toolchain of go.mod nor a release of a package manager that package.json names.
    "GOTOOLCHAIN": "local",
    "COREPACK_ENABLE_PROJECT_SPEC": "0",
    "COREPACK_ENABLE_NETWORK": "0",
    "COREPACK_ENV_FILE": "0",
    "YARN_IGNORE_PATH": "1",
    "RUSTUP_AUTO_INSTALL": "0",
    # No log of each run, and no look for a newer npm.
    "npm_config_logs_max": "0",
    "npm_config_update_notifier": "false",
    "npm_config_offline": "true",
}
"""With these, programs of the table do not run or ask anything that their arguments do not name."""


@dataclass(frozen=True, slots=True)
class ReadOnlyVerdict:
    """The verdict, why, and the part that decided it."""

    ok: bool
    reason: str
    part: str | None
    expansion: GlobExpansion | None = None
    """What its patterns stand for, where it has any: the verdict is about that, and nothing else may run."""


def is_read_only(parsed: ParsedCommand, folder: str, *, network: bool = False) -> ReadOnlyVerdict:
    """Whether the command changes nothing, run in a folder. Blocks where it has patterns, git or found files.

    `network`: what needs a socket or the network only to look counts as well.
    """
    if is_composite(parsed) and not network:
        return _judge_composite(parsed, folder)
    accesses = _check_parts(parsed, network=network)
    if isinstance(accesses, ReadOnlyVerdict):
        return accesses
    expansion: GlobExpansion | None = None
    if has_globs(parsed):
        try:
            expansion = expand_globs(parsed, folder)
        except NotReadOnly as error:
            return ReadOnlyVerdict(ok=False, reason=str(error), part=None)
        accesses = _check_parts(expansion.parsed, network=network)
        if isinstance(accesses, ReadOnlyVerdict):
            return accesses
    return _check_disk(accesses, folder) or _build_yes(expansion)


def _check_disk(accesses: Sequence[tuple[SimpleCommand, ReadAccess]], folder: str) -> ReadOnlyVerdict | None:
    for part, access in accesses:
        problem = _find_problem_on_disk(part, access, folder)
        if problem is not None:
            return ReadOnlyVerdict(ok=False, reason=problem, part=part.text)
    return None


def _build_yes(expansion: GlobExpansion | None) -> ReadOnlyVerdict:
    return ReadOnlyVerdict(ok=True, reason="every part of it only reads", part=None, expansion=expansion)


def seems_read_only(parsed: ParsedCommand) -> bool:
    """The same by its text alone, without a look at the folder that it runs in."""
    if is_composite(parsed):
        try:
            composite = read_composite(parsed.command, None)
            _check_composite(composite)
        except (NotComposite, NotReadOnly):
            return False
        return True
    return not isinstance(_check_parts(parsed), ReadOnlyVerdict)


def is_composite(parsed: ParsedCommand) -> bool:
    """Whether more may be in it than plain commands, so that it is read and written anew."""
    return parsed.problem is None and not parsed.agreed and len(parsed.parts) <= _MAX_PARTS


def _judge_composite(parsed: ParsedCommand, folder: str) -> ReadOnlyVerdict:
    """A line with loops, conditions or substitutions: what runs in its place is judged."""
    try:
        # By its text first: only what may pass is worth a look at the disk.
        _check_composite(read_composite(parsed.command, None))
        composite = read_composite(parsed.command, folder)
        accesses = _check_composite(composite)
        expansion = GlobExpansion(composite.parsed, {})
        if has_globs(composite.parsed):
            expansion = expand_globs(composite.parsed, folder)
            accesses += _check_composite(composite, expansion.parsed.parts)
        expansion = replace(expansion, literal=composite.write(expansion.words))
    except NotComposite as error:
        return ReadOnlyVerdict(ok=False, reason=f"it is not a plain command: {error}", part=None)
    except NotReadOnly as error:
        return ReadOnlyVerdict(ok=False, reason=str(error), part=None)
    return _check_disk(accesses, folder) or _build_yes(expansion)


def _check_composite(
    composite: CompositeLine, parts: Sequence[SimpleCommand] | None = None
) -> list[tuple[SimpleCommand, ReadAccess]]:
    """What each part of it reads, also where its substitutions give nothing. Raises NotReadOnly."""
    found: list[tuple[SimpleCommand, ReadAccess]] = []
    parts = composite.parsed.parts if parts is None else parts
    for leaf, part in zip(composite.leaves, parts, strict=True):
        before = () if leaf.before is None else tuple(parts[number] for number in leaf.before)
        found += [(each, check_part(each, before)) for each in (part, *leaf.variants)]
    return found


def _check_parts(
    parsed: ParsedCommand, *, network: bool = False
) -> list[tuple[SimpleCommand, ReadAccess]] | ReadOnlyVerdict:
    """What each part reads; where one may do more, that."""
    if parsed.problem is not None:
        return ReadOnlyVerdict(ok=False, reason=f"it is not fully understood: {parsed.problem}", part=None)
    if not parsed.agreed:
        return ReadOnlyVerdict(ok=False, reason="it is not a plain command", part=None)
    if len(parsed.parts) > _MAX_PARTS:
        return ReadOnlyVerdict(ok=False, reason=f"it has more than {_MAX_PARTS} parts", part=None)
    found: list[tuple[SimpleCommand, ReadAccess]] = []
    for part, before in _list_with_pipelines(parsed):
        try:
            found.append((part, check_part(part, before, network=network)))
        except NotReadOnly as error:
            return ReadOnlyVerdict(ok=False, reason=str(error), part=part.text)
    return found


def part_is_read_only(part: SimpleCommand) -> bool:
    """Whether one part of a command only reads, as far as its words tell; git does so only with its guard."""
    try:
        access = check_part(part)
        return not _needs_disk(access) and not has_heredoc(part)
    except NotReadOnly:
        return False


def has_heredoc(part: SimpleCommand) -> bool:
    """Whether a here-document is its input, which counts only where both parsers agree on the whole line."""
    return any(found.operator in {"<<", "<<-"} for found in part.redirections)


def _needs_disk(access: ReadAccess) -> bool:
    """Whether it runs on files that are found or listed, or a file may choose what it runs."""
    return access.listing is not None or bool(access.choosers) or bool(access.checksums)


def explain_not_read_only(part: SimpleCommand, before: Sequence[SimpleCommand] = ()) -> str | None:
    """What one part of a command may do besides reading, behind others in a pipeline; None where it only reads."""
    try:
        check_part(part, before)
    except NotReadOnly as error:
        return str(error)
    return None


def explain_parts(parsed: ParsedCommand) -> list[tuple[SimpleCommand, str | None]]:
    """The same for each part of a command."""
    return [(part, explain_not_read_only(part, before)) for part, before in _list_with_pipelines(parsed)]


def _list_with_pipelines(parsed: ParsedCommand) -> Iterator[tuple[SimpleCommand, Sequence[SimpleCommand]]]:
    """Each part, with those before it in its pipeline."""
    first = 0
    for place, part in enumerate(parsed.parts):
        # Without groups, which are not plain, the parts of a pipeline stand one behind the other.
        first = first if "pipe" in part.inside else place
        yield part, parsed.parts[first:place] if parsed.plain else ()


def check_part(part: SimpleCommand, before: Sequence[SimpleCommand] = (), *, network: bool = False) -> ReadAccess:
    """What a part reads, behind others in a pipeline. Raises NotReadOnly where it may do more than read."""
    if part.assignments:
        raise NotReadOnly("it sets a variable")
    if part.inside & {"function", "substitution", "background", "loop"}:
        raise NotReadOnly("it is not a plain command")
    for found in part.redirections:
        if not found.copies and not _is_null(found) and not _reads_file(found):
            raise NotReadOnly(f"it redirects to or from {found.target.source}")
    if before and part.words[:1] == ("xargs",):
        return check_xargs(tuple(map(put_stand_ins, (*before, part))), check_program)
    try:
        return check_words(put_stand_ins(part))
    except NotReadOnly:
        if not network:
            raise
    return check_network_words(part.tokens)


def _is_null(found: Redirection) -> bool:
    return found.operator in _NULL_OPERATORS and found.target.literal == "/dev/null"


def _reads_file(found: Redirection) -> bool:
    """`< file`. Below /dev the shell would open a socket. `<<< text` and a here-document are the text itself."""
    target = found.target
    if found.operator.startswith("<<"):
        return found.fd in {"", "0"} and target.kind == "literal"
    devices = posixpath.normpath(target.text).lstrip("/").partition("/")[0] == "dev" and target.text.startswith("/")
    return found.operator == "<" and found.fd in {"", "0"} and target.kind in {"literal", "home"} and not devices


def check_words(part: SimpleCommand) -> ReadAccess:
    """The same by the program and its arguments alone."""
    return check_program(part.tokens)


def may_be_chosen(part: SimpleCommand) -> bool:
    """Whether a file of the project may choose what it runs, so that whether it only reads needs a look at the disk."""
    try:
        return bool(check_words(part).choosers)
    except NotReadOnly:
        return False


_NULL_OPERATORS: Final = frozenset({">", ">>", "&>", "&>>", ">|", ">&", "<"})


def needs_git_guard(parsed: ParsedCommand) -> bool:
    """Whether git runs in it, so that the guard's variables have to be set."""
    return any(map(_runs_git, parsed.parts))


def _find_problem_on_disk(part: SimpleCommand, access: ReadAccess, folder: str) -> str | None:
    git = access.git or _runs_git(part)
    if not git and not _needs_disk(access):
        return None
    if part.folders is None:
        return "it is not known in which folder it would run"
    for place in part.folders:
        here = resolve_folder(folder, place)
        problem = find_listing_problem(access.listing, here) if access.listing is not None else None
        problem = problem or find_checksum_problem(access.checksums, here)
        problem = problem or (_find_git_problem(access, here) if git else None)
        if problem is None and (chooser := find_chooser(access.choosers, here)) is not None:
            problem = f"{chooser} chooses what it runs"
        if problem is not None:
            return problem
    return None


def _runs_git(part: SimpleCommand) -> bool:
    return bool(part.tokens) and part.tokens[0].literal == "git"


def _find_git_problem(access: ReadAccess, here: str) -> str | None:
    if access.git_folder is None:
        return find_git_config_problem(here)
    there = posixpath.join(here, access.git_folder.text)
    if not is_same_repository(here, there):
        return f"{access.git_folder.source} is another repository"
    return find_git_config_problem(here) or find_git_config_problem(there)
