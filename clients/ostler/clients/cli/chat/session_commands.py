"""Slash commands about sessions: a new one, another one, a copy, a name; and what other subcommands of ostler say."""

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import anyio

from ostler.clients.cli.output import fit, strip_colours
from ostler.clients.cli.render.ask_line import abbreviate_home
from ostler.clients.cli.terminal.completion import Suggestion
from ostler.clients.cli.terminal.console import TerminalConsole
from ostler.protocol.methods import SESSION_CREATE, SESSION_FORK, SESSION_LIST, SESSION_UPDATE
from ostler.protocol.session import SessionCreate, SessionFork, SessionList, SessionUpdate

if TYPE_CHECKING:
    from ostler.clients import Ostler
    from ostler.clients.cli.chat.session import ChatSession
    from ostler.protocol.session import Session

_RUN_COMMAND: Final = "from ostler.clients.cli import main; main()"
_PROGRAM_SECONDS: Final = 60.0
_TITLE_WIDTH: Final = 60
_LISTED: Final = 50


async def begin_new_session(chat: "ChatSession", rest: str) -> None:
    """Another session of the same folder, model and mode; what is on the screen stays."""
    old = chat.session
    wanted = SessionCreate(cwd=old.cwd, model=old.model, mode=old.mode, wake_on_task_end="agents")
    chat.move_to(await chat.ostler.call(SESSION_CREATE, wanted), new=True)


async def fork_session(chat: "ChatSession", rest: str) -> None:
    chat.move_to(await chat.ostler.call(SESSION_FORK, SessionFork(session_id=chat.session.id, title=rest or None)))


async def rename_session(chat: "ChatSession", rest: str) -> None:
    if not rest:
        chat.tell(f"It is called {chat.session.title or chat.session.id}. /rename TITLE", "yellow")
    else:
        await chat.ostler.call(SESSION_UPDATE, SessionUpdate(session_id=chat.session.id, title=rest))


async def resume_session(chat: "ChatSession", rest: str) -> None:
    """Go on in another session: by its id, or by words of its title."""
    sessions = await list_sessions(chat.ostler, None)
    wanted = rest.partition(" ")[0]
    found = [one for one in sessions if one.id == wanted]
    found = found or [one for one in sessions if rest and rest.casefold() in (one.title or "").casefold()]
    if not found:
        chat.tell(
            "Which one? Type on after /resume to choose, or give its id." if not rest else f"No session is {rest!r}."
        )
        for one in sessions[:10] if not rest else ():
            chat.tell(f"  {describe_session(one)}")
    elif found[0].id == chat.session.id:
        chat.tell("This is that session.")
    else:
        chat.move_to(found[0])


async def list_sessions(ostler: "Ostler", folder: str | None) -> "list[Session]":
    """The newest sessions, agents' left out."""
    found = (await ostler.call(SESSION_LIST, SessionList(cwd=folder, limit=_LISTED))).sessions
    return [one for one in found if one.parent_id is None]


def describe_session(session: "Session") -> str:
    title = fit(session.title or "-", _TITLE_WIDTH)
    return f"{session.id}  {title}  {session.status}  {abbreviate_home(session.cwd)}"


def suggest_sessions(sessions: "list[Session]", start: int, words: str) -> list[Suggestion]:
    """Sessions of which the title, the folder or the id has these words."""
    wanted = words.casefold().split()
    return [
        Suggestion(start, one.id, f"{fit(one.title or '-', _TITLE_WIDTH)}  {abbreviate_home(one.cwd)}")
        for one in sessions
        if all(word in f"{one.id} {one.title} {one.cwd}".casefold() for word in wanted)
    ]


async def copy_answer(chat: "ChatSession", rest: str) -> None:
    """Put the last answer into the clipboard, by way of the terminal; `/copy code` its last block of code."""
    import base64

    from ostler.clients.cli.render.blocks.markdown import iterate_fences

    text = chat.view.last_text if chat.view is not None else ""
    if rest == "code":
        text = ([code for _, code in iterate_fences(text)] or [""])[-1]
    if not text or not isinstance(chat.console, TerminalConsole):
        chat.tell("There is nothing to copy.")
        return
    chat.console.screen.write_raw(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07")
    chat.tell(f"{len(text):,} characters were given to the terminal for its clipboard.")


def say_subcommand(*arguments: str, session: bool = False) -> "Callable[[ChatSession, str], Awaitable[None]]":
    """A slash command that says what a subcommand of ostler says."""

    async def run(chat: "ChatSession", rest: str) -> None:
        more = ["--session", chat.session.id] if session else []
        chat.tell(await _run_ostler(chat, [*arguments, *more, *rest.split()]) or "Nothing to tell.", None)

    return run


async def show_diff(chat: "ChatSession", rest: str) -> None:
    """What the session has changed, file by file."""
    from ostler.clients.cli.render.blocks.call import render_diff
    from ostler.clients.cli.render.blocks.rows import clean, make_row

    found: dict[str, Any] = await chat.ostler.request("session/diff", {"session_id": chat.session.id})
    for file in found["files"]:
        if chat.view is None:
            chat.tell(f"± {file['path']}\n{file.get('patch') or ''}", None)
            continue
        path, patch = file["path"], file.get("patch") or ""
        chat.view.write_rows(_build_block(make_row((f"± {clean(path)}", "bold")), patch, render_diff))
    if not found["files"]:
        chat.tell("Nothing was changed.")


def _build_block(head: Any, patch: str, render: Callable[[str, int, int], list[Any]]) -> Callable[[int], list[Any]]:
    return lambda columns: [head, *(render(patch, columns, 500) if patch else [])]


async def _run_ostler(chat: "ChatSession", arguments: list[str]) -> str:
    environ = {**os.environ, "NO_COLOR": "1"}
    home = ["--home", chat.home] if chat.home else []
    with anyio.move_on_after(_PROGRAM_SECONDS):
        done = await anyio.run_process(
            [sys.executable, "-c", _RUN_COMMAND, *home, *arguments],
            check=False,
            env=environ,
            cwd="/",  # what it is about is said by its id; the folder of the session may be gone
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        return strip_colours(done.stdout.decode("utf-8", "replace")).rstrip("\n")
    return f"`ostler {' '.join(arguments)}` took too long."


async def export_session(chat: "ChatSession", rest: str) -> None:
    """Write the session as Markdown to a file."""
    file = os.path.join(os.getcwd(), rest or f"{chat.session.id}.md")
    said = await _run_ostler(chat, ["export", chat.session.id, "--output", file])
    chat.tell(said or f"It was written to {file}.")
