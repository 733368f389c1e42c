"""What an MCP server wants to know from people: an ask of kind `elicitation`, and its answer in the protocol's form."""

from datetime import UTC, datetime, timedelta
from typing import Any

from ostler.protocol import times
from ostler.protocol.ids import new_ask_id
from ostler.protocol.shapes import Ask, AskedCall, Call
from ostler.server.engine.asks.asks import TurnAsks
from ostler.server.engine.session.live import LiveSession
from ostler.tools.text import cut_text

_MAX_MESSAGE = 5_000
_MAX_URL = 4_000


async def elicit(
    session: LiveSession,
    asks: TurnAsks,
    call: Call,
    server: str,
    params: dict[str, Any],
    expire_seconds: float | None,
) -> dict[str, Any]:
    """Ask the people, and wait for them. Where nobody is asked, the server is told that it was declined."""
    if session.asks_nobody:
        return {"action": "decline"}
    ask = _build_ask(session, call, server, params, expire_seconds)
    if ask is None:
        return {"action": "decline"}
    async with session.lend_slot():
        settled = await asks.ask(ask)
    answer = settled.answer or {}
    match answer.get("choice"):
        case "accept" if ask.url is not None:
            return {"action": "accept"}
        case "accept":
            return {"action": "accept", "content": answer.get("content") or {}}
        case "decline":
            return {"action": "decline"}
        case _:
            return {"action": "cancel"}


def _build_ask(
    session: LiveSession, call: Call, server: str, params: dict[str, Any], expire_seconds: float | None
) -> Ask | None:
    """None for an address that no person should be sent to."""
    url = params.get("url") if params.get("mode") == "url" else None
    if url is not None and (not str(url).startswith(("https://", "http://")) or len(url) > _MAX_URL):
        return None
    now, record, agent = datetime.now(UTC), session.record, session.agent
    return Ask(
        id=new_ask_id(),
        session_id=record.id,
        root_id=record.root_id,
        turn_id=call.turn_id,
        agent=agent.shown if agent is not None else None,
        kind="elicitation",
        status="open",
        call=AskedCall(call_id=call.call_id, tool=call.tool, input=call.input, summary=call.summary),
        message=cut_text(str(params.get("message") or ""), _MAX_MESSAGE),
        choices=["accept", "decline", "cancel"],
        server=server,
        schema=None if url is not None else params.get("requestedSchema"),
        url=url,
        opened_at=times.format_time(now),
        expires_at=times.format_time(now + timedelta(seconds=expire_seconds)) if expire_seconds else None,
    )
