"""`schema`: the protocol in the words of other tools."""

from typing import Annotated, Literal

import typer

from ostler.clients.cli.output import say, say_json

Kind = Literal["openrpc", "jsonschema", "typescript"]


def add_to(app: typer.Typer) -> None:
    app.command()(schema)


def schema(kind: Annotated[Kind, typer.Argument(help="In which form.")]) -> None:
    """Print the protocol as OpenRPC, JSON Schema or TypeScript."""
    match kind:
        case "openrpc":
            from ostler.protocol.generate.openrpc import build_openrpc

            say_json(build_openrpc())
        case "jsonschema":
            from ostler.protocol.generate.schema import build_json_schema

            say_json(build_json_schema())
        case "typescript":
            from ostler.protocol.generate.typescript import render_typescript

            say(render_typescript().rstrip("\n"))
