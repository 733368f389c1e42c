"""`serve`, `start`, `stop`, `status`, `logs`: running the daemon, and its log."""

import os
import sys
from typing import Annotated, Any

import typer

from ostler.clients.cli import quick_rpc
from ostler.clients.cli.context import get_cli_context
from ostler.clients.cli.notices import REHEARSAL, is_rehearsal
from ostler.clients.cli.output import (
    Format,
    colourize,
    format_duration,
    format_facts,
    is_terminal,
    note,
    sanitize,
    say,
    say_json,
)
from ostler.clients.cli.spinner import Spinner
from ostler.clients.sdk.errors import ClientError
from ostler.clients.sdk.probe import DaemonState, compute_uptime, probe
from ostler.clients.sdk.process.launch import DaemonOptions
from ostler.clients.sdk.process.launch import start as start_daemon
from ostler.clients.sdk.process.launch import stop as stop_daemon
from ostler.clients.sdk.process.spawn import build_daemon_command
from ostler.clients.sdk.process.tail import follow as follow_file
from ostler.clients.sdk.process.tail import read_last_lines
from ostler.protocol.places import Places

NOT_RUNNING = 3
Host = Annotated[str | None, typer.Option("--host", metavar="H", help="The address to listen on.")]
Port = Annotated[int | None, typer.Option("--port", metavar="N", help="The port; 0 is any free one.")]
Socket = Annotated[str | None, typer.Option("--socket", metavar="PATH", help="The Unix socket.")]
Model = Annotated[str | None, typer.Option("--model", metavar="M", help="The model of new sessions.")]
AllowHost = Annotated[
    list[str] | None, typer.Option("--allow-host", metavar="H", help="A further host name to answer to; repeatable.")
]


def add_to(app: typer.Typer) -> None:
    for command in (serve, start, stop, status, logs):
        app.command()(command)


def serve(
    context: typer.Context,
    host: Host = None,
    port: Port = None,
    socket: Socket = None,
    home: Annotated[str | None, typer.Option("--home", metavar="DIR", help="As before the command.")] = None,
    model: Model = None,
    allow_host: AllowHost = None,
    log_file: Annotated[
        str | None, typer.Option("--log-file", metavar="PATH", help="Log there instead of on stderr.")
    ] = None,
) -> None:
    """Run the daemon in the foreground."""
    options = DaemonOptions(host, port, socket, model, tuple(allow_host or ()))
    command = build_daemon_command(options.to_arguments(), home or get_cli_context(context).home, log_file)
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - a list of words, no shell


def start(
    context: typer.Context,
    host: Host = None,
    port: Port = None,
    socket: Socket = None,
    model: Model = None,
    allow_host: AllowHost = None,
) -> None:
    """Start the daemon in the background."""
    where = os.path.abspath(socket) if socket else None
    options = DaemonOptions(host, port, where, model, tuple(allow_host or ()))
    with Spinner("starting the daemon") as tick:
        started = start_daemon(get_cli_context(context).places, options, tick)
    state = started.state
    if state.file is None:
        return
    words = "Started" if started.fresh else "Already running"
    say(f"{words}: {state.file.url} (pid {state.file.pid})")
    _warn_if_read_only(state)


def stop(context: typer.Context) -> None:
    """Stop the daemon."""
    with Spinner("stopping the daemon") as tick:
        stopped = stop_daemon(get_cli_context(context).places, tick)
    say(f"Stopped (pid {stopped.pid})." if stopped else "No daemon runs.")


def status(
    context: typer.Context,
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """Say whether the daemon runs; exit 3 if not."""
    places = get_cli_context(context).places
    state = probe(places)
    info = quick_rpc.call(places, "server/info", {}) if state.running else {}
    if format == "json":
        say_json(_as_json(state, places, info))
    else:
        _say_status(state, places, info)
    if not state.running:
        raise typer.Exit(NOT_RUNNING)


def _as_json(state: DaemonState, places: Places, info: dict[str, Any]) -> dict[str, object]:
    file = state.file if state.condition in {"running", "silent"} else None
    uptime = compute_uptime(file) if file else None
    return {
        "running": state.running,
        "ready": state.ready,
        "read_only": state.read_only,
        "pid": file.pid if file else None,
        "version": file.version if file else None,
        "url": file.url if file else None,
        "socket": file.socket if file else None,
        "started": file.started if file else None,
        "uptime_ms": int(uptime * 1000) if uptime is not None else None,
        "home": str(places.data),
        "model": info.get("model"),
        "provider": info.get("provider"),
    }


def _say_status(state: DaemonState, places: Places, info: dict[str, Any]) -> None:
    if state.file is None or state.condition == "stale":
        gone = "" if state.file is None else f" (the last one, pid {state.file.pid}, ended without saying so)"
        say(f"No daemon runs for {places.data}{gone}. `ostler start` starts one.")
        return
    if state.condition == "silent":
        say(f"The daemon (pid {state.file.pid}) does not answer. See `ostler logs`, or `ostler stop`.")
        return
    uptime = compute_uptime(state.file)
    say(colourize(f"ostler {state.file.version} is running", "green"))
    say(
        format_facts(
            [
                ("pid", state.file.pid),
                ("url", state.file.url),
                ("socket", state.file.socket),
                ("up", format_duration(uptime) if uptime is not None else None),
                ("home", places.data),
                ("ready", "yes" if state.ready else "no"),
                ("model", info.get("model")),
            ]
        )
    )
    if is_rehearsal(info.get("model", "")):
        note(REHEARSAL)
    _warn_if_read_only(state)


def _warn_if_read_only(state: DaemonState) -> None:
    if state.read_only:
        note(f"It cannot write, and only answers reads: {state.read_only} See `ostler doctor`.")


def logs(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with what is written from now on.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", metavar="N", min=0, help="How many to begin with.")] = 50,
) -> None:
    """Show the daemon's log."""
    path = get_cli_context(context).places.log_file
    if follow:
        for text in follow_file(path, lines):
            sys.stdout.write(_sanitize_for_terminal(text))
            sys.stdout.flush()
    if not path.exists():
        raise ClientError(f"There is no log yet at {path}. A daemon that `ostler start` starts writes one.")
    for line in read_last_lines(path, lines):
        say(_sanitize_for_terminal(line))


def _sanitize_for_terminal(text: str) -> str:
    return sanitize(text) if is_terminal() else text
