"""`skills`: the skills of a session, which `/NAME` takes up."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.output import Format, fit, note, sanitize, say, say_json
from ostler.clients.cli.session_choice import FolderOption, SessionOption, choose_session, fetch_all_pages

if TYPE_CHECKING:
    from ostler.clients import Ostler


def add_to(app: typer.Typer) -> None:
    app.command()(skills)


def skills(
    context: typer.Context,
    session: SessionOption = None,
    cwd: FolderOption = None,
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """List the skills of a session: input that begins with /NAME takes one up."""

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        session_id = await choose_session(ostler, session, cwd)
        answer: dict[str, Any] = await fetch_all_pages(ostler, "skill/list", {"session_id": session_id}, "skills")
        return answer

    found = run_with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    for skill in found["skills"]:
        say(_format_line(skill))
    for error in found["errors"]:
        note(f"{sanitize(error['path'])}:{error['line']}: {sanitize(error['message'])}")
    if not found["skills"]:
        note("There are no skills in effect here. Put one into .ostler/skills/NAME/SKILL.md.")


def _format_line(skill: dict[str, Any]) -> str:
    who = "both" if skill["by_model"] and skill["by_person"] else "model" if skill["by_model"] else "person"
    usage = sanitize(f"/{skill['name']} {skill['argument_hint']}".rstrip())
    return "\t".join((usage, skill["source"], who, fit(sanitize(skill["description"]), 100)))
