"""What the keys of a chat do that stand for a command: the transcript, the editor, the mode, the keys themselves."""

from typing import TYPE_CHECKING, Final

from ostler.clients.cli.chat.external_programs import edit_text, page_text
from ostler.clients.cli.output import strip_colours
from ostler.clients.cli.render.blocks.theme import THEMES
from ostler.clients.cli.render.transcript import format_message
from ostler.clients.cli.session_choice import fetch_all_pages
from ostler.clients.cli.terminal.console import TerminalConsole
from ostler.clients.cli.terminal.keys import format_keys
from ostler.protocol.methods import SESSION_UPDATE
from ostler.protocol.session import Mode, SessionUpdate

if TYPE_CHECKING:
    from ostler.clients.cli.chat.session import ChatSession

_MODES: Final[tuple[Mode, ...]] = ("default", "acceptEdits", "plan")
"""Those that a key goes through: the others are chosen on purpose, with /mode."""


async def show_keys(chat: "ChatSession", rest: str) -> None:
    chat.tell("\n".join(format_keys()))


async def show_transcript(chat: "ChatSession", rest: str) -> None:
    """All that was said and done, with results, in the person's pager."""
    found = await fetch_all_pages(chat.ostler, "session/messages", {"session_id": chat.session.id}, "messages")
    text = "\n\n".join(strip_colours(format_message(message)) for message in found["messages"])
    try:
        if not await page_text(chat.console, text or "Nothing was said yet."):
            chat.tell(text)
    except OSError as error:
        chat.tell(f"The transcript could not be shown: {error}", "red")


async def write_in_editor(chat: "ChatSession", rest: str) -> None:
    """Go on with what is typed in the person's editor."""
    console = chat.console
    text = console.take_draft()
    try:
        edited = await edit_text(console, text)
    except OSError as error:
        chat.tell(f"That program could not be run: {error}", "red")
        edited = text
    console.fill(edited.rstrip("\n"))


async def choose_next_mode(chat: "ChatSession", rest: str) -> None:
    now = chat.session.mode
    place = _MODES.index(now) + 1 if now in _MODES else 0
    wanted = _MODES[place % len(_MODES)]
    await chat.ostler.call(SESSION_UPDATE, SessionUpdate(session_id=chat.session.id, mode=wanted))


async def toggle_todos(chat: "ChatSession", rest: str) -> None:
    if chat.view is not None:
        chat.view.shows_todos = not chat.view.shows_todos


async def redraw(chat: "ChatSession", rest: str) -> None:
    if isinstance(chat.console, TerminalConsole):
        chat.console.clear()


async def toggle_vi(chat: "ChatSession", rest: str) -> None:
    if isinstance(chat.console, TerminalConsole):
        editor = chat.console.editor
        editor.vi = not editor.vi
        chat.tell("The keys are those of vi now." if editor.vi else "The keys are those of Emacs now.")


async def choose_theme_here(chat: "ChatSession", rest: str) -> None:
    if rest not in THEMES or not isinstance(chat.console, TerminalConsole):
        chat.tell(f"Themes: {', '.join(THEMES)}. /theme NAME", "yellow")
        return
    chat.console.palette.name = rest
    chat.tell(f"The theme is {rest} now.")
