"""`tasks`: what runs in the background, what it prints, and how it ends."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.help import CommandGroup
from ostler.clients.cli.output import (
    Colour,
    Format,
    colourize,
    fit,
    format_table,
    is_terminal,
    note,
    sanitize,
    say,
    say_json,
)
from ostler.clients.cli.session_choice import fetch_all_pages

if TYPE_CHECKING:
    from ostler.clients import Ostler

FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
SessionOption = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="Only those of this session and its agents.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Those that are over too.")]
TaskArgument = Annotated[str, typer.Argument(metavar="ID", help="A task's id, as `ostler tasks` shows it.")]

COLOURS: Final[dict[str, Colour]] = {"running": "yellow", "completed": "green", "failed": "red", "killed": "dim"}
_TIMED_OUT: Final = 124
_STOPPED: Final = 143
_WAIT_SECONDS: Final = 20.0
"""Of one call; whoever waits longer asks again."""
_SUBJECT_WIDTH: Final = 80

group = CommandGroup(
    help="Show, watch, await and stop what runs in the background.\n\nWithout a command: what runs now.",
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="tasks")


@group.callback(invoke_without_command=True)
def _without_command(
    context: typer.Context, session: SessionOption = None, all: AllOption = False, format: FormatOption = "text"
) -> None:
    if context.invoked_subcommand is None:
        list_(context, session=session, all=all, format=format)


@group.command("list")
def list_(
    context: typer.Context, session: SessionOption = None, all: AllOption = False, format: FormatOption = "text"
) -> None:
    """List tasks, oldest first."""

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        wanted = {"session_id": session, "status": None if all else "running"}
        return await fetch_all_pages(ostler, "task/list", wanted, "tasks")

    found = run_with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    for line in format_table([_format_cells(task) for task in found["tasks"]], {}):
        say(line)
    if not found["tasks"]:
        note("There are no tasks." if all else "Nothing runs in the background.")
    elif is_terminal():
        note("`ostler tasks show ID` shows what one printed, `ostler tasks stop ID` ends it.")


def _format_cells(task: dict[str, Any]) -> list[str]:
    about = fit(task["command"] or task["description"], _SUBJECT_WIDTH)
    return [
        task["id"],
        describe_status(task),
        task["started_at"],
        f"{task['output_bytes']} B",
        task["session_id"],
        about,
    ]


def describe_status(task: dict[str, Any]) -> str:
    """Its state in a few words."""
    if task["exit_code"]:
        return f"{task['status']} ({task['exit_code']})"
    return str(task["status"])


@group.command()
def show(
    context: typer.Context,
    task_id: TaskArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the task is over.")] = False,
    format: FormatOption = "text",
) -> None:
    """Show what a task has printed, and how it stands."""
    if follow and format == "json":
        raise typer.BadParameter("give --follow or --format json, not both")

    async def ask(ostler: "Ostler") -> None:
        if format == "json":
            text = "".join([piece async for piece in ostler.printed(task_id)])
            say_json({"task": await ostler.request("task/get", {"task_id": task_id}), "output": text})
            return
        await _copy_output(ostler, task_id, follow=follow)
        _say_state(await ostler.request("task/get", {"task_id": task_id}))

    run_with_daemon(context, ask)


async def _copy_output(ostler: "Ostler", task_id: str, *, follow: bool) -> None:
    """In a pipe as it is; a terminal is not steered by what a command printed."""
    last = "\n"
    async for piece in ostler.printed(task_id, follow=follow):
        sys.stdout.write(sanitize(piece) if is_terminal() else piece)
        sys.stdout.flush()
        last = piece or last
    if is_terminal() and not last.endswith("\n"):
        say()


def _say_state(task: dict[str, Any]) -> None:
    why = f": {task['error']}" if task["error"] else ""
    state = colourize(describe_status(task), COLOURS.get(task["status"], "dim"), sys.stderr)
    note(f"{task['id']} {state}{sanitize(why)}")


@group.command()
def stop(
    context: typer.Context,
    task_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The tasks to end.")],
    format: FormatOption = "text",
) -> None:
    """End tasks, with all that they started."""

    async def end(ostler: "Ostler") -> list[dict[str, Any]]:
        # All of them are looked up first: a mistyped id must not be found out halfway.
        for task_id in task_ids:
            await ostler.request("task/get", {"task_id": task_id})
        return [await ostler.request("task/stop", {"task_id": task_id}) for task_id in dict.fromkeys(task_ids)]

    ended = run_with_daemon(context, end)
    if format == "json":
        say_json({"tasks": ended})
        return
    for task in ended:
        say(f"{task['id']} {describe_status(task)}")


@group.command()
def wait(
    context: typer.Context,
    task_id: TaskArgument,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="S", min=0, help="Wait no longer than so many seconds.")
    ] = None,
    format: FormatOption = "text",
) -> None:
    """Wait for the end of a task: exit code 0, the command's own, 143 if it was stopped, 124 if the time is over."""

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        return await _wait_for_end(ostler, task_id, timeout)

    task = run_with_daemon(context, ask)
    if format == "json":
        say_json(task)
    else:
        _say_state(task)
    raise typer.Exit(_choose_exit_code(task))


async def _wait_for_end(ostler: "Ostler", task_id: str, seconds: float | None) -> dict[str, Any]:
    import anyio

    deadline = anyio.current_time() + seconds if seconds is not None else float("inf")
    while True:
        left = min(_WAIT_SECONDS, max(0.0, deadline - anyio.current_time()))
        wanted = {"task_id": task_id, "timeout_ms": int(left * 1000)}
        task: dict[str, Any] = await ostler.request("task/wait", wanted)
        if task["ended_at"] is not None or anyio.current_time() >= deadline:
            return task


def _choose_exit_code(task: dict[str, Any]) -> int:
    match task["status"]:
        case "completed":
            return 0
        case "failed":
            return int(task["exit_code"] or 1)
        case "killed":
            return _STOPPED
        case _:
            return _TIMED_OUT
