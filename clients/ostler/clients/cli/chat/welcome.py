"""What a terminal shows when it comes to a session, and when it leaves."""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import anyio.to_thread

from ostler.clients.cli.chat.session import ChatSession, is_daemon_text
from ostler.clients.cli.notices import REHEARSAL, is_rehearsal, suggest_requests
from ostler.clients.cli.output import Colour
from ostler.clients.cli.tool_input import summarize_input
from ostler.clients.sdk.errors import ClientError
from ostler.protocol.errors import ProtocolError
from ostler.protocol.limits import MAX_PAGE
from ostler.protocol.methods import SESSION_DELETE
from ostler.protocol.session import SessionRef

_LAST_MESSAGES: Final = 6
_MESSAGE_LINES: Final = 12
_LINE_WIDTH: Final = 200


async def show_welcome(chat: ChatSession, *, new: bool) -> None:
    """Which session this is, and what was said last."""
    session = chat.session
    what = f"A new session in {session.cwd}" if new else f"{session.title or session.id} in {session.cwd}"
    chat.tell(f"{what}, model {session.model}, mode {session.mode}. /help says what can be typed.", "bold")
    if not new:
        for message in await _fetch_last_messages(chat):
            _show_message(chat, message)
        if session.turn is not None:
            chat.tell(f"A turn is {session.status}.")
    if is_rehearsal(session.model):
        chat.tell(REHEARSAL, "yellow")
        for words in await _list_suggestions(chat) if new else ():
            chat.tell(f"  {words}", "cyan")


async def _list_suggestions(chat: ChatSession) -> list[str]:
    found = await chat.ostler.request("tool/list", {"session_id": chat.session.id, "limit": MAX_PAGE})
    tools = {tool["name"] for tool in found["tools"] if tool["enabled"]}
    return await anyio.to_thread.run_sync(suggest_requests, chat.session.cwd, tools)


def _show_message(chat: ChatSession, message: dict[str, Any]) -> None:
    """One of the last messages, as it looked when it was said."""
    for text, colour in _render_message(message):
        words = _shorten_text(text)
        if chat.view is None or colour == "cyan":
            chat.tell(words.replace(f"{chat.session.cwd}/", "") if chat.view is not None else words, colour)
        elif colour == "bold":
            chat.view.write_input(words.removeprefix("» "))
        else:
            chat.view.write_markdown(words)


def _render_message(message: dict[str, Any]) -> Iterator[tuple[str, Colour | None]]:
    """What was said and done; results are left out."""
    for block in message["content"]:
        text = str(block.get("text", ""))
        if block["type"] == "tool_use":
            yield f"● {block['name']} {summarize_input(block['input'])}".rstrip(), "cyan"
        elif block["type"] == "text" and message["role"] == "assistant":
            yield text, None
        elif block["type"] == "text" and not is_daemon_text(text):
            yield f"» {text}", "bold"


def _shorten_text(text: str) -> str:
    lines = [line if len(line) <= _LINE_WIDTH else line[: _LINE_WIDTH - 1] + "…" for line in text.split("\n")]
    more = [f"… {len(lines) - _MESSAGE_LINES} lines more"] if len(lines) > _MESSAGE_LINES else []
    return "\n".join([*lines[:_MESSAGE_LINES], *more])


async def _fetch_last_messages(chat: ChatSession) -> deque[dict[str, Any]]:
    last: deque[dict[str, Any]] = deque(maxlen=_LAST_MESSAGES)
    wanted = {"session_id": chat.session.id, "include_results": False, "limit": MAX_PAGE}
    page: str | None = None
    while True:
        answer = await chat.ostler.request("session/messages", {**wanted, "page": page})
        last += answer["messages"]
        page = answer["next"]
        if page is None:
            return last


async def show_farewell(chat: ChatSession, *, new: bool) -> None:
    """How to come back; a session in which nothing was said is not kept."""
    session = chat.session
    try:
        if new and not chat.used:
            await chat.ostler.call(SESSION_DELETE, SessionRef(session_id=session.id))
            chat.tell("Nothing was said, and nothing is kept.")
            return
    except (ClientError, ProtocolError):
        return  # it was only to be tidy
    back = f"`ostler attach {session.id}` comes back."
    chat.tell(f"The turn goes on without you. {back}" if chat.turn is not None else back)
