"""`mcp`: the MCP servers of a session, and their entries."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.help import CommandGroup
from ostler.clients.cli.output import Format, fit, format_table, note, sanitize, say, say_json
from ostler.clients.cli.session_choice import (
    FolderOption,
    SessionOption,
    choose_session,
    fetch_all_pages,
    resolve_folder,
)
from ostler.clients.sdk.errors import ClientError

if TYPE_CHECKING:
    from ostler.clients import Ostler

FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
ScopeOption = Annotated[
    Literal["user", "project", "local"],
    typer.Option("--scope", help="`user`: everywhere. `project`: .mcp.json here. `local`: here, and not in git."),
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The server.")]
group = CommandGroup(
    help="The MCP servers of a session, how each is, and their entries.\n\nWithout a command: the list."
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="mcp")


@group.callback(invoke_without_command=True)
def _without_command(context: typer.Context, format: FormatOption = "text") -> None:
    if context.invoked_subcommand is None:
        list_(context, format=format)


@group.command("list")
def list_(
    context: typer.Context, session: SessionOption = None, cwd: FolderOption = None, format: FormatOption = "text"
) -> None:
    """List the servers, and how each is; this starts none of them."""
    found = run_with_daemon(context, lambda ostler: _fetch_servers(ostler, session, cwd))
    if format == "json":
        say_json(found)
        return
    for line in format_table([_format_cells(server) for server in found["servers"]], {}):
        say(line)
    for server in found["servers"]:
        for problem in (server["error"], *server["problems"]):
            if problem:
                note(f"{sanitize(server['name'])}: {sanitize(problem)}")
    if not found["servers"]:
        note("No servers. `ostler mcp add NAME -- COMMAND` or `ostler mcp add NAME URL` adds one.")


@group.command()
def add(
    context: typer.Context,
    name: NameArgument,
    target: Annotated[list[str], typer.Argument(metavar="URL | -- COMMAND...", help="What reaches or starts it.")],
    scope: ScopeOption = "local",
    env: Annotated[list[str] | None, typer.Option("--env", "-e", metavar="KEY=VALUE", help="For a command.")] = None,
    header: Annotated[list[str] | None, typer.Option("--header", "-H", help="`Name: value`, for a URL.")] = None,
    sse: Annotated[bool, typer.Option("--sse", help="The URL speaks the older transport.")] = False,
    cwd: FolderOption = None,
) -> None:
    """Add a server: sessions have it with their next turn."""
    entry = _build_entry(target, env or [], header or [], sse=sse)
    params = {"name": name, "scope": scope, "entry": entry, "cwd": resolve_folder(cwd)}

    async def change(ostler: "Ostler") -> dict[str, Any]:
        answer: dict[str, Any] = await ostler.request("mcp/add", params)
        return answer

    made = run_with_daemon(context, change)
    say(f"Added {sanitize(made['name'])} to {sanitize(made['file'])}")
    if scope != "user":
        note("It starts when the folder is trusted with it: the next turn asks, or `ostler trust grant`.")


@group.command()
def remove(context: typer.Context, name: NameArgument, scope: ScopeOption = "local", cwd: FolderOption = None) -> None:
    """Take a server's entry out of its file."""
    params = {"name": name, "scope": scope, "cwd": resolve_folder(cwd)}

    async def change(ostler: "Ostler") -> dict[str, Any]:
        answer: dict[str, Any] = await ostler.request("mcp/remove", params)
        return answer

    gone = run_with_daemon(context, change)
    say(f"Removed {sanitize(gone['name'])} from {sanitize(gone['file'])}")


@group.command()
def reconnect(
    context: typer.Context, name: NameArgument, session: SessionOption = None, cwd: FolderOption = None
) -> None:
    """Close the connection to a server of a session, and start it anew."""

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        session_id = await choose_session(ostler, session, cwd)
        answer: dict[str, Any] = await ostler.request("mcp/reconnect", {"session_id": session_id, "name": name})
        return answer

    server = run_with_daemon(context, ask)
    if server["status"] != "connected":
        raise ClientError(server["error"] or f"{name} is {server['status']}.")
    say(f"{sanitize(name)}: connected, {len(server['tools'])} tools")


@group.command()
def logs(context: typer.Context, name: NameArgument, session: SessionOption = None, cwd: FolderOption = None) -> None:
    """Print the end of what a server of a session has printed beside its messages."""
    found = run_with_daemon(context, lambda ostler: _fetch_servers(ostler, session, cwd))
    server = next((each for each in found["servers"] if each["name"] == name), None)
    if server is None:
        raise ClientError(f"There is no server {name!r}. `ostler mcp list` lists them.")
    if server["log"]:
        say(sanitize(server["log"]))
    else:
        note("It has printed nothing, or was not started yet.")


async def _fetch_servers(ostler: "Ostler", session: str | None, cwd: str | None) -> dict[str, Any]:
    """Those of the session; where there is none in this folder, those that every session has."""
    try:
        wanted: dict[str, Any] = {"session_id": await choose_session(ostler, session, cwd)}
    except ClientError:
        if session is not None:
            raise
        wanted = {}
    return await fetch_all_pages(ostler, "mcp/list", wanted, "servers")


def _build_entry(target: list[str], env: list[str], headers: list[str], *, sse: bool) -> dict[str, Any]:
    if len(target) == 1 and target[0].startswith(("http://", "https://")):
        if env:
            raise ClientError("--env is for a command: a URL has --header.")
        pairs = _split(headers, ":", "--header", "Name: value")
        return {"type": "sse" if sse else "http", "url": target[0], **({"headers": pairs} if pairs else {})}
    if headers or sse:
        raise ClientError("--header and --sse are for a URL that begins with https:// or http://.")
    pairs = _split(env, "=", "--env", "KEY=VALUE")
    arguments = {"args": target[1:]} if target[1:] else {}
    return {"command": target[0], **arguments, **({"env": pairs} if pairs else {})}


def _split(given: list[str], by: str, option: str, form: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in given:
        name, found, value = each.partition(by)
        if not found or not name.strip():
            raise ClientError(f"{option} wants {form}, and not {each!r}.")
        pairs[name.strip()] = value.strip() if by == ":" else value
    return pairs


def _format_cells(server: dict[str, Any]) -> list[str]:
    count = f"{len(server['tools'])} tools" if server["status"] == "connected" else ""
    return [server["name"], server["status"], count, server["scope"], fit(sanitize(server["target"]), 80)]
