"""What tells sessions apart that nobody gave a title: the first words that were said in them."""

from typing import TYPE_CHECKING, Any, Final

import anyio

from ostler.clients.cli.output import fit
from ostler.protocol.errors import SessionNotFound

if TYPE_CHECKING:
    from ostler.clients import Ostler

_WIDTH: Final = 60
_AT_ONCE: Final = 8
"""The list does not say the words, so each session is asked: many at once, and never all."""


async def titled(ostler: "Ostler", found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same sessions; where there is no title, the first words of the first input stand for it."""
    shown = [dict(session) for session in found]
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def name(session: dict[str, Any]) -> None:
        async with limiter:
            session["title"] = await _first_words(ostler, session["id"])

    async with anyio.create_task_group() as group:
        for session in shown:
            if not session["title"]:
                group.start_soon(name, session)
    return shown


async def _first_words(ostler: "Ostler", session_id: str) -> str | None:
    wanted = {"session_id": session_id, "limit": 1, "include_results": False}
    try:
        messages = (await ostler.request("session/messages", wanted))["messages"]
    except SessionNotFound:
        return None  # somebody deleted it meanwhile
    blocks = messages[0]["content"] if messages else []
    words = (str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    return next((fit(said, _WIDTH) for said in words if said.strip()), None)
