"""`completion`: a script that makes a shell complete this command."""

from typing import Annotated, Literal

import typer

from ostler.clients.cli.output import say

Shell = Literal["bash", "zsh", "fish"]


def add_to(app: typer.Typer) -> None:
    app.command()(completion)


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print the completion script of a shell."""
    from typer._completion_shared import get_completion_script

    say(get_completion_script(prog_name="ostler", complete_var="_OSTLER_COMPLETE", shell=shell))
