"""What Bash itself says about a command: it only reads, it edits inside the roots, it touches what is guarded."""

import hashlib
import os
import re
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from ostler.tools import commands
from ostler.tools.commands import Part, Reading, ReadOnly
from ostler.tools.commands.syntax.words import read_word
from ostler.tools.context import Surroundings
from ostler.tools.fs import paths
from ostler.tools.fs.protected_paths import why_guarded
from ostler.tools.permissions.subject import OWN_STREAMS, OfCommand, Place, places_of
from ostler.tools.text import one_line
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Activity, Allow, AskFirst, Check

_MAX_SCRIPT_BYTES: Final = 16 * 1024 * 1024
_AT_ONCE_LENGTH: Final = 2_048
_AT_ONCE_SIGNS: Final = 100
"""What makes a command slow to read: a thousand parts fit into two thousand characters, and take 60 ms."""
_SIGNS: Final = re.compile(r"[^A-Za-z0-9_./:=@%+,^ -]")
_RUN_SCRIPTS: Final = frozenset(
    {"bash", "sh", "dash", "zsh", "ksh", "python", "node", "ruby", "perl", "php", "source", "."}
)
_MOVING: Final = frozenset({"cd", "pushd", "popd"})
_HARMLESS: Final = OWN_STREAMS | {"/dev/null", "/dev/tty"}
_NO_FILES: Final = ("/dev/", "/proc/", "/sys/")
"""What is written there reaches a device, a socket or the kernel."""
reading = commands.read_command
"""The command, taken apart; short ones are remembered there, since each is looked at several times."""
_SEARCHES: Final = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "find", "which", "type", "command"})
_READS: Final = frozenset({
    "cat", "head", "tail", "nl", "wc", "stat", "file", "strings", "od", "xxd", "hexdump", "cmp", "diff", "cut", "sort",
    "uniq", "tr", "jq", "sed", "column", "md5sum", "sha1sum", "sha256sum", "readlink", "realpath",
})  # fmt: skip
_LISTS: Final = frozenset({"ls", "tree", "du", "df"})
# Words between the others; by themselves they run.
_NEUTRAL: Final = frozenset({"echo", "printf", "true", "false", ":", "cd", "pwd", "test", "["})
_KINDS: Final[tuple[tuple[Activity, frozenset[str]], ...]] = (
    ("search", _SEARCHES),
    ("read", _READS),
    ("list", _LISTS),
)


def is_longer(command: str, most_bytes: int) -> bool:
    # A character has a byte at least: what is far too long need not be encoded.
    return len(command) > most_bytes or len(command.encode("utf-8", "surrogatepass")) > most_bytes


def is_read_at_once(command: str) -> bool:
    """Whether taking it apart takes a moment only, so that the event loop may do it."""
    return len(command) <= _AT_ONCE_LENGTH and len(_SIGNS.findall(command)) <= _AT_ONCE_SIGNS


async def read_ahead(command: str) -> None:
    """Before anybody asks what it does: what takes long to read is read in a thread, and known from then on."""
    if not is_read_at_once(command):
        await read_in_thread(reading, command)


def seems_read_only(command: str) -> bool:
    """By its words alone, without a look at the folder that it runs in."""
    read = reading(command)
    return read.problem is None and read.plain and all(map(commands.part_is_read_only, read.parts))


def changes_folder(command: str) -> bool:
    return any(part.tokens and part.tokens[0].literal in _MOVING for part in reading(command).parts)


def subject(command: str, folder: str, edits: bool = False) -> OfCommand:
    """Blocks: looks where the paths in it lead. `edits`: it is known to do nothing but change files."""
    about = _about(reading(command), folder, cache(paths.real))
    return replace(about, edits=True) if edits else about


def _about(read: Reading, folder: str, real: paths.Real) -> OfCommand:
    return OfCommand(read, places_of(commands.touched(read, folder), real))


@dataclass(frozen=True, slots=True)
class Judged:
    check: Check
    read_only: ReadOnly
    about: OfCommand
    """What rules look at."""


def judge(command: str, surroundings: Surroundings) -> Judged:
    """Blocks, as above."""
    # Each path is looked at once, and never again after this decision: links change.
    real = cache(paths.real)
    return _judged(command, _about(reading(command), surroundings.shell_folder, real), surroundings, real)


def _judged(command: str, about: OfCommand, surroundings: Surroundings, real: paths.Real) -> Judged:
    read_only = commands.is_read_only(about.reading, surroundings.shell_folder)
    return Judged(_check(command, about, read_only, surroundings, real), read_only, about)


def _check(command: str, about: OfCommand, read_only: ReadOnly, surroundings: Surroundings, real: paths.Real) -> Check:
    message = f"Run this command: {_short(command, 200)}"
    if (guard := _guarded(about.places, surroundings, real)) is not None:
        return AskFirst(message, reason=guard, safety=True)
    inside = _stays_inside(about, surroundings, real)
    if read_only.ok and inside is None:
        return Allow()
    edits = surroundings.mode == "acceptEdits" and commands.only_simple_file_commands(about.reading)
    if edits and inside is None:
        return Allow()
    reason = inside if read_only.ok and inside is not None else _why(read_only)
    return AskFirst(message, reason=reason)


def _why(read_only: ReadOnly) -> str:
    where = f"`{_short(read_only.part)}`: " if read_only.part else ""
    words = read_only.reason
    return f"{where}{words[:1].upper()}{words[1:]}." if not where else f"{where}{words}."


def _short(text: str, most: int = 80) -> str:
    line = one_line(text, most + 1)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _guarded(places: tuple[Place, ...], surroundings: Surroundings, real: paths.Real) -> str | None:
    """Why a person has to see it, in every mode."""
    for place in places:
        if paths.of_the_daemon(place.real, surroundings, real):
            return f"{place.written} is in the daemon's own folder."
        if place.writes and (why := why_guarded(place.written, place.real)):
            return f"It writes {place.written}, which is guarded: {why}."
    return None


def _stays_inside(about: OfCommand, surroundings: Surroundings, real: paths.Real) -> str | None:
    """Null where all that it touches is inside the session's folders; else what is not."""
    for place in about.places:
        if not _is_harmless(place) and not paths.inside_roots(place.real, surroundings, real):
            return f"{place.written} is outside the session's folders."
    for folder in dict.fromkeys(folder for part in about.reading.parts for folder in part.folders or ()):
        here = real(os.path.join(surroundings.shell_folder, folder) if folder else surroundings.shell_folder)
        if not paths.inside_roots(here, surroundings, real):
            return f"{here} is outside the session's folders."
    return None


def _is_harmless(place: Place) -> bool:
    # By both: what is written so may lead elsewhere through a link and `..`.
    return place.written in _HARMLESS and place.real == place.written


def reads_inside(surroundings: Surroundings) -> Callable[[Part], bool]:
    """Tells of one part after the other whether it changes nothing, and reads nothing outside the session's folders.

    Blocks, as above.
    """
    real = cache(paths.real)

    def reads(part: Part) -> bool:
        alone = Reading(part.text, (part,), None, plain=True)
        if not commands.is_read_only(alone, surroundings.shell_folder).ok:
            return False
        return _stays_inside(_about(alone, surroundings.shell_folder, real), surroundings, real) is None

    return reads


def writes_as_it_says(
    read: Reading, written: Iterable[Place], surroundings: Surroundings, *, outside: bool = True
) -> bool:
    """Whether the words of a command, allowed as they stand, say where it writes, so that they allow that as well.

    Inside the session's folders, or `outside`, where a path from the root on leads without a link. Blocks, as above.
    """
    named = commands.named_absolutely(read) if outside else ()
    absolute = {paths.written(os.path.expanduser(path)) for path in named}
    return all(_is_as_said(place, absolute, surroundings) for place in written)


def _is_as_said(place: Place, absolute: Container[str], surroundings: Surroundings) -> bool:
    if place.written in _HARMLESS:
        return True
    if place.real.startswith(_NO_FILES) or why_guarded(place.written, place.real) is not None:
        return False
    return paths.inside_roots(place.real, surroundings) or (place.written == place.real and place.written in absolute)


# What is approved is what runs.


@dataclass(frozen=True, slots=True)
class Bound:
    """What an approval was about, beside the words of the command."""

    folder: str
    scripts: tuple[tuple[str, str], ...]
    """Each script that it runs by its path, with a digest of its content."""

    @property
    def digest(self) -> str:
        """Of all of it, to be kept with an ask."""
        told = "\0".join((self.folder, *(part for script in self.scripts for part in script)))
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def bound(command: str, surroundings: Surroundings) -> Bound:
    """Blocks: reads the scripts."""
    folder = surroundings.shell_folder
    found: dict[str, str] = {}
    for part in reading(command).parts:
        for inner in (part, *commands.unwrapped(part)):
            for path in _scripts(inner):
                place = os.path.join(folder, inner.folder or "", path)
                found[paths.written(place)] = script_digest(place)
    return Bound(folder, tuple(sorted(found.items())))


def _scripts(part: Part) -> list[str]:
    """The program, where it is given by its path, or all that an interpreter may be told to run."""
    words = part.words
    if not words or words[0] is None:
        return []
    # As it is written: what runs inside something else is known by its bare name.
    written = read_word(part.tokens[0].source)
    if "/" in written.text:
        return [os.path.expanduser(written.text) if written.kind == "home" else written.text]
    if words[0] not in _RUN_SCRIPTS and words[0].rstrip("0123456789.") not in _RUN_SCRIPTS:
        return []
    return [word for word in words[1:] if word is not None and not word.startswith("-")]


def script_digest(path: str) -> str:
    """Of its content; empty where there is none. Blocks."""
    try:
        with open(path, "rb", opener=_not_waiting) as file:
            return hashlib.sha256(file.read(_MAX_SCRIPT_BYTES)).hexdigest()
    except (OSError, ValueError):
        return ""


def _not_waiting(path: str, flags: int) -> int:
    """A FIFO in the place of a script would hold us for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


# Without a wait, for what needs no look at the disk.


def judge_at_once(command: str, surroundings: Surroundings, real: paths.Real) -> Judged | None:
    """What `judge` says; None where that takes more than the real paths of the session's own folders.

    `real` may raise what it likes where it cannot tell.
    """
    real = cache(real)
    about = subject_at_once(command, surroundings.shell_folder, real)
    if about is None or any(part.folders != ("",) for part in about.reading.parts):
        return None
    return _judged(command, about, surroundings, real)


def subject_at_once(command: str, folder: str, real: paths.Real) -> OfCommand | None:
    """What `subject` says; None as above."""
    if (read := _simple(command)) is None:
        return None
    touched = commands.touched_unnamed(read, folder)
    if touched is None or any(each.path != folder for each in touched):
        return None
    return OfCommand(read, places_of(touched, real))


def bound_at_once(command: str, surroundings: Surroundings) -> Bound | None:
    """What `bound` says; None where it has to look at scripts."""
    return None if _simple(command) is None else Bound(surroundings.shell_folder, ())


def _simple(command: str) -> Reading | None:
    """The command, taken apart, where it is short and runs no script, no other command and no git."""
    if not is_read_at_once(command):
        return None
    read = reading(command)
    if any(part.tokens and (part.words[0] is None or _scripts(part)) for part in read.parts):
        return None
    return None if commands.may_run_others(read) or "git" in commands.programs_in(read) else read


def activity_of(command: str) -> Activity:
    """Of several kinds the first of: search, read, list. What may change something runs, whatever else it does."""
    if not seems_read_only(command):
        return "run"
    names = {part.words[0] for part in commands.read_command(command).parts if part.words} - _NEUTRAL
    if not names <= _SEARCHES | _READS | _LISTS:
        return "run"
    for kind, programs in _KINDS:
        if names & programs:
            return kind
    return "run"
