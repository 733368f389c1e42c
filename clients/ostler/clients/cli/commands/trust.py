"""`trust`: which folders may bring settings, hooks and servers that act, and a preview of what a folder brings."""

import os
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.help import CommandGroup
from ostler.clients.cli.output import Format, colourize, format_table, note, sanitize, say, say_json
from ostler.clients.cli.session_choice import fetch_all_pages, resolve_folder
from ostler.clients.sdk.errors import ClientError

if TYPE_CHECKING:
    from ostler.clients import Ostler

FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
FolderArgument = Annotated[str | None, typer.Argument(metavar="[FOLDER]", help="The folder; else this one.")]
group = CommandGroup(
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

    async def ask(ostler: "Ostler") -> "TrustPreview":
        return await preview_trust(ostler, _resolve_real_path(folder))

    found = run_with_daemon(context, ask)
    if format == "json":
        say_json(found.as_json())
        return
    say(f"{sanitize(found.folder)}: {found.summary}")
    _say_contents(found.what)
    if found.hides:
        note("It brings more than can be shown here; the first turn there asks with all of it.")
    if not found.trusted:
        note("Trust it with `ostler trust grant`, or answer the ask of its first turn.")


@group.command("list")
def list_(context: typer.Context, format: FormatOption = "text") -> None:
    """List the folders that were trusted."""

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        return await fetch_all_pages(ostler, "trust/list", {}, "trusts")

    found = run_with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    for line in format_table([_format_cells(one) for one in found["trusts"]], {}):
        say(line)
    if not found["trusts"]:
        note("No folder was trusted.")


def _format_cells(trust: dict[str, Any]) -> list[str]:
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
    real = _resolve_real_path(folder)

    async def change(ostler: "Ostler") -> dict[str, Any]:
        shown = None if yes else await _confirm_trust(ostler, real)
        answer: dict[str, Any] = await ostler.request("trust/grant", {"folder": real})
        unseen = [line for line in answer["what"] if shown is not None and line not in shown]
        if unseen:
            await ostler.request("trust/revoke", {"folder": real})
            for line in unseen:
                note(f"  {sanitize(line)}")
            raise ClientError("It brings more than was shown, so it is not trusted. Look at it, then give --yes.")
        return answer

    made = run_with_daemon(context, change)
    if format == "json":
        say_json(made)
        return
    say(f"Trusted {sanitize(made['folder'])}")
    _say_contents(made["what"])


async def _confirm_trust(ostler: "Ostler", folder: str) -> list[str]:
    """What the person has seen and said yes to."""
    found = await preview_trust(ostler, folder)
    note(f"{sanitize(found.folder)}: {found.summary}")
    for line in found.what:
        note(f"  {sanitize(line)}")
    typer.confirm("It would act on this machine with your powers. Trust it?", abort=True, err=True)
    return found.what


@group.command()
def revoke(context: typer.Context, folder: FolderArgument = None, format: FormatOption = "text") -> None:
    """Trust a folder no longer: what it brings does nothing from now on."""
    real = _resolve_real_path(folder)

    async def change(ostler: "Ostler") -> dict[str, Any]:
        trusts = (await fetch_all_pages(ostler, "trust/list", {}, "trusts"))["trusts"]
        if all(trust["folder"] != real for trust in trusts):
            raise ClientError(f"{real} is not trusted. `ostler trust list` lists what is.")
        answer: dict[str, Any] = await ostler.request("trust/revoke", {"folder": real})
        return answer

    gone = run_with_daemon(context, change)
    if format == "json":
        say_json(gone)
    else:
        say(f"No longer trusted: {sanitize(gone['folder'])}")


def _resolve_real_path(folder: str | None) -> str:
    """As the daemon names it."""
    return os.path.realpath(resolve_folder(folder))


def _say_contents(lines: list[str]) -> None:
    for line in lines:
        say(f"  {colourize('-', 'dim')} {sanitize(line)}")


@dataclass(frozen=True, slots=True)
class TrustPreview:
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
    def summary(self) -> str:
        if not self.what and self.trusted:
            return "it brings nothing that would act."
        if self.granted_at is None:
            return "not trusted. It brings:"
        return f"trusted at {self.granted_at}." if self.trusted else "it has changed since it was trusted. It brings:"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def preview_trust(ostler: "Ostler", folder: str) -> TrustPreview:
    """What a folder brings: as it was granted, or found out with a temporary session in which no turn runs."""
    trusts = (await fetch_all_pages(ostler, "trust/list", {}, "trusts"))["trusts"]
    known = next((trust for trust in trusts if trust["folder"] == folder), None)
    if known is not None:
        return TrustPreview(folder, known["current"], known["what"], known["granted_at"])
    session = await ostler.request("session/create", {"cwd": folder, "on_ask": "deny", "title": "what it brings"})
    try:
        if session["trusted"]:
            return TrustPreview(folder, True, [])
        lines = await _list_contents(ostler, {"session_id": session["id"]})
        return TrustPreview(folder, False, lines, hides=not lines)
    finally:
        await ostler.request("session/delete", {"session_id": session["id"]})


async def _list_contents(ostler: "Ostler", wanted: dict[str, Any]) -> list[str]:
    """What waits for trust, in the words that the daemon uses when it is granted."""
    rules = (await fetch_all_pages(ostler, "rule/list", wanted, "rules"))["rules"]
    hooks = (await fetch_all_pages(ostler, "hook/list", wanted, "hooks"))["hooks"]
    allowed = [f"allows {rule['rule']}" for rule in rules if _awaits_trust(rule, "counts") and not _is_whole_tool(rule)]
    return allowed + [_format_hook(hook) for hook in hooks if _awaits_trust(hook, "acts")]


def _awaits_trust(one: dict[str, Any], acting: str) -> bool:
    return one["source"] in {"project", "local"} and not one[acting]


def _is_whole_tool(rule: dict[str, Any]) -> bool:
    """A whole tool, which a committed file never allows, trusted or not."""
    return rule["source"] == "project" and "(" not in rule["rule"]


def _format_hook(hook: dict[str, Any]) -> str:
    matcher = f" ({hook['matcher']})" if hook["matcher"] else ""
    return f"hook {hook['event']}{matcher}: {hook['shown']}"
