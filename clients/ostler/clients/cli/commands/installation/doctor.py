"""`doctor`: everything that the daemon needs, and how to mend what is missing."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ostler.clients.cli.context import get_cli_context
from ostler.clients.cli.output import Colour, Format, colourize, sanitize, say, say_json

if TYPE_CHECKING:
    from ostler.clients.cli.checks.base import Finding

_COLOURS: Final[dict[str, Colour]] = {"ok": "green", "warn": "yellow", "fail": "red"}


def add_to(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    context: typer.Context,
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """Check everything that the daemon needs; exit 1 if something must be mended."""
    from ostler.clients.cli.checks.base import CHECKS
    from ostler.clients.cli.checks.credentials import check_credentials
    from ostler.clients.cli.checks.database import check_database
    from ostler.clients.cli.checks.kernel import check_kernel
    from ostler.clients.cli.checks.model import check_model
    from ostler.clients.cli.checks.sandbox import check_sandbox
    from ostler.clients.cli.checks.settings import check_settings
    from ostler.clients.cli.checks.shell import check_shell

    places = get_cli_context(context).places
    checks = (
        *CHECKS,
        check_database,
        check_settings,
        check_credentials,
        check_model,
        check_shell,
        check_sandbox,
        check_kernel,
    )
    findings = [finding for check in checks for finding in check(places)]
    failed = any(finding.state == "fail" for finding in findings)
    if format == "json":
        say_json({"ok": not failed, "checks": [finding.as_json() for finding in findings]})
    else:
        for finding in findings:
            _say_finding(finding)
    if failed:
        sys.stdout.flush()
        raise typer.Exit(1)


def _say_finding(finding: "Finding") -> None:
    say(f"{colourize(f'{finding.state:<4}', _COLOURS[finding.state])}  {finding.what:<12}  {sanitize(finding.found)}")
    if finding.mend:
        say(f"{'':<4}  {'':<12}  {colourize('→ ' + sanitize(finding.mend), 'bold')}")
