"""A simple `sed -i` as the edit that it is: shown with its diff, bound by Edit's guards, and written by us.

What it makes of a file is never guessed: the real sed is given the content, and tells.
"""

import contextlib
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ostler.protocol.ids import CallId
from ostler.tools.context import Surroundings, ToolContext
from ostler.tools.files.editing import mutation, read_state
from ostler.tools.files.editing.diff import Hunk, hunks, unified
from ostler.tools.files.editing.mutation import ChangeOutput, Plan, Planner
from ostler.tools.fs import paths
from ostler.tools.fs.text_file import TextFile, Unreadable, load
from ostler.tools.process.environment import command_environment
from ostler.tools.process.orphans import awaited
from ostler.tools.sandbox import NotProtectable, confined, wrap
from ostler.tools.sandbox.policy import confinement, kept_to_reading
from ostler.tools.services import FileRead, FileReads
from ostler.tools.shell.running.profile import Snapshot
from ostler.tools.shell.sed_command import SedCommand, sed_command
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Allow, AskFirst, Change, Check, Failure, Refuse

_TIME_LIMIT: Final = 5.0
_MAX_BYTES: Final = 4 * 1024 * 1024
_MAX_PRINTED: Final = 4 * _MAX_BYTES
# A replacement may make much of little, before anybody was asked.
_BOUNDED: Final = 'ulimit -v 524288; ulimit -t 5; exec "$@"'
_REMEMBERED: Final = 1_000
"""Calls that can wait for their permission at one time."""
_PLAIN_LOCALE: Final = re.compile(r"(?:C|POSIX|)\Z|.*UTF-?8", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Edited:
    """A file, and what sed makes of it."""

    path: str
    before: TextFile
    plan: Plan
    diff: str | None
    """Null where it is too long to show."""

    def as_now(self, place: str, read: FileRead | None) -> Plan | Failure:
        """Only for the content that sed was given: an ask may have been open for hours."""
        now = mutation.load_if_there(place)
        if now is None or (place, now.digest) != (self.plan.place, self.before.digest):
            return Failure(f"{self.path} has changed since this was allowed. Nothing was written.", read_state.CHANGED)
        return replace(self.plan, before=now)


@dataclass(frozen=True, slots=True)
class Written:
    """What was done to the files, one after the other."""

    files: Sequence[ChangeOutput]
    changes: Sequence[Change]
    failure: Failure | None = None
    """What went wrong after those."""


@dataclass(slots=True)
class SedEdits:
    """The edits that wait for their permission, by call."""

    _noted: OrderedDict[CallId, tuple[Edited, ...]] = field(default_factory=OrderedDict)

    async def permission(self, command: str, context: ToolContext) -> Check | None:
        """What Edit would say about it; null where it is no such command, and runs as it is."""
        self._noted.pop(context.call_id, None)
        edits = await _found(command, context)
        if edits is None:
            return None
        self._noted[context.call_id] = edits
        if len(self._noted) > _REMEMBERED:
            self._noted.popitem(last=False)
        checks = [await mutation.permission(each.path, _planner(each), context, paths.Approved()) for each in edits]
        return _together(command, edits, checks)

    async def written(self, command: str, context: ToolContext) -> Written | Failure | None:
        """Writes them; null where the command is to be run as it is."""
        noted = self._noted.pop(context.call_id, None)
        edits = await _found(command, context) if noted is None else noted
        if edits is None:
            return None
        files: list[ChangeOutput] = []
        changes: list[Change] = []
        for each in edits:
            approved = paths.Approved()
            approved.note(context.call_id, each.plan.place)
            # Whoever has not read the file does not know it now.
            as_known = replace(context, reads=_OnlyKnown(context.reads, each.before))
            written = await mutation.write(each.path, each.as_now, as_known, approved)
            if isinstance(written, Failure):
                return Written(files, changes, written) if files else written
            files.append(ChangeOutput(**await mutation.output_of(each.path, written, context)))
            changes.append(mutation.change(each.path, written))
        return Written(files, changes)


@dataclass(frozen=True, slots=True)
class _OnlyKnown:
    """The reads of the session, in which nothing appears that it had not seen as it was."""

    reads: FileReads
    before: TextFile

    def get(self, path: str) -> FileRead | None:
        return self.reads.get(path)

    def put(self, path: str, read: FileRead) -> None:
        known = self.reads.get(path)
        if known is not None and read_state.still_as_read(path, known, self.before) is None:
            self.reads.put(path, read)


def _planner(edited: Edited) -> Planner:
    return lambda place, read: edited.plan


def _together(command: str, edits: Sequence[Edited], checks: Sequence[Check]) -> Check:
    """The strictest of them, with the diffs of all."""
    refused = next((check for check in checks if isinstance(check, Refuse)), None)
    if refused is not None:
        return refused
    asks = [check for check in checks if isinstance(check, AskFirst)]
    if not asks:
        return Allow()
    names = ", ".join(each.path for each in edits)
    diffs = [each.diff for each in edits]
    return AskFirst(
        f"Change {names}?",
        reason=next((ask.reason for ask in asks if ask.safety), next((ask.reason for ask in asks if ask.reason), "")),
        safety=any(ask.safety for ask in asks),
        diff=None if None in diffs else "".join(diff or "" for diff in diffs),
    )


async def _found(command: str, context: ToolContext) -> tuple[Edited, ...] | None:
    sed = sed_command(command) if sys.platform == "linux" else None
    if sed is None:
        return None
    profile = context.surroundings.profile
    snapshot = await profile.current() if profile is not None else None
    if snapshot is not None and "sed" in snapshot.names:
        return None
    try:
        return await read_in_thread(_edited, sed, context.surroundings, snapshot, context.call_id)
    except (_NotOurs, NotProtectable, Unreadable, OSError, UnicodeError, subprocess.SubprocessError):
        return None


class _NotOurs(Exception):
    """It is not sure that we would do the same: sed itself is to do it."""


def _edited(
    sed: SedCommand, surroundings: Surroundings, snapshot: Snapshot | None, call_id: CallId
) -> tuple[Edited, ...]:
    environment = command_environment(surroundings.environment, call_id, snapshot)
    program = shutil.which("sed", path=environment.get("PATH"))
    # Relative folders in PATH are relative to the command's folder, and not to ours.
    if program is None or not os.path.isabs(program) or paths.inside_roots(paths.real(program), surroundings):
        raise _NotOurs
    if not _PLAIN_LOCALE.match(next((environment[name] for name in _LOCALES if environment.get(name)), "")):
        raise _NotOurs
    run = _Run([program, "--sandbox", *sed.arguments], surroundings, environment)
    found = [_one(run, paths.written(os.path.join(surroundings.shell_folder, name))) for name in sed.files]
    changed = tuple(each for each in found if each.plan.text != each.before.text)
    if not changed or len({each.plan.place for each in changed}) != len(changed):
        raise _NotOurs
    return changed


_LOCALES: Final = ("LC_ALL", "LC_CTYPE", "LANG")


def _one(run: "_Run", path: str) -> Edited:
    status = os.lstat(path)
    # In the place of a link sed would put a file.
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES or mutation.flawed(path) is not None:
        raise _NotOurs
    place = paths.real(path)
    before = load(place)
    new = run.output(before.encoding.encode(before.text))
    text = before.encoding.decode(new)
    if not new.startswith(before.encoding.bom) or before.encoding.encode(text) != new:
        raise _NotOurs
    found = hunks(before.text, text)
    return Edited(path, before, Plan(place, before, text, _first_change(found)), unified(path, found))


@dataclass(frozen=True, slots=True)
class _Run:
    """The real sed, which reads what it is given and prints what it makes of it."""

    arguments: list[str]
    surroundings: Surroundings
    environment: dict[str, str]

    def output(self, content: bytes) -> bytes:
        """Raises _NotOurs where it does not like its arguments, or takes too long."""
        arguments, environment = self._confined()
        with tempfile.TemporaryFile() as given:
            given.write(content)
            given.seek(0)
            running = subprocess.Popen(  # noqa: S603 - the expressions only substitute, and are no part of the script
                arguments,
                env=environment,
                cwd="/",
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        with awaited(running.pid), running:
            try:
                printed = _printed(running)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
        if running.returncode != 0:
            raise _NotOurs
        return printed

    def _confined(self) -> tuple[list[str], dict[str, str]]:
        surroundings = self.surroundings
        environment = kept_to_reading(self.environment, surroundings.roots)
        by = confinement(surroundings.sandboxing, surroundings, only_reads=True) if surroundings.sandboxing else None
        arguments = ["/bin/sh", "-c", _BOUNDED, "sh", *self.arguments]
        if by is None:
            return arguments, environment
        return wrap(arguments, by.profile, by.support), confined(environment)


def _printed(running: "subprocess.Popen[bytes]") -> bytes:
    assert running.stdout is not None
    deadline, printed = time.monotonic() + _TIME_LIMIT, bytearray()
    while True:
        if not select.select([running.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise _NotOurs
        chunk = os.read(running.stdout.fileno(), 1024 * 1024)
        if not chunk:
            running.wait(1)
            return bytes(printed)
        printed += chunk
        if len(printed) > _MAX_PRINTED:
            raise _NotOurs


def _first_change(found: list[Hunk] | None) -> int:
    """The number of the first line that differs."""
    if not found:
        return 1
    return found[0].old_start + next((n for n, line in enumerate(found[0].lines) if not line.startswith(" ")), 0)
