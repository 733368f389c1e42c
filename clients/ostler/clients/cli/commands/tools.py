"""`tools`: what agents can do."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.output import Format, colourize, fit, is_terminal, say, say_json
from ostler.clients.cli.session_choice import fetch_all_pages

if TYPE_CHECKING:
    from ostler.clients import Ostler


def add_to(app: typer.Typer) -> None:
    app.command()(tools)


def tools(
    context: typer.Context,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="As this session has them; else all there are.")
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """List the tools."""

    async def ask(ostler: "Ostler") -> Any:
        return await fetch_all_pages(ostler, "tool/list", {"session_id": session} if session else {}, "tools")

    found = run_with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    width = max((len(tool["name"]) for tool in found["tools"]), default=0)
    for tool in found["tools"]:
        say(_format_line(tool, width))


def _format_line(tool: dict[str, Any], width: int) -> str:
    kind = "reads" if tool["read_only"] else "writes"
    state = "on" if tool["enabled"] else "off"
    words = tool["summary"] if tool["enabled"] else f"{tool['summary']} ({tool['disabled_reason']})"
    if not is_terminal():
        return "\t".join((tool["name"], kind, state, tool["source"], " ".join(words.split())))
    name = colourize(tool["name"].ljust(width), "cyan" if tool["enabled"] else "dim")
    return f"{name}  {colourize(f'{kind:<6}', 'dim')}  {fit(words, 100)}"
