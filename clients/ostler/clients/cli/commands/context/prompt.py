"""`prompt`: what a session sends before its conversation, by part."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.output import Format, complain, sanitize, say, say_json
from ostler.clients.cli.session_choice import FolderOption, SessionOption, choose_session

if TYPE_CHECKING:
    from ostler.clients import Ostler


def add_to(app: typer.Typer) -> None:
    app.command()(prompt)


def prompt(
    context: typer.Context,
    part: Annotated[str | None, typer.Argument(metavar="[PART]", help="Only this part, as `rules`.")] = None,
    session: SessionOption = None,
    cwd: FolderOption = None,
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """Print the system prompt and the tools of a session, by part."""

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        session_id = await choose_session(ostler, session, cwd)
        answer: dict[str, Any] = await ostler.request("session/prompt", {"session_id": session_id})
        return answer

    found = run_with_daemon(context, ask)
    parts = [each for each in found["parts"] if part is None or each["name"] == part]
    if not parts:
        complain(f"There is no part {part!r}. The parts are: {', '.join(each['name'] for each in found['parts'])}.")
        raise typer.Exit(2)
    if format == "json":
        say_json({**found, "parts": parts})
        return
    for each in parts:
        say(f"== {each['name']} ({each['tokens']:,} tokens)")
        for line in each["text"].splitlines():
            say(sanitize(line))
        say("")
    when = "as it was sent" if found["sent"] else "as it would be sent now"
    say(f"{found['tokens']:,} tokens in all, {when}.")
