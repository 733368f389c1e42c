"""The person's shell profile, sourced once: variables for every command, functions and aliases for allowed ones.

It may hang, print, exit or exec another program: then commands have the daemon's own variables, and that is reported.
Who logs in with zsh or fish has the variables of that shell; functions and aliases are there only from bash.
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
from ostler.protocol.patterns import compile_later
from ostler.tools import commands
from ostler.tools.process.environment import MARKER, build_clean_environment, may_inherit
from ostler.tools.process.process import Child, spawn
from ostler.tools.shell.running.login_shell import LOGIN_OPTIONS, build_question, find_login_shell, iter_start_files
from ostler.tools.threads import change_in_thread, read_in_thread

TIME_LIMIT: Final = 5.0
_TRIES: Final = 2
"""All shells that are tried have the time of that many: a person waits for them."""
LOOK_EVERY: Final = 2.0
"""Seconds after which the files are checked for changes again."""
_MAX_BYTES: Final = 2 * 1024 * 1024
_GRACE_SECONDS: Final = 0.5
_CLEAN_UP_SECONDS: Final = 10.0
_CHUNK: Final = 64 * 1024
_ANSWER_DESCRIPTOR: Final = 99
"""The descriptor that it answers on: one that neither a profile nor the shell itself uses."""
_MACHINE_FILES: Final = ("/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/bashrc", "/etc/environment")
_HOME_FILES: Final = (".bash_profile", ".bash_login", ".profile", ".bashrc", ".bash_aliases")
# What is only about that shell, or about an agent that ended with it.
_EXCLUDED_VARIABLES: Final = frozenset({"_", "PWD", "OLDPWD", "SHLVL", MARKER, "SSH_AUTH_SOCK", "SSH_AGENT_PID"})
_NAME: Final = compile_later(r"^(?:alias (?:-- )?)?([^\s=()]+)(?: \(\) ?$|=)", re.MULTILINE)
_INTERACTIVE_ALIAS: Final = compile_later(
    r"^alias (?:-- )?(?:rm|cp|mv|ln)='[^\n]* (?:-\w*[iI]|--interactive)[^\n]*\n", re.MULTILINE
)
"""`rm -i` and its like: nobody answers them, and they would do nothing and exit with 0."""
_TOKEN: Final = compile_later(r"[^\s;|&()<>'\"\\]+")
_SOURCING: Final = frozenset({".", "source", "eval", "trap", "command", "builtin", "type", "declare", "alias"})

# Only builtins, which no PATH and no alias changes.
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
_BEFORE: Final = f'cd "$0" 2>/dev/null || cd /; exec {_ANSWER_DESCRIPTOR}>&1 >/dev/null; exec "$@"'


@dataclass(frozen=True, slots=True)
class ProfileSnapshot:
    """What a profile changes in a shell."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that it sets."""
    removed_variables: frozenset[str] = frozenset()
    """Variables that it unsets."""
    definitions: str | None = None
    """A file with its functions and aliases; null where it has none."""
    names: frozenset[str] = frozenset()
    """The names of its functions and aliases."""

    def may_be_used_by(self, command: str) -> bool:
        """Whether a command may use what it defines: to source many functions takes longer than most commands."""
        reading = commands.parse_command(command)
        if reading.problem is not None or not reading.plain:
            return True
        programs = {part.words[0] for part in reading.parts if part.words}
        words = {*_TOKEN.findall(command), *programs, "command_not_found_handle"}
        return None in programs or not self.names.isdisjoint(words) or not _SOURCING.isdisjoint(words)

    def apply_to(self, environment: Mapping[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in environment.items() if name not in self.removed_variables}
        return {**kept, **self.variables}


@dataclass(frozen=True, slots=True)
class _CachedProfile:
    home: str
    shell: str | None
    file_stamps: tuple[tuple[int, int] | None, ...]
    """Time and size of each file, by which a change is noticed."""
    snapshot: ProfileSnapshot


class ShellProfile:
    """The person's profile, cached until one of its files changes."""

    def __init__(self, folder: Path, report_problem: Callable[[str], None]) -> None:
        self._folder = folder
        self._report_problem = report_problem
        """Called once with the reason why a profile could not be used."""
        self._lock = anyio.Lock()
        """Calls wait here for a profile that hangs: on a thread, other calls' file accesses would wait for it."""
        self._cached: _CachedProfile | None = None
        self._checked_at = 0.0

    def get_cached(self) -> ProfileSnapshot | None:
        """The cached snapshot, without a look at the disk; null where it is time for one."""
        known = self._cached
        if known is None or time.monotonic() - self._checked_at > LOOK_EVERY or known.home != _find_home():
            return None
        return known.snapshot

    async def load_current(self) -> ProfileSnapshot:
        """Checks whether a file has changed, and sources them again where one has."""
        async with self._lock:
            if (snapshot := self.get_cached()) is not None:  # another call has checked meanwhile
                return snapshot
            home, shell = _find_home(), find_login_shell(os.environ)
            # Before they are sourced: what changes meanwhile is noticed next time.
            stamps = await read_in_thread(_stamp_files, home, shell)
            known = self._cached
            if known is None or (known.home, known.shell, known.file_stamps) != (home, shell, stamps):
                known = self._cached = _CachedProfile(home, shell, stamps, await self._source_profile(home, shell))
            self._checked_at = time.monotonic()
            return known.snapshot

    async def _source_profile(self, home: str, shell: str | None) -> ProfileSnapshot:
        before = build_clean_environment()
        try:
            state = await self._read_shell_state(before, home, shell)
            return await change_in_thread(self._build_snapshot, before, state)
        except (_Unusable, OSError) as error:
            self._report_problem(str(error))
            return ProfileSnapshot()

    async def _read_shell_state(self, before: Mapping[str, str], home: str, shell: str | None) -> "_ShellState":
        deadline = anyio.current_time() + TIME_LIMIT * _TRIES
        if shell is not None:
            try:
                return await _ask_other_shell(shell, before, home, deadline)
            except _Unusable as error:
                self._report_problem(f"{shell}: {error} The profile of bash is used instead.")
        return await _ask_bash(before, home, deadline)

    def _build_snapshot(self, before: Mapping[str, str], state: "_ShellState") -> ProfileSnapshot:
        after = {name: value for name, value in state.environment.items() if _is_kept(name)}
        if "PATH" in after:
            after["PATH"] = _join_paths(before.get("PATH", ""), after["PATH"])
        return ProfileSnapshot(
            variables={name: value for name, value in after.items() if before.get(name) != value},
            removed_variables=frozenset(name for name in before if name not in state.environment and _is_kept(name)),
            definitions=self._store_definitions(state),
            names=frozenset(_NAME.findall(f"{state.functions}\n{state.aliases}")),
        )

    def _store_definitions(self, state: "_ShellState") -> str | None:
        if not state.functions.strip() and state.aliases.strip() in {"", "shopt -u extglob"}:
            return None
        # Functions first: an alias would change what they say. They may hold patterns that only extglob can read; what
        # the profile has made of that comes after the aliases.
        text = f"shopt -s extglob\n{state.functions}\n{state.aliases}\nshopt -s expand_aliases\n"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / "profile.bash"
        new = self._folder / f"profile-{secrets.token_hex(4)}.new"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        os.replace(new, path)
        return str(path)


class _Unusable(Exception):
    """The profile could not be read; the message says why."""


@dataclass(frozen=True, slots=True)
class _ShellState:
    """The variables, functions and aliases of a shell with the profile."""

    environment: Mapping[str, str]
    functions: str
    aliases: str


def _find_home() -> str:
    return os.path.expanduser("~")


def _list_files(home: str, shell: str | None) -> list[str]:
    others = iter_start_files(shell, home, os.environ) if shell is not None else ()
    return [*_MACHINE_FILES, *(os.path.join(home, name) for name in _HOME_FILES), *others]


def _stamp_files(home: str, shell: str | None) -> tuple[tuple[int, int] | None, ...]:
    return tuple(_stamp_file(path) for path in _list_files(home, shell))


def _stamp_file(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _is_kept(name: str) -> bool:
    return name not in _EXCLUDED_VARIABLES and may_inherit(name)


def _join_paths(own: str, profile_path: str) -> str:
    """Joins two search paths. A login shell begins with a path of its own: the daemon's own still comes first."""
    known = profile_path.split(":")
    return ":".join([*(folder for folder in own.split(":") if folder and folder not in known), *known])


async def _ask_bash(environment: Mapping[str, str], home: str, deadline: float) -> _ShellState:
    """As an interactive shell has it: most profile files end at once in a shell that is not interactive.

    Some exec another program or hang without a terminal: those are read by a shell that is not interactive.
    """
    mark, bash = secrets.token_hex(16), _find_bash()
    script = _SCRIPT.replace("@mark@", mark).replace("@answer@", str(_ANSWER_DESCRIPTOR))
    tries = [[bash, "--login", *options, "-c", script] for options in (("-i",), ())]
    return await _ask_in_turn(tries, mark, environment, home, deadline)


async def _ask_other_shell(shell: str, environment: Mapping[str, str], home: str, deadline: float) -> _ShellState:
    """The variables that a shell of any other kind gives to what it starts."""
    if not await read_in_thread(os.access, shell, os.X_OK):
        raise _Unusable("There is no such program.")
    mark = secrets.token_hex(16)
    words = build_question(_find_bash(), shutil.which("env") or "/usr/bin/env", mark, _ANSWER_DESCRIPTOR)
    tries = [[shell, *options, words] for options in LOGIN_OPTIONS]
    return await _ask_in_turn(tries, mark, environment, home, deadline)


def _find_bash() -> str:
    return shutil.which("bash") or "/bin/bash"


async def _ask_in_turn(
    tries: list[list[str]], mark: str, environment: Mapping[str, str], home: str, deadline: float
) -> _ShellState:
    """The answer of the first shell that gives one; raises for the last that did not."""
    problem = _Unusable("The shells before it took all the time that there is.")
    for arguments in tries:
        if anyio.current_time() >= deadline:
            break
        try:
            return await _ask_shell(arguments, mark, environment, home)
        except _Unusable as error:
            problem = error
    raise problem


async def _ask_shell(arguments: list[str], mark: str, environment: Mapping[str, str], home: str) -> _ShellState:
    """Starts a login shell that reads the profile, without a terminal, and reads its answer."""
    call = CallId(f"profile-{secrets.token_hex(8)}")
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        child = _start_shell(
            [_find_bash(), "--noprofile", "--norc", "-c", _BEFORE, home, *arguments],
            {**environment, MARKER: call},
            writing,
        )
        try:
            data = await _read_answer(reading, child, f"{mark}\0".encode())
        finally:
            await _end_shell(child, call)
    finally:
        os.close(reading)
    return await read_in_thread(_parse_answer, data, mark.encode())


def _start_shell(arguments: list[str], environment: Mapping[str, str], writing: int) -> Child:
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    noise = os.dup(nothing)
    try:
        return spawn(arguments, environment, (nothing, writing, noise))
    finally:
        os.close(noise)
        os.close(writing)


async def _read_answer(reading: int, child: Child, mark: bytes) -> bytes:
    """Reads until the answer is complete: a process that the profile left running may keep the pipe open for ever."""
    data = bytearray()

    async def cancel_at_exit(scope: anyio.CancelScope) -> None:
        await child.wait()
        scope.cancel()

    with anyio.move_on_after(TIME_LIMIT) as limit:
        async with anyio.create_task_group() as group:
            group.start_soon(cancel_at_exit, group.cancel_scope)
            while _read_available(reading, data) and data.count(mark) < 3:
                await anyio.wait_readable(reading)
            group.cancel_scope.cancel()
    if limit.cancelled_caught:
        raise _Unusable(f"The profile takes longer than {TIME_LIMIT:g} s.")
    _read_available(reading, data)
    if len(data) > _MAX_BYTES:
        raise _Unusable(f"The profile defines more than {_MAX_BYTES} bytes.")
    return bytes(data)


def _read_available(reading: int, data: bytearray) -> bool:
    """Reads what is available; false at the end, and where it is too much."""
    with contextlib.suppress(BlockingIOError):
        while len(data) <= _MAX_BYTES and (chunk := os.read(reading, _CHUNK)):
            data += chunk
        return False
    return True


async def _end_shell(child: Child, call: CallId) -> None:
    """Ends the shell with all that the profile has started."""
    with anyio.CancelScope(shield=True):
        with anyio.move_on_after(_GRACE_SECONDS):
            await child.wait()
        with anyio.move_on_after(_CLEAN_UP_SECONDS):
            # An interactive shell ignores SIGTERM.
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
            await child.end_tree(call)
            await child.wait()
        child.release()


def _parse_answer(data: bytes, mark: bytes) -> _ShellState:
    variables, found, rest = data.partition(mark + b"\0")
    functions, found_too, rest = rest.partition(b"\0" + mark + b"\0")
    aliases, whole, _ = rest.partition(b"\0" + mark + b"\0")
    if not (found and found_too and whole):
        raise _Unusable("The profile ends the shell that reads it, or becomes another program.")
    named = (variable.partition(b"=") for variable in variables.split(b"\0") if variable)
    return _ShellState(
        {os.fsdecode(name): os.fsdecode(value) for name, _, value in named},
        os.fsdecode(functions),
        _INTERACTIVE_ALIAS.sub("", os.fsdecode(aliases)),
    )
