"""`trust`: which folders may bring settings, hooks and servers that act."""

import os
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostler.clients.cli.context import with_daemon
from ostler.clients.cli.help import Commands
from ostler.clients.cli.output import Format, coloured, note, printable, say, say_json, table
from ostler.clients.cli.session_choice import absolute, every
from ostler.clients.sdk.errors import ClientError

if TYPE_CHECKING:
    from ostler.clients import Ostler

FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
FolderArgument = Annotated[str | None, typer.Argument(metavar="[FOLDER]", help="The folder; else this one.")]
group = Commands(
    help="Show and change which folders may bring allow rules, hooks and servers that act.\n\n"
    "Without a command: what this folder brings, and whether it is trusted. Trust is bound to what is brought: when "
    "that changes, it is asked for again. What a folder denies or asks about counts always.",
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="trust")


@group.callback(invoke_without_command=True)
def _without_command(context: typer.Context, format: FormatOption = "text") -> None:
    if context.invoked_subcommand is None:
        show(context, format=format)


@group.command()
def show(context: typer.Context, folder: FolderArgument = None, format: FormatOption = "text") -> None:
    """Show what a folder brings, and whether it is trusted."""

    async def ask(ostler: "Ostler") -> "Brought":
        from ostler.clients.cli.commands.trust import brought_by

        return await brought_by(ostler, _real(folder))

    found = with_daemon(context, ask)
    if format == "json":
        say_json(found.as_json())
        return
    say(f"{printable(found.folder)}: {found.in_words}")
    _say_what(found.what)
    if found.hides:
        note("It brings more than can be shown here; the first turn there asks with all of it.")
    if not found.trusted:
        note("Trust it with `ostler trust grant`, or answer the ask of its first turn.")


@group.command("list")
def list_(context: typer.Context, format: FormatOption = "text") -> None:
    """List the folders that were trusted."""

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        return await every(ostler, "trust/list", {}, "trusts")

    found = with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    for line in table([_cells(one) for one in found["trusts"]], {}):
        say(line)
    if not found["trusts"]:
        note("No folder was trusted.")


def _cells(trust: dict[str, Any]) -> list[str]:
    state = "as it was trusted" if trust["current"] else "has changed: asked again"
    return [trust["folder"], trust["granted_at"], trust["granted_by"] or "", state]


@group.command()
def grant(
    context: typer.Context,
    folder: FolderArgument = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    format: FormatOption = "text",
) -> None:
    """Trust what a folder brings now; it is shown, and asked about first."""
    if not yes and not sys.stdin.isatty():
        raise ClientError("Nobody is there to be asked. Give --yes to trust without a question.")
    real = _real(folder)

    async def change(ostler: "Ostler") -> dict[str, Any]:
        shown = None if yes else await _confirmed(ostler, real)
        answer: dict[str, Any] = await ostler.request("trust/grant", {"folder": real})
        unseen = [line for line in answer["what"] if shown is not None and line not in shown]
        if unseen:
            await ostler.request("trust/revoke", {"folder": real})
            for line in unseen:
                note(f"  {printable(line)}")
            raise ClientError("It brings more than was shown, so it is not trusted. Look at it, then give --yes.")
        return answer

    made = with_daemon(context, change)
    if format == "json":
        say_json(made)
        return
    say(f"Trusted {printable(made['folder'])}")
    _say_what(made["what"])


async def _confirmed(ostler: "Ostler", folder: str) -> list[str]:
    """What the person has seen and said yes to."""
    from ostler.clients.cli.commands.trust import brought_by

    found = await brought_by(ostler, folder)
    note(f"{printable(found.folder)}: {found.in_words}")
    for line in found.what:
        note(f"  {printable(line)}")
    typer.confirm("It would act on this machine with your powers. Trust it?", abort=True, err=True)
    return found.what


@group.command()
def revoke(context: typer.Context, folder: FolderArgument = None, format: FormatOption = "text") -> None:
    """Trust a folder no longer: what it brings does nothing from now on."""
    real = _real(folder)

    async def change(ostler: "Ostler") -> dict[str, Any]:
        trusts = (await every(ostler, "trust/list", {}, "trusts"))["trusts"]
        if all(trust["folder"] != real for trust in trusts):
            raise ClientError(f"{real} is not trusted. `ostler trust list` lists what is.")
        answer: dict[str, Any] = await ostler.request("trust/revoke", {"folder": real})
        return answer

    gone = with_daemon(context, change)
    if format == "json":
        say_json(gone)
    else:
        say(f"No longer trusted: {printable(gone['folder'])}")


def _real(folder: str | None) -> str:
    """As the daemon names it."""
    return os.path.realpath(absolute(folder))


def _say_what(lines: list[str]) -> None:
    for line in lines:
        say(f"  {coloured('-', 'dim')} {printable(line)}")


@dataclass(frozen=True, slots=True)
class Brought:
    """A folder, and what is to be trusted in it."""

    folder: str
    trusted: bool
    """Nothing of it waits for trust: there is nothing, or just that was trusted."""
    what: list[str]
    """What would act, a line each."""
    granted_at: str | None = None
    """When it was trusted, even if it has changed since."""
    hides: bool = False
    """There is something to trust, and nothing of it can be told here."""

    @property
    def in_words(self) -> str:
        if not self.what and self.trusted:
            return "it brings nothing that would act."
        if self.granted_at is None:
            return "not trusted. It brings:"
        return f"trusted at {self.granted_at}." if self.trusted else "it has changed since it was trusted. It brings:"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def brought_by(ostler: "Ostler", folder: str) -> Brought:
    """What was trusted says it itself; for the rest a session looks, in which nothing is ever said."""
    trusts = (await every(ostler, "trust/list", {}, "trusts"))["trusts"]
    known = next((trust for trust in trusts if trust["folder"] == folder), None)
    if known is not None:
        return Brought(folder, known["current"], known["what"], known["granted_at"])
    session = await ostler.request("session/create", {"cwd": folder, "on_ask": "deny", "title": "what it brings"})
    try:
        if session["trusted"]:
            return Brought(folder, True, [])
        lines = await _lines(ostler, {"session_id": session["id"]})
        return Brought(folder, False, lines, hides=not lines)
    finally:
        await ostler.request("session/delete", {"session_id": session["id"]})


async def _lines(ostler: "Ostler", wanted: dict[str, Any]) -> list[str]:
    """In the words in which the daemon tells it when it is trusted."""
    rules = (await every(ostler, "rule/list", wanted, "rules"))["rules"]
    hooks = (await every(ostler, "hook/list", wanted, "hooks"))["hooks"]
    allowed = [f"allows {rule['rule']}" for rule in rules if _waits(rule, "counts") and not _is_whole(rule)]
    return allowed + [_hook_line(hook) for hook in hooks if _waits(hook, "acts")]


def _waits(one: dict[str, Any], acting: str) -> bool:
    return one["source"] in {"project", "local"} and not one[acting]


def _is_whole(rule: dict[str, Any]) -> bool:
    """A whole tool, which a committed file never allows, trusted or not."""
    return rule["source"] == "project" and "(" not in rule["rule"]


def _hook_line(hook: dict[str, Any]) -> str:
    matcher = f" ({hook['matcher']})" if hook["matcher"] else ""
    return f"hook {hook['event']}{matcher}: {hook['shown']}"
