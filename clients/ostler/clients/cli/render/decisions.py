"""What was decided about the calls of a session, and by whom: out of its events, and out of what people were asked."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio

from ostler.clients.cli.render.ask import name_answerer
from ostler.clients.cli.session_choice import fetch_all_pages
from ostler.clients.sdk.asks import list_asks

if TYPE_CHECKING:
    from ostler.clients import EventStream, Ostler
    from ostler.protocol.events import Event

_SILENCE_SECONDS: Final = 1.0
"""Stored events come without a pause: after so long there are no more, and the last turn still runs."""
_MAX_EVENTS: Final = 100_000


async def collect_decisions(ostler: "Ostler", session: dict[str, Any]) -> dict[str, Any]:
    """The decision of each call by its id, as far as the events of the session are still kept."""
    found: dict[str, Any] = {}
    turns = (await fetch_all_pages(ostler, "turn/list", {"session_id": session["id"]}, "turns"))["turns"]
    if not turns:
        return found
    async with ostler.events(session["id"], after=0, patience_seconds=_SILENCE_SECONDS) as events:
        for _ in range(_MAX_EVENTS):
            event = await _next_event(events)
            if event is None or event.type == "stream.reset":
                return found
            call = event.data.get("call") if event.type in {"tool.started", "tool.completed"} else None
            if call and call.get("decision"):
                found[call["call_id"]] = call["decision"]
            if event.type == "turn.ended" and event.turn_id == turns[-1]["id"]:
                return found
    return found


async def _next_event(events: "EventStream") -> "Event | None":
    with anyio.move_on_after(_SILENCE_SECONDS):
        return await anext(events)
    return None


async def describe_decisions(ostler: "Ostler", session: dict[str, Any]) -> dict[str, str]:
    """The same for people; where the events are gone, what was asked and answered still tells."""
    asks = [ask for ask in await list_asks(ostler, session["id"], None) if ask.get("call")]
    found = await collect_decisions(ostler, session)
    people = {ask.get("answered_by"): ask.get("answered_by_name") for ask in asks}
    names = {one: name_answerer(ostler, one, name) for one, name in people.items()}
    words = {ask["call"]["call_id"]: _describe_ask(ask, names) for ask in asks}
    return words | {call_id: _describe_decision(decision, names) for call_id, decision in found.items()}


ClientNames = Mapping[str | None, str]
"""What people call the clients that answered, by their ids."""


def _describe_ask(ask: dict[str, Any], names: ClientNames) -> str:
    if ask["status"] != "resolved":
        return f"asked, {ask['status']}"
    choice = (ask.get("answer") or {}).get("choice", "answered")
    return f"{choice} by {names[ask.get('answered_by')]}"


def _describe_decision(decision: dict[str, Any], names: ClientNames) -> str:
    did = {"allow": "allowed", "deny": "denied"}.get(decision["behavior"], decision["behavior"])
    source = decision.get("source")
    reason = f": {decision['reason']}" if decision.get("reason") else ""
    return f"{did} {_describe_source(decision, names.get(source, source))}{reason}"


def _describe_source(decision: dict[str, Any], source: str | None) -> str:
    rule = decision.get("rule")
    match decision["by"]:
        case "rule":
            return f"by the rule {rule} ({source})"
        case "person":
            return f"by {source}" + (f", who made the rule {rule}" if rule else "")
        case "hook":
            return f"by the {(source or 'hook').removeprefix('hook: ')}"
        case "classifier":
            return "by the classifier" + (f" ({source})" if source else "")
        case "read_only":
            return "because it only reads"
        case "tool":
            return "by the tool itself"
        case "mode":
            return "by the mode"
        case "safety":
            return "for safety"
        case "on_ask":
            return "because nobody is asked here"
        case other:
            return f"by the {other}"
