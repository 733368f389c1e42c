"""`models`: which models there are, what they hold and what they cost."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.output import Format, format_table, note, say, say_json
from ostler.clients.cli.session_choice import fetch_all_pages

if TYPE_CHECKING:
    from ostler.clients import Ostler


def add_to(app: typer.Typer) -> None:
    app.command()(models)


def models(
    context: typer.Context,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Mark the model of this session, not of new ones.")
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """List the models: what the provider offers, or else what the daemon knows."""

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        return await fetch_all_pages(ostler, "model/list", {"session_id": session} if session else {}, "models")

    found = run_with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    for line in format_table([_format_cells(model) for model in found["models"]], {}):
        say(line)
    note(_describe_origin(found))


def _format_cells(model: dict[str, Any]) -> list[str]:
    price = model["price"]
    return [
        model["id"],
        "default" if model["default"] else "",
        model["display_name"],
        f"{_format_tokens(model['context_window'])} in, {_format_tokens(model['max_output'])} out",
        f"${price['input_usd']} in, ${price['output_usd']} out" if price else "price unknown",
    ]


def _format_tokens(count: int | None) -> str:
    if count is None:
        return "?"
    return f"{count / 1_000_000:g}M" if count >= 1_000_000 else f"{count / 1000:g}k"


def _describe_origin(found: dict[str, Any]) -> str:
    listed = "As the provider lists them" if found["source"] == "provider" else "From the daemon's own table"
    why = f" {found['note']}" if found["note"] else ""
    return f"{listed}; tokens, and dollars for a million of them.{why}"
