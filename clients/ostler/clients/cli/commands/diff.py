"""`diff`: what a session did to files, as patches."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.output import Colour, Format, colourize, is_terminal, note, sanitize, say, say_json
from ostler.clients.cli.session_choice import FolderOption, choose_session

if TYPE_CHECKING:
    from ostler.clients import Ostler


def add_to(app: typer.Typer) -> None:
    app.command()(diff)


def diff(
    context: typer.Context,
    session_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A session's id; else the newest of the folder.")
    ] = None,
    cwd: FolderOption = None,
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """Show what a session and its agents changed in files, from before the first change to now."""
    if session_id and cwd:
        raise typer.BadParameter("give ID or --cwd, not both")

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        wanted = await choose_session(ostler, session_id, cwd)
        found: dict[str, Any] = await ostler.request("session/diff", {"session_id": wanted})
        return found

    found = run_with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    for file in found["files"]:
        _show_file(file)
    _sum_up(found)


def _show_file(file: dict[str, Any]) -> None:
    """Patches to stdout, where `patch -d / -p1` can take them from; words to stderr."""
    if file["patch"] is not None:
        # A pipe gets the bytes that a patch needs; a terminal must not be steered by them.
        lines = file["patch"].removesuffix("\n").split("\n")
        say("\n".join(_colourize_line(sanitize(line)) if is_terminal() else line for line in lines))
    if file["note"] is not None:
        note(f"{file['action']} {sanitize(file['path'])}: {file['note']}")


def _colourize_line(line: str) -> str:
    colour: Colour | None = None
    if line.startswith(("--- ", "+++ ")):
        colour = "bold"
    elif line.startswith("@@ "):
        colour = "cyan"
    elif line.startswith(("+", "-")):
        colour = "green" if line[0] == "+" else "red"
    return colourize(line, colour) if colour else line


def _sum_up(found: dict[str, Any]) -> None:
    files = found["files"]
    if not files:
        note("No changed files. What commands did is not covered.")
        return
    added, removed = (sum(file[name] or 0 for file in files) for name in ("additions", "deletions"))
    more = f", and {found['left_out']} more that are not shown" if found["left_out"] else ""
    note(f"{len(files)} {'file' if len(files) == 1 else 'files'} changed: +{added} -{removed}{more}.")
