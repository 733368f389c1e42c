"""Bash's own permission check of a command: whether it only reads, edits inside the roots, or touches guarded files."""

import os
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

from ostler.protocol.patterns import compile_later
from ostler.tools import commands
from ostler.tools.commands import FileAccess, FileAction, ParsedCommand, SimpleCommand
from ostler.tools.context import SessionView
from ostler.tools.fs import paths
from ostler.tools.permissions.guards import GuardCheck, find_known_guard
from ostler.tools.permissions.subject import OWN_STREAMS, AccessedPath, CommandSubject, build_command_subject
from ostler.tools.sandbox import NotProtectable, check_protection
from ostler.tools.sandbox.policy import SandboxMissing, choose_confinement
from ostler.tools.shell.approval_binding import ApprovalBinding
from ostler.tools.shell.named_files import runs_files
from ostler.tools.text import fit_text, one_line
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Activity, Allow, AskFirst, Check

Key = TypeVar("Key")
Value = TypeVar("Value")
if TYPE_CHECKING:
    from ostler.tools.commands import ReadOnlyVerdict

_MAX_REMEMBERED: Final = 1_000
"""Calls that can wait for their permission at one time."""

_QUICK_LENGTH: Final = 2_048
_QUICK_SIGNS: Final = 100
"""What makes a command slow to parse: a thousand parts fit into two thousand characters, and take 60 ms."""
_SIGNS: Final = compile_later(r"[^A-Za-z0-9_./:=@%+,^ -]")
_FOLDER_COMMANDS: Final = frozenset({"cd", "pushd", "popd"})
_HARMLESS_FILES: Final = OWN_STREAMS | {"/dev/null", "/dev/tty"}
_MACHINE_FILES: Final = frozenset({
    "/proc/cpuinfo", "/proc/meminfo", "/proc/version", "/proc/loadavg", "/proc/uptime", "/etc/os-release",
    "/usr/lib/os-release",
})  # fmt: skip
"""What `lscpu`, `free`, `uname`, `uptime` and `lsb_release` show as well."""
_VERBS: Final[dict[FileAction, str]] = {
    "read": "reads",
    "write": "writes",
    "create": "writes",
    "move": "moves",
    "link": "links",
    "delete": "deletes",
}
_DEVICE_FOLDERS: Final = ("/dev/", "/proc/", "/sys/")
"""Writing there reaches a device, a socket or the kernel."""
parse_command = commands.parse_command
"""Parses a command; short ones are cached, since each is looked at several times."""
_SEARCHES: Final = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "find", "which", "type", "command"})
_READS: Final = frozenset({
    "cat", "head", "tail", "nl", "wc", "stat", "file", "strings", "od", "xxd", "hexdump", "cmp", "diff", "cut", "sort",
    "uniq", "tr", "jq", "sed", "column", "md5sum", "sha1sum", "sha256sum", "readlink", "realpath",
})  # fmt: skip
_LISTS: Final = frozenset({"ls", "tree", "du", "df"})
# Commands that do not count beside others; alone they are of the kind "run".
_NEUTRAL: Final = frozenset({"echo", "printf", "true", "false", ":", "cd", "pwd", "test", "["})
_KINDS: Final[tuple[tuple[Activity, frozenset[str]], ...]] = (
    ("search", _SEARCHES),
    ("read", _READS),
    ("list", _LISTS),
)


def is_longer(command: str, most_bytes: int) -> bool:
    # A character has a byte at least: what is far too long need not be encoded.
    return len(command) > most_bytes or len(command.encode("utf-8", "surrogatepass")) > most_bytes


def is_quick_to_parse(command: str) -> bool:
    """Whether it is parsed so quickly that the event loop may do it."""
    return len(command) <= _QUICK_LENGTH and len(_SIGNS.findall(command)) <= _QUICK_SIGNS


async def parse_ahead(command: str) -> None:
    """Parses in a thread what takes long to parse, so that it is in the cache when somebody needs it."""
    if not is_quick_to_parse(command):
        await read_in_thread(parse_command, command)


def seems_read_only(command: str) -> bool:
    """By its text alone, without a look at the folder that it runs in."""
    return commands.seems_read_only(parse_command(command))


def changes_folder(command: str) -> bool:
    return any(part.tokens and part.tokens[0].literal in _FOLDER_COMMANDS for part in parse_command(command).parts)


def find_subject(command: str, folder: str, edits: bool = False) -> CommandSubject:
    """What rules are matched with. Blocks: resolves the paths. `edits`: it is known to do nothing but change files."""
    read = parse_command(command)
    verdict = commands.is_read_only(read, folder) if commands.has_globs(read) or commands.is_composite(read) else None
    about = _build_subject(read, verdict, folder, cache(paths.resolve_path))
    return replace(about, edits=True) if edits else about


def _build_subject(
    read: ParsedCommand, verdict: "ReadOnlyVerdict | None", folder: str, real: paths.PathResolver
) -> CommandSubject:
    """The command as it is written, with the files that it accesses; of what only reads, with its patterns expanded."""
    expansion = verdict.expansion if verdict is not None and verdict.ok else None
    if expansion is None:
        return build_command_subject(read, commands.find_file_effects(read, folder), real)
    effects = commands.find_file_effects(expansion.parsed, folder)
    shown = (FileAccess(path, "read") for path in expansion.paths)
    accesses = tuple(dict.fromkeys((*effects.accesses, *shown)))
    return build_command_subject(read, replace(effects, accesses=accesses), real)


@dataclass(frozen=True, slots=True)
class Judgement:
    check: Check
    read_only: "ReadOnlyVerdict"
    subject: CommandSubject
    """What rules are matched with."""
    only_edits: bool = False
    """It is allowed because it does nothing but change files inside the roots."""
    network_reads: bool = False
    """It is allowed because it only looks, for which it needs a socket or the network."""
    literal_command: str | None = None
    """The text that runs in place of a command that only reads: the shell has nothing left to expand in it."""


def remember(among: dict[Key, Value], key: Key, value: Value) -> None:
    """Adds what belongs to a call that waits for its permission; the oldest goes where there are too many."""
    among[key] = value
    if len(among) > _MAX_REMEMBERED:
        among.pop(next(iter(among)))


def judge(command: str, session: SessionView) -> Judgement:
    """Decides about a command. Blocks, as above."""
    # Each path is resolved once for this decision, and not cached any longer: links change.
    real = cache(paths.resolve_path)
    read, folder = parse_command(command), session.shell_folder
    # Its patterns are expanded once: what is judged, matched with rules and run are the same names.
    verdict = commands.is_read_only(read, folder)
    return _judge_subject(command, _build_subject(read, verdict, folder, real), verdict, session, real)


def _judge_subject(
    command: str, about: CommandSubject, read_only: "ReadOnlyVerdict", session: SessionView, real: paths.PathResolver
) -> Judgement:
    message = f"Run this command: {_shorten(command, 200)}"
    if (guard := _find_guarded(about, session, real, read_only=read_only.ok)) is not None:
        return Judgement(AskFirst(message, reason=guard, safety=True), read_only, about)
    outside = _find_outside(about, session, real)
    if read_only.ok and outside is None:
        literal = commands.write_literally(about.parsed, read_only.expansion)
        return Judgement(Allow(), read_only, about, literal_command=literal)
    if outside is None and _only_looks(about, session):
        return Judgement(Allow(reads=True), read_only, about, network_reads=True)
    edits = (
        session.mode == "acceptEdits"
        # What runs without a question has no effect that is not known.
        and about.unknown is None
        and commands.has_only_simple_file_commands(about.parsed)
        # The shell would expand it, after an earlier part of the line has made new names.
        and not any(commands.may_become_option(token) for part in about.parsed.parts for token in part.tokens)
    )
    if edits and outside is None:
        problem = _find_edit_problem(session)
        if problem is None:
            return Judgement(Allow(), read_only, about, only_edits=True)
        return Judgement(AskFirst(message, reason=problem), read_only, about)
    left = find_work_in_main_checkout(about, session, real)
    reason = left or (outside if (read_only.ok or edits) and outside is not None else _explain(read_only))
    return Judgement(AskFirst(message, reason=reason), read_only, about)


def _only_looks(about: CommandSubject, session: SessionView) -> bool:
    # Patterns are expanded only for what runs in the sandbox.
    return (
        session.config.network_reads
        and not commands.has_globs(about.parsed)
        and commands.is_read_only(about.parsed, session.shell_folder, network=True).ok
    )


def _find_edit_problem(session: SessionView) -> str | None:
    """Why the sandbox, which edits by commands run in, cannot keep them from what is guarded; null where it can."""
    if session.config.sandbox is None:
        return None
    try:
        by = choose_confinement(session.config.sandbox, session, only_reads=False, only_edits=True)
        if by is not None:
            check_protection(by.profile)
    except (NotProtectable, SandboxMissing, OSError) as error:
        return str(error)
    return None


def _explain(read_only: "ReadOnlyVerdict") -> str:
    where = f"`{_shorten(read_only.part)}`: " if read_only.part else ""
    words = read_only.reason
    return f"{where}{words[:1].upper()}{words[1:]}." if not where else f"{where}{words}."


def _shorten(text: str, most: int = 80) -> str:
    return fit_text(one_line(text, most + 1), most)


def _find_guarded(
    about: CommandSubject, session: SessionView, real: paths.PathResolver, *, read_only: bool
) -> str | None:
    """Why a person has to be asked, in every mode; null where nothing is guarded."""
    guards = GuardCheck(session)
    for place in about.paths:
        if paths.is_in_daemon_home(place.real, session, real):
            return f"{place.written} is in the daemon's own folder."
        if place.deep and paths.holds_daemon_home(place.real, session, real) and not (read_only and _covers(session)):
            return f"The daemon's own folder is below {place.written}."
        if not place.writes or _is_reinstalled(place):
            continue
        if (why := guards.find_reason(place.written, place.real, place.action)) is not None:
            return f"It {_VERBS[place.action]} {place.written}, which is guarded: {why}."
    for mention in about.mentions:
        # By its name alone: making a link into that folder is asked about already.
        if paths.is_in_daemon_home(paths.normalize_path(mention.path), session, real):
            return f"{mention.path} is in the daemon's own folder."
    if about.unchecked is not None and any(place.action in {"create", "move"} for place in about.paths):
        return f"{about.unchecked} holds more files than can be looked at, and some of them may be guarded elsewhere."
    return None


def _is_reinstalled(place: AccessedPath) -> bool:
    """Packages bring guarded names along; to delete what a package manager put there makes nothing run."""
    return place.action == "delete" and "/node_modules/" in place.real


def _covers(session: SessionView) -> bool:
    """Whether what only reads runs in the sandbox, which covers the daemon's own folder."""
    sandboxing = session.config.sandbox
    return sandboxing is not None and sandboxing.is_wanted(restricted=True) and sandboxing.support().works


def _find_outside(about: CommandSubject, session: SessionView, real: paths.PathResolver) -> str | None:
    """What it touches outside the session's folders; null where all is inside."""
    if about.unchecked is not None:
        return f"{about.unchecked} holds more files than can be looked at."
    if any(part.folders is None for part in about.parsed.parts):
        return "It is not known in which folder a part of it runs."
    for place in about.paths:
        if not _is_harmless(place) and not paths.is_inside_roots(place.real, session, real):
            return f"{place.written} is outside the session's folders."
    for folder in dict.fromkeys(folder for part in about.parsed.parts for folder in part.folders or ()):
        here = real(os.path.join(session.shell_folder, folder) if folder else session.shell_folder)
        if not paths.is_inside_roots(here, session, real):
            return f"{here} is outside the session's folders."
    return None


def find_work_in_main_checkout(
    about: CommandSubject, session: SessionView, real: paths.PathResolver = paths.resolve_path
) -> str | None:
    """What a session in a worktree would touch of the main work tree; null where nothing is visible. Blocks."""
    main = session.main_checkout
    if main is None:
        return None
    here = session.shell_folder
    named = (
        *((place.written, place.real) for place in about.paths),
        *((mention.path, paths.normalize_path(mention.path)) for mention in about.mentions),
        *((folder, real(os.path.join(here, folder))) for part in about.parsed.parts for folder in part.folders or ()),
    )
    for written, place in named:
        if paths.is_inside(place, main) and not paths.is_inside_roots(place, session, real):
            return f"{written or here} is in the main checkout, which the session has left for its worktree."
    return None


def _is_harmless(place: AccessedPath) -> bool:
    # Both paths are compared: what is written so may lead elsewhere through a link and `..`.
    if place.action == "read" and place.written in _MACHINE_FILES:
        return place.real in _MACHINE_FILES
    return place.written in _HARMLESS_FILES and place.real == place.written


def build_read_check(session: SessionView) -> Callable[[SimpleCommand], bool]:
    """A check of single parts: whether one changes nothing, and reads nothing outside the session's folders.

    The check blocks, as above.
    """
    real = cache(paths.resolve_path)

    def reads(part: SimpleCommand) -> bool:
        alone = ParsedCommand(part.text, (part,), None, plain=True, agreed=True)
        # In a line of which only some parts read, the shell expands patterns, whatever the others have made by then.
        if any(map(commands.may_become_option, part.tokens)) or commands.has_heredoc(part):
            return False
        if not commands.is_read_only(alone, session.shell_folder).ok:
            return False
        return _find_outside(_build_subject(alone, None, session.shell_folder, real), session, real) is None

    return reads


def names_all_writes(
    read: ParsedCommand, written: Iterable[AccessedPath], session: SessionView, *, outside: bool = True
) -> bool:
    """Whether the text of a command names all places that it writes to, so that to allow the text allows these as well.

    A place counts inside the session's folders, or, with `outside`, as an absolute path that leads through no link.
    Blocks, as above.
    """
    named = commands.list_absolute_targets(read) if outside else ()
    absolute = {paths.normalize_path(os.path.expanduser(path)) for path in named}
    return all(_is_named_write(place, absolute, session) for place in written)


def _is_named_write(place: AccessedPath, absolute: Container[str], session: SessionView) -> bool:
    if place.written in _HARMLESS_FILES:
        return True
    if place.real.startswith(_DEVICE_FOLDERS) or find_known_guard(place.written, place.real, session) is not None:
        return False
    return paths.is_inside_roots(place.real, session) or (place.written == place.real and place.written in absolute)


# Without blocking, for commands that need no look at the disk.


def judge_nowait(command: str, session: SessionView, real: paths.PathResolver) -> Judgement | None:
    """As `judge`, without blocking; None where more is needed than the real paths of the session's own folders.

    `real` may raise any exception where it does not know.
    """
    real = cache(real)
    about = find_subject_nowait(command, session.shell_folder, real)
    if about is None or any(part.folders != ("",) for part in about.parsed.parts):
        return None
    return _judge_subject(command, about, commands.is_read_only(about.parsed, session.shell_folder), session, real)


def find_subject_nowait(command: str, folder: str, real: paths.PathResolver) -> CommandSubject | None:
    """As `find_subject`, without blocking; None as above."""
    if (read := _parse_simple(command)) is None:
        return None
    effects = commands.find_unnamed_accesses(read, folder)
    if effects is None or any(each.path != folder for each in effects.accesses):
        return None
    return build_command_subject(read, effects, real)


def compute_binding_nowait(command: str, session: SessionView) -> ApprovalBinding | None:
    """As `compute_binding`, without blocking; None where files have to be read."""
    read = _parse_simple(command)
    return None if read is None or runs_files(read) else ApprovalBinding(session.shell_folder, (), looked=False)


def _parse_simple(command: str) -> ParsedCommand | None:
    """The parsed command, where it is short and runs nothing by its path, no other command and no git."""
    if not is_quick_to_parse(command):
        return None
    read = parse_command(command)
    if any(part.tokens and (part.words[0] is None or "/" in part.words[0]) for part in read.parts):
        return None
    # A loop over a pattern, which is in no part of it.
    needs_disk = commands.is_composite(read) and commands.seems_read_only(read)
    needs_disk = needs_disk or commands.may_run_others(read) or commands.has_globs(read)
    needs_disk = needs_disk or "git" in commands.list_programs(read)
    needs_disk = needs_disk or any(map(commands.may_be_chosen, read.parts))
    return None if needs_disk else read


def classify_activity(command: str) -> Activity:
    """Of several kinds the first of: search, read, list. What may change something runs, whatever else it does."""
    if not seems_read_only(command):
        return "run"
    names = {part.words[0] for part in commands.parse_command(command).parts if part.words} - _NEUTRAL
    if not names <= _SEARCHES | _READS | _LISTS:
        return "run"
    for kind, programs in _KINDS:
        if names & programs:
            return kind
    return "run"
