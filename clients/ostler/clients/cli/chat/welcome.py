"""What a terminal shows when it comes to a session, and when it leaves."""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from ostler.clients.cli.chat.session import Attached, is_ours
from ostler.clients.cli.notices import EXAMPLES, REHEARSAL, is_rehearsal
from ostler.clients.cli.output import Colour
from ostler.clients.cli.tool_input import in_short
from ostler.clients.sdk.errors import ClientError
from ostler.protocol.errors import ProtocolError
from ostler.protocol.limits import MAX_PAGE
from ostler.protocol.methods import SESSION_DELETE
from ostler.protocol.session import SessionRef

_LAST_MESSAGES: Final = 6
_MESSAGE_LINES: Final = 12
_LINE_WIDTH: Final = 200


async def welcome(attached: Attached, *, new: bool) -> None:
    """Which session this is, and what was said last."""
    session = attached.session
    what = f"A new session in {session.cwd}" if new else f"{session.title or session.id} in {session.cwd}"
    attached.tell(f"{what}, model {session.model}, mode {session.mode}. /help says what can be typed.", "bold")
    if not new:
        for message in await _last_messages(attached):
            for text, colour in _recalled(message):
                attached.tell(_shortened(text), colour)
        if session.turn is not None:
            attached.tell(f"A turn is {session.status}.")
    if is_rehearsal(session.model):
        attached.tell(REHEARSAL, "yellow")
        for example in EXAMPLES if new else ():
            attached.tell(f"  {example}", "cyan")


def _recalled(message: dict[str, Any]) -> Iterator[tuple[str, Colour | None]]:
    """What was said and done; results are left out."""
    for block in message["content"]:
        text = str(block.get("text", ""))
        if block["type"] == "tool_use":
            yield f"● {block['name']} {in_short(block['input'])}".rstrip(), "cyan"
        elif block["type"] == "text" and message["role"] == "assistant":
            yield text, None
        elif block["type"] == "text" and not is_ours(text):
            yield f"» {text}", "bold"


def _shortened(text: str) -> str:
    lines = [line if len(line) <= _LINE_WIDTH else line[: _LINE_WIDTH - 1] + "…" for line in text.split("\n")]
    more = [f"… {len(lines) - _MESSAGE_LINES} lines more"] if len(lines) > _MESSAGE_LINES else []
    return "\n".join([*lines[:_MESSAGE_LINES], *more])


async def _last_messages(attached: Attached) -> deque[dict[str, Any]]:
    last: deque[dict[str, Any]] = deque(maxlen=_LAST_MESSAGES)
    wanted = {"session_id": attached.session.id, "include_results": False, "limit": MAX_PAGE}
    page: str | None = None
    while True:
        answer = await attached.ostler.request("session/messages", {**wanted, "page": page})
        last += answer["messages"]
        page = answer["next"]
        if page is None:
            return last


async def farewell(attached: Attached, *, new: bool) -> None:
    """How to come back; a session in which nothing was said is not kept."""
    session = attached.session
    try:
        if new and not attached.used:
            await attached.ostler.call(SESSION_DELETE, SessionRef(session_id=session.id))
            attached.tell("Nothing was said, and nothing is kept.")
            return
    except (ClientError, ProtocolError):
        return  # it was only to be tidy
    back = f"`ostler attach {session.id}` comes back."
    attached.tell(f"The turn goes on without you. {back}" if attached.turn is not None else back)
