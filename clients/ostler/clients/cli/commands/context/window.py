"""`context` and `usage`: what fills the window of a session's model, and what the session has used."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.output import Format, say, say_json
from ostler.clients.cli.render.context import format_context, format_usage
from ostler.clients.cli.session_choice import FolderOption, SessionOption, choose_session

if TYPE_CHECKING:
    from ostler.clients import Ostler

FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]


def add_to(app: typer.Typer) -> None:
    app.command("context")(context)
    app.command("usage")(usage)
    app.command("compact")(compact)


def context(
    context: typer.Context, session: SessionOption = None, cwd: FolderOption = None, format: FormatOption = "text"
) -> None:
    """Show what fills the window of a session's model, by part."""
    _show(context, "session/context", session, cwd, format, format_context)


def usage(
    context: typer.Context, session: SessionOption = None, cwd: FolderOption = None, format: FormatOption = "text"
) -> None:
    """Show the tokens and money of a session by model, agent and tool, today and in all."""
    _show(context, "session/usage", session, cwd, format, format_usage)


def compact(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="[WORDS]", help="What the summary must keep.")] = None,
    session: SessionOption = None,
    cwd: FolderOption = None,
    format: FormatOption = "text",
) -> None:
    """Summarise a session's conversation for its model; people keep all of it."""

    async def ask(ostler: "Ostler") -> tuple[dict[str, Any], dict[str, Any]]:
        session_id = await choose_session(ostler, session, cwd)
        before: dict[str, Any] = await ostler.request("session/context", {"session_id": session_id})
        instructions = " ".join(words or []) or None
        await ostler.request("session/compact", {"session_id": session_id, "instructions": instructions})
        return before, await ostler.request("session/context", {"session_id": session_id})

    before, after = run_with_daemon(context, ask)
    if format == "json":
        say_json({"before": before, "after": after})
        return
    say(f"Compacted: {before['used']:,} tokens before, {after['used']:,} now.")


def _show(
    context: typer.Context,
    method: str,
    session: str | None,
    cwd: str | None,
    format: Format,
    render: Callable[[dict[str, Any]], list[str]],
) -> None:
    async def ask(ostler: "Ostler") -> dict[str, Any]:
        found: dict[str, Any] = await ostler.request(method, {"session_id": await choose_session(ostler, session, cwd)})
        return found

    found = run_with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    for line in render(found):
        say(line)
