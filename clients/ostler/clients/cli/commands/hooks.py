"""`hooks`: what runs at which moment, and whose it is."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostler.clients.cli.commands.rules import format_problem
from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.output import Format, format_table, note, say, say_json
from ostler.clients.cli.session_choice import FolderOption, SessionOption, choose_session, fetch_all_pages

if TYPE_CHECKING:
    from ostler.clients import Ostler


def add_to(app: typer.Typer) -> None:
    app.command()(hooks)


def hooks(
    context: typer.Context,
    session: SessionOption = None,
    cwd: FolderOption = None,
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """List the hooks of a session: when each runs, for what, how, what it does, and whose it is."""

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        return await fetch_all_pages(
            ostler, "hook/list", {"session_id": await choose_session(ostler, session, cwd)}, "hooks"
        )

    found = run_with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    for line in format_table([_format_cells(hook) for hook in found["hooks"]], {}):
        say(line)
    if not found["hooks"]:
        note("No hooks. They are declared under `hooks` in a settings file: .ostler/settings.json for this folder.")
    for problem in found["problems"]:
        note(format_problem(problem))


def _format_cells(hook: dict[str, Any]) -> list[str]:
    which = " if ".join(part for part in (hook["matcher"] or "*", hook["condition"]) if part)
    return [
        hook["event"],
        which,
        hook["kind"],
        hook["shown"],
        hook["source"],
        hook["file"] or "",
        _describe_state(hook),
    ]


def _describe_state(hook: dict[str, Any]) -> str:
    if hook["problem"]:
        return f"broken: {hook['problem']}"
    return "acts" if hook["acts"] else "does nothing: the folder is not trusted"
