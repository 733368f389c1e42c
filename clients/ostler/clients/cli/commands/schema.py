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
            from ostler.protocol.generate.openrpc import openrpc_document

            say_json(openrpc_document())
        case "jsonschema":
            from ostler.protocol.generate.schema import json_schema_document

            say_json(json_schema_document())
        case "typescript":
            from ostler.protocol.generate.typescript import typescript_types

            say(typescript_types().rstrip("\n"))
