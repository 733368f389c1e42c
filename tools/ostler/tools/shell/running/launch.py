"""Prepares a command for its start: its folder, its output file, its environment variables, its sandbox."""

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import anyio

from ostler.tools import commands
from ostler.tools.context import ToolContext
from ostler.tools.fs import cached_io
from ostler.tools.process.environment import build_command_environment, build_output_prefix
from ostler.tools.sandbox import (
    HeldPlaceholders,
    confine_environment,
    find_filter,
    hold_workspace,
    release_placeholders,
    resolve_program,
    wrap,
)
from ostler.tools.sandbox.kernel.limits import (
    LimitWatch,
    build_group_prefix,
    find_delegated_group,
    make_group,
    remove_group,
)
from ostler.tools.sandbox.kernel.seccomp import FILTER_DESCRIPTOR
from ostler.tools.sandbox.policy import Confinement, choose_confinement, restrict_to_reading
from ostler.tools.services import ProfileSnapshot, WatchSpec
from ostler.tools.shell.output.output_file import OutputFile
from ostler.tools.shell.running.program import ShellProgram, ShellStart, build_bash_arguments
from ostler.tools.threads import change_in_thread
from ostler.tools.tool_config import NO_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

_QUICK_SECONDS: Final = 0.002
"""Seconds for which the event loop may be blocked."""


class NoFolder(Exception):
    """The folder to run it in does not exist any more."""


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """The command to run, its time limit, and whether it runs in the background."""

    command: str
    seconds: float
    description: str | None = None
    in_background: bool = False
    """It goes to the background at once."""
    may_go_on: bool = False
    """When its time is over it goes to the background, instead of being ended."""
    watch: WatchSpec | None = None
    """What it prints is monitored, in the background."""
    program: ShellProgram = build_bash_arguments
    outside_sandbox: bool = False
    """A person allowed it to run outside the sandbox."""
    expanded: str | None = None
    """What runs in its place, where it only reads: for its patterns the names that were found when it was judged."""
    only_edits: bool = False
    """It was allowed because it does nothing but change files inside the roots, and is restricted to that."""
    network_reads: bool = False
    """It was allowed because it only looks: outside the sandbox, but with what else restricts a read-only command."""


@dataclass(slots=True)
class PreparedCommand:
    """All that a command needs to be started."""

    folder: str
    output: OutputFile
    arguments: list[str]
    environment: dict[str, str]
    placeholders: frozenset[str] | None = None
    sandboxed: bool = False
    opened: Sequence[tuple[int, str]] = ()
    """Files that it is given besides its streams, each by its number."""
    limits: Limits = NO_LIMITS
    group: str | None = None
    """The folder of a control group that bounds its memory."""

    def watch_limits(self, leader: int) -> LimitWatch | None:
        return LimitWatch(self.limits, leader, self.group) if self.limits != NO_LIMITS else None

    def discard(self) -> None:
        self.output.remove()
        if self.group is not None:
            remove_group(self.group)
        if self.placeholders is not None:
            release_placeholders(self.placeholders)


class _Preparer:
    """Prepares commands, on the event loop where the last time was quick: a thread would take longer."""

    def __init__(self) -> None:
        self._quick = False
        """Not yet known to be: the first time the shell is looked for, and the folder may have to be made."""

    def allows(self, spec: CommandSpec, context: ToolContext) -> bool:
        sandboxing = context.session.config.sandbox
        restricted = context.only_reads or spec.only_edits
        outside = sandboxing is None or spec.outside_sandbox or not sandboxing.is_wanted(restricted=restricted)
        return self._quick and outside

    def prepare(
        self, spec: CommandSpec, context: ToolContext, profile: ProfileSnapshot | None, folder: str
    ) -> PreparedCommand:
        began = time.perf_counter()
        try:
            return _prepare(spec, context, profile, folder)
        finally:
            self._quick = time.perf_counter() - began < _QUICK_SECONDS

    def find_and_prepare(
        self, spec: CommandSpec, context: ToolContext, profile: ProfileSnapshot | None
    ) -> PreparedCommand:
        session = context.session
        folder = next((each for each in (session.shell_folder, session.folder) if os.path.isdir(each)), None)
        if folder is None:
            raise NoFolder(f"The folder {session.folder} does not exist any more.")
        return self.prepare(spec, context, profile, folder)


_preparer: Final = _Preparer()


async def prepare(spec: CommandSpec, context: ToolContext) -> PreparedCommand:
    """Makes all that a command needs. Raises NoFolder, SandboxMissing, NotProtectable and OSError."""
    profile = await _load_profile(context)
    if _preparer.allows(spec, context):
        with contextlib.suppress(cached_io.WouldBlock):
            folder = context.session.shell_folder
            if cached_io.is_folder(folder):
                return _preparer.prepare(spec, context, profile, folder)
    prepared: PreparedCommand | None = None
    # Shielded: what is prepared for a call that ends meanwhile would leak, with its file and descriptor.
    with anyio.CancelScope(shield=True):
        prepared = await change_in_thread(_preparer.find_and_prepare, spec, context, profile)
    assert prepared is not None
    return prepared


async def _load_profile(context: ToolContext) -> ProfileSnapshot | None:
    """Mostly from the cache; for the first command, and when it is to be checked again, sourced elsewhere than here."""
    profile = context.session.config.profile
    if profile is None:
        return None
    return profile.get_cached() or await profile.load_current()


def _prepare(spec: CommandSpec, context: ToolContext, profile: ProfileSnapshot | None, folder: str) -> PreparedCommand:
    session = context.session
    sandboxing = session.config.sandbox
    confined_by = None
    if sandboxing is not None and not spec.outside_sandbox:
        confined_by = choose_confinement(
            sandboxing, session, only_reads=context.only_reads, only_edits=spec.only_edits, command=spec.command
        )
    # A command that was allowed because its text only reads must not be changed by functions and aliases.
    by_text = context.only_reads or spec.network_reads
    definitions = None
    if profile is not None and profile.definitions and not by_text and profile.may_be_used_by(spec.command):
        definitions = profile.definitions
    # A file that was visible inside a sandbox is not used again.
    prefix, again = build_output_prefix(context.call_id), confined_by is None
    output = OutputFile.create(context.output_folder, prefix, may_be_used_again=again)
    try:
        environment: Mapping[str, str] = build_command_environment(session.environment, context.call_id, profile)
        programs: tuple[tuple[str, str], ...] = ()
        command = spec.command
        if context.only_reads:
            # Also where there is no sandbox: what runs unasked may print its variables.
            environment = confine_environment(environment)
        if by_text:
            environment = restrict_to_reading(environment, session.roots, network=spec.network_reads)
            programs = _find_programs(spec.command, environment["PATH"], session.roots)
            command = spec.expanded or spec.command
        start = ShellStart(
            command,
            folder,
            output.end_path,
            session.config.umask,
            definitions,
            locked=context.allowed_by_text,
            literal=context.only_reads,
            programs=programs,
        )
        arguments = spec.program(start)
        prepared = PreparedCommand(folder, output, arguments, dict(environment))
        return prepared if confined_by is None else _wrap_in_sandbox(prepared, confined_by, definitions)
    except BaseException:
        output.remove()
        raise


def _find_programs(command: str, path: str, roots: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The programs of a command that only reads, found by us outside the roots, also after all links."""
    names = commands.list_programs(commands.parse_command(command)) - {None}
    found = ((name, resolve_program(name, path, roots)) for name in sorted(map(str, names)) if "/" not in name)
    return tuple((name, place) for name, place in found if place is not None)


def build_note_path(output_path: str) -> str:
    """The path of the file beside a command's output that lists the placeholders which it holds."""
    return f"{output_path}.held"


def _wrap_in_sandbox(prepared: PreparedCommand, by: Confinement, definitions: str | None) -> PreparedCommand:
    prepared.output.make_end_file()
    profile = replace(
        by.profile,
        folder=prepared.folder,
        own_files=(prepared.output.end_path,),
        shown_files=(*by.profile.shown_files, *((definitions,) if definitions is not None else ())),
    )
    held: HeldPlaceholders | None = None
    if profile.kind == "workspace":
        profile, held = hold_workspace(profile, build_note_path(prepared.output.path))
    try:
        # The outer shell stays. Signals from inside do not reach the init process, so the command is that only where it
        # sends none: `kill $$` is not read-only.
        stays = profile.kind == "read_only"
        arguments = wrap(prepared.arguments, profile, by.support, filter_descriptor=FILTER_DESCRIPTOR, stays=stays)
        group = _make_group(profile.limits)
    except BaseException:
        if held is not None:
            release_placeholders(held)
        raise
    if group is not None:
        arguments = [*build_group_prefix(group), *arguments]
    environment = confine_environment(prepared.environment)
    path = find_filter(profile, by.support)
    opened = ((FILTER_DESCRIPTOR, path),) if path is not None else ()
    return replace(
        prepared,
        arguments=arguments,
        environment=environment,
        placeholders=held,
        sandboxed=True,
        opened=opened,
        limits=profile.limits,
        group=group,
    )


def _make_group(limits: Limits) -> str | None:
    """Where none is delegated to us, memory is watched."""
    if not limits.memory_mb or (parent := find_delegated_group()) is None:
        return None
    return make_group(parent, limits)
