"""`todos`: the work list of a session, which its agent writes and people may edit."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.help import CommandGroup
from ostler.clients.cli.output import Format, note, say, say_json
from ostler.clients.cli.render.todo import format_todo
from ostler.clients.cli.session_choice import FolderOption, SessionOption, choose_session, fetch_all_pages

if TYPE_CHECKING:
    from ostler.clients import Ostler

FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
TodoArgument = Annotated[str, typer.Argument(metavar="ID", help="An item's id, as `ostler todos` shows it.")]
Status = Literal["pending", "in_progress", "completed"]

group = CommandGroup(help="Show and edit the work list of a session.\n\nWithout a command: the list.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="todos")


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
    """Show the list, in its order."""

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        session_id = await choose_session(ostler, session, cwd)
        return await fetch_all_pages(ostler, "todo/list", {"session_id": session_id}, "todos")

    _show(run_with_daemon(context, ask), format)


@group.command()
def add(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="What is to be done.")],
    description: Annotated[str, typer.Option("--description", help="What belongs to it.")] = "",
    after: Annotated[list[str] | None, typer.Option("--after", metavar="ID", help="An item that it waits for.")] = None,
    session: SessionOption = None,
    cwd: FolderOption = None,
    format: FormatOption = "text",
) -> None:
    """Add an item at the end; the agent is told of it."""

    wanted = {"subject": subject, "description": description, "blocked_by": after or []}
    _change(context, session, cwd, "todo/create", wanted, format)


@group.command()
def edit(
    context: typer.Context,
    todo_id: TodoArgument,
    subject: Annotated[str | None, typer.Option("--subject", help="What is to be done.")] = None,
    description: Annotated[str | None, typer.Option("--description", help="What belongs to it.")] = None,
    status: Annotated[Status | None, typer.Option("--status", help="How far it is.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Who does it.")] = None,
    session: SessionOption = None,
    cwd: FolderOption = None,
    format: FormatOption = "text",
) -> None:
    """Change an item; what is not given stays as it is."""
    given = {"subject": subject, "description": description, "status": status, "owner": owner}
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise typer.BadParameter("say what changes: --subject, --description, --status or --owner")

    _change(context, session, cwd, "todo/update", {"todo_id": todo_id, **changes}, format)


@group.command()
def delete(
    context: typer.Context,
    todo_id: TodoArgument,
    session: SessionOption = None,
    cwd: FolderOption = None,
    format: FormatOption = "text",
) -> None:
    """Take an item off the list."""
    _change(context, session, cwd, "todo/delete", {"todo_id": todo_id}, format)


def _change(
    context: typer.Context, session: str | None, cwd: str | None, method: str, wanted: dict[str, Any], format: Format
) -> None:
    """Change the list of the session that is meant, and show it."""

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        session_id = await choose_session(ostler, session, cwd)
        answer: dict[str, Any] = await ostler.request(method, {"session_id": session_id, **wanted})
        return answer

    _show(run_with_daemon(context, ask), format)


def _show(found: dict[str, Any], format: Format) -> None:
    if format == "json":
        say_json(found)
        return
    for todo in found["todos"]:
        say(format_todo(todo, found["todos"]))
    if not found["todos"]:
        note("The work list is empty.")
