"""The context of every command (the home, and whether a daemon may be started), and its connection to the daemon."""

import gc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from ostler.clients.cli.output import note
from ostler.clients.cli.spinner import Spinner
from ostler.protocol.places import Places, find_places

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from ostler.clients import Ostler

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CliContext:
    home: str | None
    start: bool
    """Whether commands start a daemon where none runs."""

    @property
    def places(self) -> Places:
        return find_places(self.home)


def get_cli_context(context: typer.Context) -> CliContext:
    found = context.find_root().obj
    return found if isinstance(found, CliContext) else CliContext(None, start=True)


def get_own_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ostler")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "0+unknown"


def run_with_daemon(
    context: typer.Context,
    work: "Callable[[Ostler], Awaitable[T]]",
    *,
    answers: bool = False,
    prepare: Callable[[], None] = lambda: None,
) -> T:
    """Do this with a connected daemon, started first if need be; `answers` tells it that asks can be shown here.

    `prepare` is called before, and while the daemon starts where it has to be started.
    """
    cli = get_cli_context(context)

    def prepare_all() -> None:
        gc.disable()  # as at the start of the command: what is imported stays
        _import_client()
        prepare()
        gc.freeze()
        gc.enable()

    _ensure_daemon(cli, prepare_all)

    import asyncio

    import anyio

    from ostler.clients import connect
    from ostler.protocol.client import ClientCapabilities

    kinds = ClientCapabilities(answers=["permission", "question", "plan", "elicitation", "trust"] if answers else [])

    async def connect_and_work() -> T:
        asyncio.get_running_loop().set_exception_handler(_ignore_invalid_state)
        async with connect(
            cli.home, name="ostler", version=get_own_version(), kind="terminal", capabilities=kinds
        ) as ostler:
            return await work(ostler)

    return anyio.run(connect_and_work)


def _ignore_invalid_state(loop: "AbstractEventLoop", context: dict[str, Any]) -> None:
    """A read that is given up just as its answer comes makes anyio complain about its own future: ignored."""
    from asyncio import InvalidStateError

    if not isinstance(context.get("exception"), InvalidStateError):
        loop.default_exception_handler(context)


def _import_client() -> None:
    import anyio._backends._asyncio  # noqa: F401
    import httpx2  # noqa: F401

    import ostler.clients.sdk.client  # noqa: F401


def _ensure_daemon(cli: CliContext, prepare: Callable[[], None]) -> None:
    from ostler.clients.sdk.errors import DaemonNotRunning, DaemonUnreachable
    from ostler.clients.sdk.probe import probe
    from ostler.clients.sdk.process.spawn import is_ahead

    places = cli.places
    if is_ahead(places):
        _start(places, prepare)
        return
    state = probe(places)
    if state.running or not cli.start:
        prepare()
    if state.running:
        return
    if state.condition == "silent" and state.file is not None:
        pid = state.file.pid
        raise DaemonUnreachable(f"The daemon (pid {pid}) does not answer. See `ostler logs`, or `ostler stop`.")
    if not cli.start:
        raise DaemonNotRunning(f"No daemon runs for {places.data}. Start one with `ostler start`.")
    _start(places, prepare)


def _start(places: Places, prepare: Callable[[], None]) -> None:
    from ostler.clients.sdk.process.launch import start

    with Spinner("starting the daemon") as tick:
        started = start(places, tick=tick, meanwhile=prepare)
    if started.fresh and started.state.file is not None:
        note(f"Started the daemon (pid {started.state.file.pid}); `ostler stop` ends it.")
