"""`chat`, `attach`: a terminal on a session, any number of them at once."""

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ostler.clients.cli.commands.run import ModeName
from ostler.clients.cli.context import CliContext, get_cli_context, run_with_daemon
from ostler.clients.cli.session_choice import find_newest_session, resolve_folder
from ostler.clients.sdk.errors import ClientError

if TYPE_CHECKING:
    from ostler.clients import Ostler
    from ostler.protocol.session import Session

_STATUS_WORDS: Final[dict[str | None, str]] = {"waiting": "waits", "running": "runs"}


def add_to(app: typer.Typer) -> None:
    for command in (chat, attach):
        app.command()(command)


def chat(
    context: typer.Context,
    cwd: Annotated[str | None, typer.Option("--cwd", metavar="DIR", help="The folder to work in.")] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="M", help="The model to use.")] = None,
    mode: Annotated[
        ModeName | None, typer.Option("--mode", help="How permission is decided; else as settings say.")
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Trust what the folder brings.")] = False,
    continue_: Annotated[
        bool, typer.Option("--continue", help="Go on in the last session of the folder, where there is one.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Choose a session to go on in.")] = False,
) -> None:
    """Talk to an agent in a new session of this folder."""
    folder = os.path.abspath(os.path.expanduser(cwd or os.getcwd()))

    async def work(ostler: "Ostler") -> None:
        from ostler.protocol.ids import SessionId
        from ostler.protocol.methods import SESSION_CREATE, SESSION_GET
        from ostler.protocol.session import SessionCreate, SessionRef

        wanted = SessionCreate(cwd=folder, model=model, trust=trust, wake_on_task_end="agents")
        last = await find_newest_session(ostler, folder) if continue_ else None
        if last is not None:
            session = await ostler.call(SESSION_GET, SessionRef(session_id=SessionId(last)))
            await _run_chat(ostler, session, get_cli_context(context), new=False)
            return
        # Left out where it was not given: settings say it then.
        wanted = wanted.model_copy(update={"mode": mode}) if mode else wanted
        session = await ostler.call(SESSION_CREATE, wanted)
        await _run_chat(ostler, session, get_cli_context(context), new=True, begin="/resume " if resume else "")

    run_with_daemon(context, work, answers=True)


def attach(
    context: typer.Context,
    session_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]",
            help="A session; else one of this folder before others: the newest that waits, runs, or is there",
        ),
    ] = None,
) -> None:
    """Watch a session and take part in it."""

    async def work(ostler: "Ostler") -> None:
        from ostler.protocol.ids import SessionId
        from ostler.protocol.methods import SESSION_GET
        from ostler.protocol.session import SessionRef

        chosen = SessionId(session_id or await _find_newest(ostler))
        session = await ostler.call(SESSION_GET, SessionRef(session_id=chosen))
        await _run_chat(ostler, session, get_cli_context(context), new=False)

    run_with_daemon(context, work, answers=True)


async def _find_newest(ostler: "Ostler") -> str:
    """One of this folder before one that is elsewhere; of these one that waits, then one that runs, then the newest."""
    from ostler.clients.cli.output import note
    from ostler.protocol.methods import SESSION_LIST
    from ostler.protocol.session import SessionList

    here = resolve_folder(None)
    for folder in (here, None):
        for status in ("waiting", "running", None):
            found = (await ostler.call(SESSION_LIST, SessionList(cwd=folder, status=status))).sessions
            for session in found:
                if session.parent_id is None:
                    note(f"Attached to {session.id}, {_describe_choice(session, status, here=folder is not None)}.")
                    return session.id
    raise ClientError("There is no session yet. `ostler chat` begins one.")


def _describe_choice(session: "Session", status: str | None, *, here: bool) -> str:
    does = _STATUS_WORDS.get(status)
    if here:
        return f"the newest session of this folder{f' that {does}' if does else ''}"
    return f"which {f'{does} in' if does else 'is in'} {session.cwd}: this folder has no session"


async def _run_chat(ostler: "Ostler", session: "Session", cli: CliContext, *, new: bool, begin: str = "") -> None:
    from ostler.clients.cli.chat.session import ChatSession
    from ostler.clients.cli.chat.welcome import show_farewell, show_welcome
    from ostler.clients.cli.terminal.console import TerminalConsole, open_console
    from ostler.clients.cli.terminal.history import find_history_file
    from ostler.protocol.config import ConfigGet
    from ostler.protocol.methods import CONFIG_GET, SESSION_GET
    from ostler.protocol.session import SessionRef

    looks = (await ostler.call(CONFIG_GET, ConfigGet(key="terminal"))).value
    terminal = open_console(find_history_file(cli.places.data, session.cwd), looks)
    with terminal.take_keys() if isinstance(terminal, TerminalConsole) else nullcontext():
        while True:
            chat_session = ChatSession(ostler, session, terminal)
            chat_session.home = cli.home
            await show_welcome(chat_session, new=new)
            if begin and isinstance(terminal, TerminalConsole):
                terminal.fill(begin)
                terminal.refresh_menu()
                begin = ""
            await chat_session.run()
            await show_farewell(chat_session, new=new)
            if chat_session.next_session is None:
                return
            wanted = SessionRef(session_id=chat_session.next_session.id)
            session, new = await ostler.call(SESSION_GET, wanted), chat_session.next_is_new
