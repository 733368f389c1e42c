"""Carries out a simple `sed -i` as a file edit: shown with its diff, checked as Edit is, and written by the daemon.

The new content is never guessed: the real sed is run on the content as a filter.
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
from ostler.protocol.patterns import compile_later
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.files.editing import mutation, read_state
from ostler.tools.files.editing.diff import Hunk, compute_hunks, format_unified
from ostler.tools.files.editing.mutation import ChangeOutput, Plan, Planner
from ostler.tools.fs import paths
from ostler.tools.fs.text_file import TextFile, Unreadable, load
from ostler.tools.process.environment import build_command_environment
from ostler.tools.process.orphans import exclude_from_reaping
from ostler.tools.sandbox import NotProtectable, confine_environment, open_filter, wrap
from ostler.tools.sandbox.policy import choose_confinement, restrict_to_reading
from ostler.tools.services import FileRead, FileReads, ProfileSnapshot
from ostler.tools.shell.sed_command import SedCommand, parse_sed_command
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Allow, AskFirst, Change, Check, Failure, Refuse

_TIME_LIMIT: Final = 5.0
_MAX_BYTES: Final = 4 * 1024 * 1024
_MAX_PRINTED: Final = 4 * _MAX_BYTES
# A replacement may blow up a small file, before anybody was asked.
_ULIMIT_SCRIPT: Final = 'ulimit -v 524288; ulimit -t 5; exec "$@"'
_MAX_REMEMBERED: Final = 1_000
"""Calls that can wait for their permission at one time."""
_PLAIN_LOCALE: Final = compile_later(r"(?:C|POSIX|)\Z|.*UTF-?8", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SedEdit:
    """A file, and the content that sed gives it."""

    path: str
    before: TextFile
    plan: Plan
    diff: str | None
    """Null where it is too long to show."""

    def plan_if_unchanged(self, place: str, read: FileRead | None) -> Plan | Failure:
        """The plan, where the file still has the content that sed was given: an ask may have been open for hours."""
        now = mutation.load_if_there(place)
        if now is None or (place, now.digest) != (self.plan.place, self.before.digest):
            return Failure(f"{self.path} has changed since this was allowed. Nothing was written.", read_state.CHANGED)
        return replace(self.plan, before=now)


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What was done to the files, one after the other."""

    files: Sequence[ChangeOutput]
    changes: Sequence[Change]
    failure: Failure | None = None
    """What went wrong after these files."""


@dataclass(slots=True)
class PendingSedEdits:
    """The edits that wait for their permission, by call."""

    _pending: OrderedDict[CallId, tuple[SedEdit, ...]] = field(default_factory=OrderedDict)

    async def check_permission(self, command: str, context: ToolContext) -> Check | None:
        """The check that Edit would make; null where it is no such command, and is to be run as it is."""
        self._pending.pop(context.call_id, None)
        edits = await _find_edits(command, context)
        if edits is None:
            return None
        self._pending[context.call_id] = edits
        if len(self._pending) > _MAX_REMEMBERED:
            self._pending.popitem(last=False)
        checks = [
            await mutation.check_permission(each.path, _build_planner(each), context, paths.ApprovedPaths())
            for each in edits
        ]
        return _combine_checks(command, edits, checks)

    async def write_edits(self, command: str, context: ToolContext) -> WriteOutcome | Failure | None:
        """Writes the edits of a call; null where the command is to be run as it is."""
        pending = self._pending.pop(context.call_id, None)
        edits = await _find_edits(command, context) if pending is None else pending
        if edits is None:
            return None
        files: list[ChangeOutput] = []
        changes: list[Change] = []
        for each in edits:
            approved = paths.ApprovedPaths()
            approved.note(context.call_id, each.plan.place)
            # A session that had not read the file does not count as having read it now.
            as_known = replace(
                context,
                services=context.services.with_reads(_KnownFileReads(context.services.files.reads, each.before)),
            )
            written = await mutation.write(each.path, each.plan_if_unchanged, as_known, approved)
            if isinstance(written, Failure):
                return WriteOutcome(files, changes, written) if files else written
            files.append(ChangeOutput(**await mutation.build_output_fields(each.path, written, context)))
            changes.append(mutation.describe_change(each.path, written))
        return WriteOutcome(files, changes)


@dataclass(frozen=True, slots=True)
class _KnownFileReads:
    """The session's file reads, which are updated only for a file that it had read in its former content."""

    reads: FileReads
    before: TextFile

    def get(self, path: str) -> FileRead | None:
        return self.reads.get(path)

    def put(self, path: str, read: FileRead) -> None:
        known = self.reads.get(path)
        if known is not None and read_state.check_unchanged(path, known, self.before) is None:
            self.reads.put(path, read)


def _build_planner(edited: SedEdit) -> Planner:
    return lambda place, read: edited.plan


def _combine_checks(command: str, edits: Sequence[SedEdit], checks: Sequence[Check]) -> Check:
    """The strictest of the checks, with the diffs of all edits."""
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


async def _find_edits(command: str, context: ToolContext) -> tuple[SedEdit, ...] | None:
    sed = parse_sed_command(command) if sys.platform == "linux" else None
    if sed is None:
        return None
    profile = context.session.config.profile
    snapshot = await profile.load_current() if profile is not None else None
    if snapshot is not None and "sed" in snapshot.names:
        return None
    try:
        return await read_in_thread(_compute_edits, sed, context.session, snapshot, context.call_id)
    except (_NotReproducible, NotProtectable, Unreadable, OSError, UnicodeError, subprocess.SubprocessError):
        return None


class _NotReproducible(Exception):
    """It is not sure that writing the files here does the same as sed: the command is to be run as it is."""


def _compute_edits(
    sed: SedCommand, session: SessionView, snapshot: ProfileSnapshot | None, call_id: CallId
) -> tuple[SedEdit, ...]:
    environment = build_command_environment(session.environment, call_id, snapshot)
    program = shutil.which("sed", path=environment.get("PATH"))
    # Relative folders in PATH are relative to the command's folder, and not to the daemon's.
    if program is None or not os.path.isabs(program) or paths.is_inside_roots(paths.resolve_path(program), session):
        raise _NotReproducible
    if not _PLAIN_LOCALE.match(next((environment[name] for name in _LOCALES if environment.get(name)), "")):
        raise _NotReproducible
    run = _SedProcess([program, "--sandbox", *sed.arguments], session, environment)
    found = [_compute_edit(run, paths.normalize_path(os.path.join(session.shell_folder, name))) for name in sed.files]
    changed = tuple(each for each in found if each.plan.text != each.before.text)
    if not changed or len({each.plan.place for each in changed}) != len(changed):
        raise _NotReproducible
    return changed


_LOCALES: Final = ("LC_ALL", "LC_CTYPE", "LANG")


def _compute_edit(run: "_SedProcess", path: str) -> SedEdit:
    status = os.lstat(path)
    # sed would replace a link by a file.
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES or mutation.check_text_path(path) is not None:
        raise _NotReproducible
    place = paths.resolve_path(path)
    before = load(place)
    new = run.transform(before.encoding.encode(before.text))
    text = before.encoding.decode(new)
    if not new.startswith(before.encoding.bom) or before.encoding.encode(text) != new:
        raise _NotReproducible
    found = compute_hunks(before.text, text)
    return SedEdit(path, before, Plan(place, before, text, _find_first_change(found)), format_unified(path, found))


@dataclass(frozen=True, slots=True)
class _SedProcess:
    """The real sed, run as a filter."""

    arguments: list[str]
    session: SessionView
    environment: dict[str, str]

    def transform(self, content: bytes) -> bytes:
        """The content after sed. Raises _NotReproducible where it refuses its arguments, or takes too long."""
        session = self.session
        environment = restrict_to_reading(self.environment, session.roots)
        by = choose_confinement(session.config.sandbox, session, only_reads=True) if session.config.sandbox else None
        arguments = ["/bin/sh", "-c", _ULIMIT_SCRIPT, "sh", *self.arguments]
        with contextlib.ExitStack() as stack:
            inherited: Sequence[int] = ()
            if by is not None:
                inherited = stack.enter_context(open_filter(by.profile, by.support))
                number = inherited[0] if inherited else None
                arguments = wrap(arguments, by.profile, by.support, filter_descriptor=number)
                environment = confine_environment(environment)
            return self._run(content, arguments, environment, inherited)

    def _run(
        self, content: bytes, arguments: list[str], environment: dict[str, str], inherited: Sequence[int]
    ) -> bytes:
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
                pass_fds=inherited,
            )
        with exclude_from_reaping(running.pid), running:
            try:
                printed = _read_printed(running)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
        if running.returncode != 0:
            raise _NotReproducible
        return printed


def _read_printed(running: "subprocess.Popen[bytes]") -> bytes:
    assert running.stdout is not None
    deadline, printed = time.monotonic() + _TIME_LIMIT, bytearray()
    while True:
        if not select.select([running.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise _NotReproducible
        chunk = os.read(running.stdout.fileno(), 1024 * 1024)
        if not chunk:
            running.wait(1)
            return bytes(printed)
        printed += chunk
        if len(printed) > _MAX_PRINTED:
            raise _NotReproducible


def _find_first_change(found: list[Hunk] | None) -> int:
    """The number of the first line that differs."""
    if not found:
        return 1
    return found[0].old_start + next((n for n, line in enumerate(found[0].lines) if not line.startswith(" ")), 0)
