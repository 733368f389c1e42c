"""`logs`: what the daemon wrote."""

import sys
from typing import Annotated

import typer

from ostler.clients.cli.context import setting_of
from ostler.clients.cli.output import is_terminal, printable, say
from ostler.clients.sdk.errors import ClientError
from ostler.clients.sdk.tail import follow as follow_file
from ostler.clients.sdk.tail import last_lines


def add_to(app: typer.Typer) -> None:
    app.command()(logs)


def logs(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with what is written from now on.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", metavar="N", min=0, help="How many to begin with.")] = 50,
) -> None:
    """Show the daemon's log."""
    path = setting_of(context).places.log_file
    if follow:
        for text in follow_file(path, lines):
            sys.stdout.write(_shown(text))
            sys.stdout.flush()
    if not path.exists():
        raise ClientError(f"There is no log yet at {path}. A daemon that `ostler start` starts writes one.")
    for line in last_lines(path, lines):
        say(_shown(line))


def _shown(text: str) -> str:
    return printable(text) if is_terminal() else text
