"""`diff`: what a session did to files, as patches."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostler.clients.cli.context import with_daemon
from ostler.clients.cli.output import Colour, Format, coloured, is_terminal, note, printable, say, say_json
from ostler.clients.cli.session_choice import FolderOption, chosen

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
        wanted = await chosen(ostler, session_id, cwd)
        found: dict[str, Any] = await ostler.request("session/diff", {"session_id": wanted})
        return found

    found = with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    for file in found["files"]:
        _show(file)
    _sum_up(found)


def _show(file: dict[str, Any]) -> None:
    """Patches to stdout, where `patch -d / -p1` can take them from; words to stderr."""
    if file["patch"] is not None:
        # A pipe gets the bytes that a patch needs; a terminal must not be steered by them.
        lines = file["patch"].removesuffix("\n").split("\n")
        say("\n".join(_in_colour(printable(line)) if is_terminal() else line for line in lines))
    if file["note"] is not None:
        note(f"{file['action']} {printable(file['path'])}: {file['note']}")


def _in_colour(line: str) -> str:
    colour: Colour | None = None
    if line.startswith(("--- ", "+++ ")):
        colour = "bold"
    elif line.startswith("@@ "):
        colour = "cyan"
    elif line.startswith(("+", "-")):
        colour = "green" if line[0] == "+" else "red"
    return coloured(line, colour) if colour else line


def _sum_up(found: dict[str, Any]) -> None:
    files = found["files"]
    if not files:
        note("No changed files. What commands did is not covered.")
        return
    added, removed = (sum(file[name] or 0 for file in files) for name in ("additions", "deletions"))
    more = f", and {found['left_out']} more that are not shown" if found["left_out"] else ""
    note(f"{len(files)} {'file' if len(files) == 1 else 'files'} changed: +{added} -{removed}{more}.")
