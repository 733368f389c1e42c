"""`completion`: a script that makes a shell complete this command."""

import os
from typing import Annotated, Final, Literal

import typer

from ostler.clients.cli.output import say

Shell = Literal["bash", "zsh", "fish"]

_VARIABLE: Final = "_OSTLER_COMPLETE"
"""Set by the script of a shell that wants to know how a line could go on."""


def add_to(app: typer.Typer) -> None:
    app.command()(completion)


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print the completion script of a shell."""
    from typer._completion_shared import get_completion_script

    say(get_completion_script(prog_name="ostler", complete_var=_VARIABLE, shell=shell))


def prepare(app: typer.Typer) -> None:
    """Where a shell asks, ids are offered too; no other command has a use for them."""
    if _VARIABLE not in os.environ:
        return
    from ostler.clients.cli.commands.offered import offer_ids

    offer_ids(app)
