"""`sessions`, `show`, `export`, `fork`, `archive`, `delete`: the stored sessions, and titles for those without."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, Literal

import typer

from ostler.clients.cli.context import run_with_daemon
from ostler.clients.cli.output import Format, fit, note, say, say_json
from ostler.clients.cli.session_choice import fetch_all_pages
from ostler.clients.sdk.errors import ClientError
from ostler.protocol.errors import SessionNotFound
from ostler.protocol.limits import MAX_PAGE

if TYPE_CHECKING:
    from ostler.clients import Ostler

SessionArgument = Annotated[str, typer.Argument(metavar="ID", help="A session's id, as `ostler sessions` shows it.")]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
ExportKind = Literal["jsonl", "markdown", "json"]
_LIMIT: Final = 50
_WIDTH: Final = 60
_MAX_CONCURRENT: Final = 8
"""How many sessions are asked for their first words at once: the list does not have them."""


def add_to(app: typer.Typer) -> None:
    for command in (sessions, show, export, fork, archive, delete):
        app.command()(command)


def sessions(
    context: typer.Context,
    all: Annotated[bool, typer.Option("--all", help="Archived ones too.")] = False,
    archived: Annotated[bool, typer.Option("--archived", help="Only archived ones.")] = False,
    cwd: Annotated[str | None, typer.Option("--cwd", metavar="DIR", help="Only those of this folder.")] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="T", help="Only those with this in their title or folder.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = _LIMIT,
    format: FormatOption = "text",
) -> None:
    """List sessions, newest activity first."""
    if all and archived:
        raise typer.BadParameter("give --all or --archived, not both")
    wanted: dict[str, Any] = {"archived": None if all else archived}
    if cwd is not None:
        wanted["cwd"] = os.path.abspath(os.path.expanduser(cwd))
    if text is not None:
        wanted["text"] = text

    async def ask(ostler: "Ostler") -> dict[str, Any]:
        page = await _list_sessions(ostler, wanted, limit)
        return page if format == "json" else {**page, "sessions": await add_titles(ostler, page["sessions"])}

    found = run_with_daemon(context, ask)
    if format == "json":
        say_json(found)
        return
    from ostler.clients.cli.render.transcript import format_sessions

    for line in format_sessions(found["sessions"]):
        say(line)
    if found["next"]:
        note(f"There are more: --limit {limit * 2}.")
    elif not found["sessions"]:
        note("No sessions.")


async def _list_sessions(ostler: "Ostler", wanted: dict[str, Any], limit: int) -> dict[str, Any]:
    """As many pages as it takes."""
    rows: list[dict[str, Any]] = []
    page: str | None = None
    while len(rows) < limit:
        size = min(limit - len(rows), MAX_PAGE)
        answer = await ostler.request("session/list", {**wanted, "limit": size, "page": page})
        rows += answer["sessions"]
        page = answer["next"]
        if page is None:
            break
    return {"sessions": rows, "next": page}


def show(
    context: typer.Context,
    session_id: Annotated[
        str, typer.Argument(metavar="ID", help="A session's id, or that of a persisted result (r_… or result://r_…).")
    ],
    agents: Annotated[
        bool, typer.Option("--agents", help="Open the parts of its agents, which are a line each.")
    ] = False,
    format: FormatOption = "text",
) -> None:
    """Show a session and its messages, and what let each call pass or not; or all of a persisted result."""

    async def ask(ostler: "Ostler") -> None:
        if session_id.startswith(("r_", "result://")):
            from ostler.clients.cli.render.stored_result import show_result

            await show_result(ostler, session_id.removeprefix("result://"), format)
            return
        session = await ostler.request("session/get", {"session_id": session_id})
        parts = (await fetch_all_pages(ostler, "agent/list", {"session_id": session_id}, "agents"))["agents"]
        from ostler.clients.cli.render.decisions import collect_decisions, describe_decisions

        if format == "json":
            messages = [message async for message in _fetch_messages(ostler, session_id)]
            found = await collect_decisions(ostler, session)
            if agents:
                parts = [{**part, "messages": await _fetch_part(ostler, part)} for part in parts]
            say_json({"session": session, "messages": messages, "decisions": found, "agents": parts})
            return
        from ostler.clients.cli.render.transcript import format_session

        decided = await describe_decisions(ostler, session)
        say(format_session(session))
        transcript = _Transcript(ostler, decided, {part["call_id"]: part for part in parts}, opens=agents)
        async for text in transcript.format_messages(session_id):
            say()
            say(text)
        if parts and not agents:
            note(f"`ostler show --agents {session_id}` opens the parts of the agents (▸).")

    run_with_daemon(context, ask)


@dataclass(frozen=True, slots=True)
class _Transcript:
    """Messages as text, with the parts of agents folded into the calls that started them, or opened there."""

    ostler: "Ostler"
    decided: dict[str, str]
    agents: dict[str, dict[str, Any]]
    """By the calls that started them."""
    opens: bool

    async def format_messages(self, session_id: str) -> AsyncIterator[str]:
        from ostler.clients.cli.render.transcript import format_message

        async for message in _fetch_messages(self.ostler, session_id):
            calls = [f"{message['id']}#{index}" for index in range(len(message["content"]))]
            parts = {call: await self._format_part(self.agents[call]) for call in calls if call in self.agents}
            yield format_message(message, self.decided, parts)

    async def _format_part(self, agent: dict[str, Any]) -> str:
        from ostler.clients.cli.render.transcript import format_agent, indent_part

        lines = [format_agent(agent, opened=self.opens)]
        if self.opens and agent["agent_id"] is not None:
            lines += [indent_part(text) async for text in self.format_messages(agent["agent_id"])]
        return "\n\n".join(lines)


async def _fetch_part(ostler: "Ostler", agent: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of an agent."""
    if agent["agent_id"] is None:
        return []
    return [message async for message in _fetch_messages(ostler, agent["agent_id"])]


async def _fetch_messages(ostler: "Ostler", session_id: str) -> AsyncIterator[dict[str, Any]]:
    page: str | None = None
    while True:
        wanted = {"session_id": session_id, "limit": MAX_PAGE, "page": page}
        answer = await ostler.request("session/messages", wanted)
        for message in answer["messages"]:
            yield message
        page = answer["next"]
        if page is None:
            return


def export(
    context: typer.Context,
    session_id: SessionArgument,
    kind: Annotated[ExportKind, typer.Option("--as", help="The form of the file.")] = "markdown",
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write it there instead of to stdout.")
    ] = None,
) -> None:
    """Write a session as one file."""

    async def copy(ostler: "Ostler") -> None:
        async with ostler.export(session_id, kind) as chunks:
            with _open_destination(output) as file:
                async for chunk in chunks:
                    file.write(chunk)

    run_with_daemon(context, copy)
    if output is not None:
        note(f"Wrote {output}.")


@contextmanager
def _open_destination(output: str | None) -> Iterator[BinaryIO]:
    """Whole or not at all: an export that breaks off must not leave half a file under the name asked for."""
    if output is None or (os.path.exists(output) and not os.path.isfile(output)):
        with open(output, "wb") if output else nullcontext(sys.stdout.buffer) as stream:
            yield stream
            stream.flush()
        return
    unfinished = f"{output}.part"
    try:
        with open(unfinished, "wb") as file:
            yield file
        os.replace(unfinished, output)
    except BaseException as error:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        if isinstance(error, OSError) and error.filename == unfinished:
            error.filename = output  # the name of the temporary file would only confuse
        raise


def fork(
    context: typer.Context,
    session_id: SessionArgument,
    at: Annotated[
        str | None, typer.Option("--at", metavar="MESSAGE", help="The last message of the fork; else the last of all.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="T", help="What to call the fork.")] = None,
    format: FormatOption = "text",
) -> None:
    """Make a new session with the same history, up to a message."""
    given = {"message_id": at, "title": title}

    async def ask(ostler: "Ostler") -> Any:
        wanted = {name: value for name, value in given.items() if value is not None}
        return await ostler.request("session/fork", {"session_id": session_id, **wanted})

    made = run_with_daemon(context, ask)
    if format == "json":
        say_json(made)
        return
    say(made["id"])
    note(f"Go on there with `ostler attach {made['id']}`.")


def archive(
    context: typer.Context,
    session_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The sessions to put away.")],
    undo: Annotated[bool, typer.Option("--undo", help="Take them out of the archive again.")] = False,
) -> None:
    """Put sessions out of the way, or take them out of the archive again; nothing of them is lost."""

    async def move(ostler: "Ostler") -> None:
        # All of them are looked up first: a mistyped id must not be found out halfway.
        for one in session_ids:
            await ostler.request("session/get", {"session_id": one})
        for one in dict.fromkeys(session_ids):
            await ostler.request("session/archive", {"session_id": one, "archived": not undo})
            say(f"Taken out of the archive: {one}" if undo else f"Archived {one}")

    run_with_daemon(context, move)


def delete(
    context: typer.Context,
    session_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The sessions to delete.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete sessions and everything of them."""
    if not yes and not sys.stdin.isatty():
        raise ClientError("Nobody is there to be asked. Give --yes to delete without a question.")

    async def remove(ostler: "Ostler") -> None:
        # All of them are looked up first: a mistyped id must not be found out halfway.
        found = [await ostler.request("session/get", {"session_id": one}) for one in dict.fromkeys(session_ids)]
        if not yes:
            _confirm(await add_titles(ostler, found))
        for session in found:
            await _delete(ostler, session["id"])

    run_with_daemon(context, remove)


async def _delete(ostler: "Ostler", session_id: str) -> None:
    from ostler.protocol.errors import SessionNotFound

    try:
        answer = await ostler.request("session/delete", {"session_id": session_id})
    except SessionNotFound:
        return  # it was an agent of one that went before it, or another client was faster
    for gone in answer["session_ids"]:
        say(f"Deleted {gone}")


def _confirm(found: list[dict[str, Any]]) -> None:
    from ostler.clients.cli.render.transcript import format_sessions

    for line in format_sessions(found):
        note(line)
    count = "this session" if len(found) == 1 else f"these {len(found)} sessions"
    typer.confirm(f"Delete {count} and everything of them?", abort=True, err=True)


async def add_titles(ostler: "Ostler", found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same sessions; where there is no title, the first words of the first input stand for it."""
    shown = [dict(session) for session in found]
    import anyio

    limiter = anyio.CapacityLimiter(_MAX_CONCURRENT)

    async def name(session: dict[str, Any]) -> None:
        async with limiter:
            session["title"] = await _fetch_first_words(ostler, session["id"])

    async with anyio.create_task_group() as group:
        for session in shown:
            if not session["title"]:
                group.start_soon(name, session)
    return shown


async def _fetch_first_words(ostler: "Ostler", session_id: str) -> str | None:
    wanted = {"session_id": session_id, "limit": 1, "include_results": False}
    try:
        messages = (await ostler.request("session/messages", wanted))["messages"]
    except SessionNotFound:
        return None  # somebody deleted it meanwhile
    blocks = messages[0]["content"] if messages else []
    words = (str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    return next((fit(text, _WIDTH) for text in words if text.strip()), None)
