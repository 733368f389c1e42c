"""`memory`: notes for later sessions, the project's and the person's own."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.help import CommandGroup
from ostler.clients.cli.output import Format, format_table, note, say, say_json
from ostler.clients.cli.session_choice import FolderOption, SessionOption, choose_session, fetch_all_pages

if TYPE_CHECKING:
    from ostler.clients import Ostler

FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]

group = CommandGroup(help="Show and add notes for later sessions.\n\nWithout a command: the files that there are.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="memory")


@group.callback(invoke_without_command=True)
def _without_command(
    context: typer.Context, session: SessionOption = None, cwd: FolderOption = None, format: FormatOption = "text"
) -> None:
    if context.invoked_subcommand is None:
        list_(context, session=session, cwd=cwd, format=format)


@group.command("list")
def list_(
    context: typer.Context, session: SessionOption = None, cwd: FolderOption = None, format: FormatOption = "text"
) -> None:
    """Show the files of notes: whose, how large, and whether their first lines stand in the prompt."""

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        session_id = await choose_session(ostler, session, cwd)
        return await fetch_all_pages(ostler, "memory/list", {"session_id": session_id}, "notes")

    found = run_with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    rows = [
        [one["scope"], f"{one['size']:,}", "prompt" if one["in_prompt"] else "", one["path"]] for one in found["notes"]
    ]
    for line in format_table(rows, {}) if rows else []:
        say(line)
    if not rows:
        note("There are no notes. `ostler memory add TEXT` writes one.")


@group.command()
def add(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to keep.")],
    user: Annotated[bool, typer.Option("--user", help="Among your own notes, and not the project's.")] = False,
    session: SessionOption = None,
    cwd: FolderOption = None,
    format: FormatOption = "text",
) -> None:
    """Add a note; the sessions that begin from now on know it."""

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        wanted = {"text": text, "scope": "user" if user else "project"}
        session_id = await choose_session(ostler, session, cwd)
        added: dict[str, Any] = await ostler.request("memory/add", {"session_id": session_id, **wanted})
        return added

    added = run_with_daemon(context, ask)
    if format == "json":
        say_json(added)
    else:
        say(f"Kept in {added['path']}")
