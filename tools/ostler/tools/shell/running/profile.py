"""The person's profile, sourced once: its variables for every command, its functions and aliases for allowed ones.

It may hang, print, exit or become another program: then commands have the daemon's own variables, and that is told.
"""

import contextlib
import os
import re
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio

from ostler.protocol.ids import CallId
from ostler.tools import commands
from ostler.tools.process.environment import MARKER, clean_environment, may_pass
from ostler.tools.process.process import Child, spawn
from ostler.tools.threads import change_in_thread, read_in_thread

TIME_LIMIT: Final = 5.0
LOOK_EVERY: Final = 2.0
"""Seconds for which nobody looks whether a file has changed."""
_MAX_BYTES: Final = 2 * 1024 * 1024
_PATIENCE: Final = 0.5
_CLEAN_UP: Final = 10.0
_CHUNK: Final = 64 * 1024
_ANSWER: Final = 99
"""The descriptor that it answers on: none that a profile opens by its number, nor the shell for itself."""
_OF_THE_MACHINE: Final = ("/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/bashrc", "/etc/environment")
_OF_THE_PERSON: Final = (".bash_profile", ".bash_login", ".profile", ".bashrc", ".bash_aliases")
# What is only about that shell, or about an agent that ended with it.
_LEFT_OUT: Final = frozenset({"_", "PWD", "OLDPWD", "SHLVL", MARKER, "SSH_AUTH_SOCK", "SSH_AGENT_PID"})
_NAME: Final = re.compile(r"^(?:alias (?:-- )?)?([^\s=()]+)(?: \(\) ?$|=)", re.MULTILINE)
_ASKS_BACK: Final = re.compile(
    r"^alias (?:-- )?(?:rm|cp|mv|ln)='[^\n]* (?:-\w*[iI]|--interactive)[^\n]*\n", re.MULTILINE
)
"""`rm -i` and its like: nobody answers them, and they would do nothing and say that all is well."""
_TOKEN: Final = re.compile(r"[^\s;|&()<>'\"\\]+")
_SOURCING: Final = frozenset({".", "source", "eval", "trap", "command", "builtin", "type", "declare", "alias"})

# Only words of the shell's own, which no PATH and no alias changes.
_SCRIPT: Final = r"""
\builtin shopt -u expand_aliases
\builtin set +eufvx
IFS=$' \t\n'
[ -r ~/.bash_profile ] || [ -r ~/.bash_login ] || [ -r ~/.profile ] || [ ! -r ~/.bashrc ] || \builtin . ~/.bashrc
{
for OSTLER_NAME in $(\builtin compgen -e); do \builtin printf '%s=%s\0' "$OSTLER_NAME" "${!OSTLER_NAME}"; done
\builtin printf '%s\0' @mark@
\builtin declare -f
\builtin printf '\0%s\0' @mark@
\builtin alias -p
\builtin shopt -p extglob
\builtin printf '\0%s\0' @mark@
} >&@answer@ 2>/dev/null
"""
_BEFORE: Final = f'cd "$0" 2>/dev/null || cd /; exec {_ANSWER}>&1 >/dev/null; exec "$@"'


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a profile makes of a shell."""

    given: Mapping[str, str] = field(default_factory=dict)
    """Variables that it sets."""
    taken: frozenset[str] = frozenset()
    """Variables that it takes away."""
    definitions: str | None = None
    """A file with its functions and aliases; null where it has none."""
    names: frozenset[str] = frozenset()
    """What those are called."""

    def concerns(self, command: str) -> bool:
        """Whether a command may use what it defines: to read many functions takes longer than most commands."""
        reading = commands.read_command(command)
        if reading.problem is not None or not reading.plain:
            return True
        programs = {part.words[0] for part in reading.parts if part.words}
        words = {*_TOKEN.findall(command), *programs, "command_not_found_handle"}
        return None in programs or not self.names.isdisjoint(words) or not _SOURCING.isdisjoint(words)

    def applied(self, environment: Mapping[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in environment.items() if name not in self.taken}
        return {**kept, **self.given}


@dataclass(frozen=True, slots=True)
class _Known:
    home: str
    marks: tuple[tuple[int, int] | None, ...]
    """Time and size of each file, by which a change is noticed."""
    snapshot: Snapshot


class ShellProfile:
    """The profile as it is now."""

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        self._folder = folder
        self._tell = tell
        """Hears once why a profile could not be used."""
        self._lock = anyio.Lock()
        """Whoever waits for a profile that hangs waits here: on a thread, files of others would wait behind it."""
        self._known: _Known | None = None
        self._looked = 0.0

    def at_once(self) -> Snapshot | None:
        """What is known, without a look at the disk; null where it is time for one."""
        known = self._known
        if known is None or time.monotonic() - self._looked > LOOK_EVERY or known.home != _home():
            return None
        return known.snapshot

    async def current(self) -> Snapshot:
        """Looks whether a file has changed, and sources them again where one has."""
        async with self._lock:
            if (snapshot := self.at_once()) is not None:  # somebody else has looked meanwhile
                return snapshot
            home = _home()
            # Before they are sourced: what changes meanwhile is noticed next time.
            marks = await read_in_thread(_marks, home)
            known = self._known
            if known is None or (known.home, known.marks) != (home, marks):
                known = self._known = _Known(home, marks, await self._sourced(home))
            self._looked = time.monotonic()
            return known.snapshot

    async def _sourced(self, home: str) -> Snapshot:
        before = clean_environment()
        try:
            told = await _told_by_bash(before, home)
            return await change_in_thread(self._snapshot, before, told)
        except (_Unusable, OSError) as error:
            self._tell(str(error))
            return Snapshot()

    def _snapshot(self, before: Mapping[str, str], told: "_Told") -> Snapshot:
        after = {name: value for name, value in told.environment.items() if _is_kept(name)}
        if "PATH" in after:
            after["PATH"] = _joined(before.get("PATH", ""), after["PATH"])
        return Snapshot(
            given={name: value for name, value in after.items() if before.get(name) != value},
            taken=frozenset(name for name in before if name not in told.environment and _is_kept(name)),
            definitions=self._stored(told),
            names=frozenset(_NAME.findall(f"{told.functions}\n{told.aliases}")),
        )

    def _stored(self, told: "_Told") -> str | None:
        if not told.functions.strip() and told.aliases.strip() == "shopt -u extglob":
            return None
        # Functions first: an alias would change what they say. They may hold patterns that only extglob can read; what
        # the profile has made of that stands behind the aliases.
        text = f"shopt -s extglob\n{told.functions}\n{told.aliases}\nshopt -s expand_aliases\n"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / "profile.bash"
        new = self._folder / f"profile-{secrets.token_hex(4)}.new"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        os.replace(new, path)
        return str(path)


class _Unusable(Exception):
    """The profile did not let itself be asked; the message says how."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What a shell with the profile has to say."""

    environment: Mapping[str, str]
    functions: str
    aliases: str


def _home() -> str:
    return os.path.expanduser("~")


def _files(home: str) -> list[str]:
    return [*_OF_THE_MACHINE, *(os.path.join(home, name) for name in _OF_THE_PERSON)]


def _marks(home: str) -> tuple[tuple[int, int] | None, ...]:
    return tuple(map(_mark, _files(home)))


def _mark(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _is_kept(name: str) -> bool:
    return name not in _LEFT_OUT and may_pass(name)


def _joined(own: str, of_the_profile: str) -> str:
    """A login shell begins with a path of its own: what the daemon was started with still comes first."""
    known = of_the_profile.split(":")
    return ":".join([*(folder for folder in own.split(":") if folder and folder not in known), *known])


async def _told_by_bash(environment: Mapping[str, str], home: str) -> _Told:
    """As the person's terminal has it: most files that define something end at once where nobody is to type.

    Some become another program or take for ever without a terminal: those are asked as a script would.
    """
    try:
        return await _ask_bash(environment, home, "-i")
    except _Unusable:
        return await _ask_bash(environment, home)


async def _ask_bash(environment: Mapping[str, str], home: str, *options: str) -> _Told:
    """Starts a shell that reads the profile as a login does, with nobody at its keyboard."""
    mark, call = secrets.token_hex(16), CallId(f"profile-{secrets.token_hex(8)}")
    bash = shutil.which("bash") or "/bin/bash"
    script = _SCRIPT.replace("@mark@", mark).replace("@answer@", str(_ANSWER))
    login = [bash, "--login", *options, "-c", script]
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        child = _started(
            [bash, "--noprofile", "--norc", "-c", _BEFORE, home, *login], {**environment, MARKER: call}, writing
        )
        try:
            data = await _read(reading, child, f"{mark}\0".encode())
        finally:
            await _end(child, call)
    finally:
        os.close(reading)
    return await read_in_thread(_parsed, data, mark.encode())


def _started(arguments: list[str], environment: Mapping[str, str], writing: int) -> Child:
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    noise = os.dup(nothing)
    try:
        return spawn(arguments, environment, (nothing, writing, noise))
    finally:
        os.close(noise)
        os.close(writing)


async def _read(reading: int, child: Child, mark: bytes) -> bytes:
    """Until it has said all. What it has left running may keep the pipe open for ever."""
    data = bytearray()

    async def until_the_end(scope: anyio.CancelScope) -> None:
        await child.wait()
        scope.cancel()

    with anyio.move_on_after(TIME_LIMIT) as limit:
        async with anyio.create_task_group() as group:
            group.start_soon(until_the_end, group.cancel_scope)
            while _take(reading, data) and data.count(mark) < 3:
                await anyio.wait_readable(reading)
            group.cancel_scope.cancel()
    if limit.cancelled_caught:
        raise _Unusable(f"The profile takes longer than {TIME_LIMIT:g} s.")
    _take(reading, data)
    if len(data) > _MAX_BYTES:
        raise _Unusable(f"The profile defines more than {_MAX_BYTES} bytes.")
    return bytes(data)


def _take(reading: int, data: bytearray) -> bool:
    """What is there; false at the end, and where it is too much."""
    with contextlib.suppress(BlockingIOError):
        while len(data) <= _MAX_BYTES and (chunk := os.read(reading, _CHUNK)):
            data += chunk
        return False
    return True


async def _end(child: Child, call: CallId) -> None:
    """With all that the profile has started, whatever that has dropped."""
    with anyio.CancelScope(shield=True):
        with anyio.move_on_after(_PATIENCE):
            await child.wait()
        with anyio.move_on_after(_CLEAN_UP):
            # An interactive shell does not hear a polite request.
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
            await child.end_tree(call)
            await child.wait()
        child.release()


def _parsed(data: bytes, mark: bytes) -> _Told:
    variables, found, rest = data.partition(mark + b"\0")
    functions, found_too, rest = rest.partition(b"\0" + mark + b"\0")
    aliases, whole, _ = rest.partition(b"\0" + mark + b"\0")
    if not (found and found_too and whole):
        raise _Unusable("The profile ends the shell that reads it, or becomes another program.")
    named = (variable.partition(b"=") for variable in variables.split(b"\0") if variable)
    return _Told(
        {os.fsdecode(name): os.fsdecode(value) for name, _, value in named},
        os.fsdecode(functions),
        _ASKS_BACK.sub("", os.fsdecode(aliases)),
    )
