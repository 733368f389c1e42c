"""`config`: the daemon's own settings, read and changed through the daemon."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.help import CommandGroup
from ostler.clients.cli.output import Format, note, say, say_json

if TYPE_CHECKING:
    from ostler.clients import Ostler

group = CommandGroup(help="Show and change the daemon's settings.")

Key = Annotated[str, typer.Argument(metavar="KEY", help="A dotted name like listen.port.")]


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="config")


@group.callback(invoke_without_command=True)
def _without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        say(context.get_help())


@group.command()
def get(
    context: typer.Context,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="A setting or section; none is all.")] = None,
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """Show a setting, a section, or everything."""

    async def ask(ostler: "Ostler") -> Any:
        return await ostler.request("config/get", {"key": key} if key else {})

    answer = run_with_daemon(context, ask)
    if format == "json":
        say_json(answer)
    elif isinstance(answer["value"], dict):
        for name, value in _flatten_section(answer["value"], key):
            say(f"{name} = {json.dumps(value, ensure_ascii=False)}")
    else:
        say(_format_value(answer["value"]))


@group.command("set")
def set_(
    context: typer.Context,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON, or else taken as text.")],
) -> None:
    """Change a setting in config.toml."""
    _change(context, key, _parse_value(value))


@group.command()
def unset(context: typer.Context, key: Key) -> None:
    """Take a setting out of config.toml, back to its default."""
    _change(context, key, None)


def _change(context: typer.Context, key: str, value: Any) -> None:
    async def change(ostler: "Ostler") -> Any:
        return await ostler.request("config/set", {"key": key, "value": value})

    answer = run_with_daemon(context, change)
    say(f"{answer['key']} = {json.dumps(answer['value'], ensure_ascii=False)}")
    if value is not None and answer["value"] != value:
        note("That is what a flag or the environment says now; config.toml holds the new value.")
    if answer["applies"] == "restart":
        note("It holds from the next start on: `ostler stop`, then `ostler start`.")


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _flatten_section(section: dict[str, Any], prefix: str | None) -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(value, dict):
            yield from _flatten_section(value, path)
        else:
            yield path, value
