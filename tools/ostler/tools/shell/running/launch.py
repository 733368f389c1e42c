"""What is done before a command can start: its folder, its output file, its variables, its sandbox."""

import contextlib
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import anyio

from ostler.tools.context import ToolContext
from ostler.tools.fs import cached_io
from ostler.tools.process.environment import command_environment, output_prefix
from ostler.tools.sandbox import confined, hold, release, wrap
from ostler.tools.sandbox.policy import Confinement, confinement, kept_to_reading
from ostler.tools.services import Watch
from ostler.tools.shell.output.output_file import OutputFile
from ostler.tools.shell.running.profile import Snapshot
from ostler.tools.shell.running.program import Begin, ShellProgram, bash
from ostler.tools.threads import change_in_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

_QUICK: Final = 0.002
"""Seconds that nobody else notices."""


class NoFolder(Exception):
    """There is no folder left to run it in."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be run, and how long somebody waits for it."""

    command: str
    seconds: float
    description: str | None = None
    in_background: bool = False
    """It goes behind its call at once."""
    may_go_on: bool = False
    """When the time is over it goes behind its call, instead of being ended."""
    watch: Watch | None = None
    """What it prints is watched, behind its call."""
    program: ShellProgram = bash
    outside: bool = False
    """A person allowed it to run outside the sandbox."""


@dataclass(slots=True)
class Prepared:
    """All that a command needs to be started."""

    folder: str
    output: OutputFile
    arguments: list[str]
    environment: dict[str, str]
    held: frozenset[str] | None = None
    sandboxed: bool = False

    def drop(self) -> None:
        self.output.remove()
        if self.held is not None:
            release(self.held)


class _Pace:
    """Whether commands are made ready on the event loop: where it is quick, a trip to a thread takes longer than it."""

    def __init__(self) -> None:
        self._quick = False
        """Until it has been seen: the first time the shell is looked for, and the folder may have to be made."""

    def allows(self, order: Order, context: ToolContext) -> bool:
        sandboxing = context.surroundings.sandboxing
        outside = sandboxing is None or order.outside or not sandboxing.wanted(only_reads=context.only_reads)
        return self._quick and outside

    def prepare(self, order: Order, context: ToolContext, profile: Snapshot | None, folder: str) -> Prepared:
        began = time.perf_counter()
        try:
            return _prepare(order, context, profile, folder)
        finally:
            self._quick = time.perf_counter() - began < _QUICK

    def find_and_prepare(self, order: Order, context: ToolContext, profile: Snapshot | None) -> Prepared:
        surroundings = context.surroundings
        folder = next((each for each in (surroundings.shell_folder, surroundings.folder) if os.path.isdir(each)), None)
        if folder is None:
            raise NoFolder(f"The folder {surroundings.folder} does not exist any more.")
        return self.prepare(order, context, profile, folder)


_pace: Final = _Pace()


async def made_ready(order: Order, context: ToolContext) -> Prepared:
    """Raises NoFolder, SandboxMissing, NotProtectable and OSError."""
    profile = await _profile_of(context)
    if _pace.allows(order, context):
        with contextlib.suppress(cached_io.WouldWait):
            folder = context.surroundings.shell_folder
            if cached_io.is_folder(folder):
                return _pace.prepare(order, context, profile, folder)
    prepared: Prepared | None = None
    # Shielded: what is made ready by a call that ends meanwhile would be nobody's, its file and descriptor too.
    with anyio.CancelScope(shield=True):
        prepared = await change_in_thread(_pace.find_and_prepare, order, context, profile)
    assert prepared is not None
    return prepared


async def _profile_of(context: ToolContext) -> Snapshot | None:
    """Without a wait, but for the first command and now and then: it cannot be sourced on the event loop."""
    profile = context.surroundings.profile
    if profile is None:
        return None
    return profile.at_once() or await profile.current()


def _prepare(order: Order, context: ToolContext, profile: Snapshot | None, folder: str) -> Prepared:
    surroundings = context.surroundings
    sandboxing = surroundings.sandboxing
    confined_by = None
    if sandboxing is not None and not order.outside:
        confined_by = confinement(sandboxing, surroundings, only_reads=context.only_reads)
    # A command that passed because of its words alone has to mean just them.
    definitions = None
    if profile is not None and profile.definitions and not context.only_reads and profile.concerns(order.command):
        definitions = profile.definitions
    # One that a sandbox shows to what runs in it is not used again.
    prefix, again = output_prefix(context.call_id), confined_by is None
    output = OutputFile.create(context.output_folder, prefix, may_be_used_again=again)
    try:
        begin = Begin(order.command, folder, output.end_path, surroundings.umask, definitions)
        arguments = order.program(begin)
        environment: Mapping[str, str] = command_environment(surroundings.environment, context.call_id, profile)
        if context.only_reads:
            environment = kept_to_reading(environment, surroundings.roots)
        prepared = Prepared(folder, output, arguments, dict(environment))
        return prepared if confined_by is None else _in_the_sandbox(prepared, confined_by, definitions)
    except BaseException:
        output.remove()
        raise


def held_note(output_path: str) -> str:
    """The file beside a command's output that says which names are kept from being created while it runs."""
    return f"{output_path}.held"


def _in_the_sandbox(prepared: Prepared, by: Confinement, definitions: str | None) -> Prepared:
    prepared.output.make_end_file()
    profile = replace(
        by.profile,
        folder=prepared.folder,
        own_files=(prepared.output.end_path,),
        shown_files=(definitions,) if definitions is not None else (),
    )
    held = hold(profile, held_note(prepared.output.path)) if profile.kind == "workspace" else None
    try:
        # The shell above the command stays. No signal from inside reaches the first process, so it is that only where
        # none is sent: `kill $$` is not reading.
        arguments = wrap(prepared.arguments, profile, by.support, stays=profile.kind == "read_only")
    except BaseException:
        if held is not None:
            release(held)
        raise
    environment = confined(prepared.environment)
    return replace(prepared, arguments=arguments, environment=environment, held=held, sandboxed=True)
