"""Answers of the Messages API in words that read well in a test."""

import itertools
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from tests.support.messages_api.behaviors import (
    Act,
    Clock,
    Cut,
    Forever,
    Gate,
    Hang,
    Hold,
    Pause,
    Reply,
    Reset,
    Send,
    Start,
    Usage,
)

Event = dict[str, Any]


def event(kind: str, /, **fields: Any) -> Send:
    """One event of the stream as it is on the wire."""
    return Send(b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields})))


def pause(seconds: float) -> Act:
    """Wait here."""
    return Pause(seconds)


def hold(gate: Gate) -> Act:
    """Wait here until the test opens the gate."""
    return Hold(gate)


def hang() -> Act:
    """Say nothing more from here on."""
    return Hang()


def cut() -> Act:
    """Close the connection here."""
    return Cut()


def reset() -> Act:
    """Reset the connection here."""
    return Reset()


def clock() -> Act:
    """In `says`: a delta that tells when it was sent."""
    return Clock()


def broken_event() -> Act:
    """An event whose data is no JSON."""
    return Send(b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"del\n\n')


def error_event(kind: str = "overloaded_error", text: str = "Overloaded") -> Act:
    """An `error` in the middle of the stream."""
    return event("error", error={"type": kind, "message": text})


@dataclass(frozen=True, slots=True)
class Block:
    """A content block: its start, and its deltas."""

    start: Event
    pieces: tuple[Event | Act, ...]


Part = Block | Act


def split_text(text: str, chars: int) -> list[str]:
    """The text in pieces of that size."""
    return [text[at : at + chars] for at in range(0, len(text), chars)] or [""]


def says(*parts: str | Act) -> Block:
    """Text; each part is a delta, or something that happens between two of them."""
    return Block({"type": "text", "text": ""}, _build_deltas("text_delta", "text", parts))


def thinks(*parts: str | Act, signature: str = "c2lnbmVk") -> Block:
    """Thinking, signed at its end."""
    signed: Event = {"type": "signature_delta", "signature": signature}
    start = {"type": "thinking", "thinking": "", "signature": ""}
    return Block(start, (*_build_deltas("thinking_delta", "thinking", parts), signed))


def thinks_unseen(data: str = "c2VjcmV0") -> Block:
    """Thinking that only the API can read."""
    return Block({"type": "redacted_thinking", "data": data}, ())


def calls(name: str, arguments: Mapping[str, Any], *, id: str | None = None, piece_chars: int = 0) -> Block:
    """A tool call; with `piece_chars` its input comes in pieces of that size."""
    text = orjson.dumps(arguments).decode()
    return calls_raw(name, *split_text(text, piece_chars or len(text)), id=id)


def calls_raw(name: str, *parts: str | Act, id: str | None = None) -> Block:
    """A tool call whose input is this text, JSON or not."""
    start = {"type": "tool_use", "id": id or new_call_id(), "name": name, "input": {}}
    return Block(start, _build_deltas("input_json_delta", "partial_json", ("", *parts)))


def new_call_id() -> str:
    """A `toolu_…` that nobody has used."""
    return f"toolu_{uuid.uuid4().hex[:24]}"


def searches_web(query: str, found: list[Event] | str) -> tuple[Block, Block]:
    """A search that the API made itself, with the pages that it found or the code of its error."""
    id = f"srvtoolu_{uuid.uuid4().hex[:24]}"
    start = {"type": "server_tool_use", "id": id, "name": "web_search", "input": {}}
    text = orjson.dumps({"query": query}).decode()
    content = {"type": "web_search_tool_result_error", "error_code": found} if isinstance(found, str) else found
    return (
        Block(start, _build_deltas("input_json_delta", "partial_json", ("", *split_text(text, 7)))),
        Block({"type": "web_search_tool_result", "tool_use_id": id, "content": content}, ()),
    )


def web_page(title: str, url: str) -> Event:
    """A page that such a search has found."""
    return {"type": "web_search_result", "title": title, "url": url, "encrypted_content": "ZW5j", "page_age": None}


def cites(text: str, url: str, quoted: str) -> Block:
    """Text, with where it is from."""
    place = {"type": "web_search_result_location", "url": url, "title": url, "cited_text": quoted}
    citation: Event = {"type": "citations_delta", "citation": {**place, "encrypted_index": "ZW5j"}}
    start = {"type": "text", "text": "", "citations": []}
    return Block(start, (citation, *_build_deltas("text_delta", "text", (text,))))


def _build_deltas(kind: str, key: str, parts: tuple[str | Act, ...]) -> tuple[Event | Act, ...]:
    return tuple({"type": kind, key: part} if isinstance(part, str) else part for part in parts)


def message(
    *parts: Part, stop_reason: str | None = None, usage: Usage | None = None, stop_sequence: str | None = None
) -> Reply:
    """A whole message; the reason that it stops is `tool_use` where it calls something, else `end_turn`."""
    usage = usage or Usage()
    reason = stop_reason or ("tool_use" if any(map(_is_call, parts)) else "end_turn")
    delta = {"stop_reason": reason, "stop_sequence": stop_sequence}
    searches = sum(isinstance(part, Block) and part.start["type"] == "server_tool_use" for part in parts)
    tools = {"server_tool_use": {"web_search_requests": searches, "web_fetch_requests": 0}} if searches else {}
    end = (event("message_delta", delta=delta, usage=_dump_usage(usage) | tools), event("message_stop"))
    return Reply((Start(usage), *_render_content(parts), *end), stop_reason=reason)


def _is_call(part: Part) -> bool:
    return isinstance(part, Block) and part.start["type"] == "tool_use"


def _dump_usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "output_tokens": usage.output_tokens,
    }


def _render_content(parts: tuple[Part, ...]) -> Iterator[Act]:
    index = itertools.count()
    for part in parts:
        if isinstance(part, Block):
            yield from _render_block(part, next(index))
        else:
            yield part


def _render_block(block: Block, index: int) -> Iterator[Act]:
    yield event("content_block_start", index=index, content_block=block.start)
    if index == 0:
        yield event("ping")
    for piece in block.pieces:
        match piece:
            case dict():
                yield event("content_block_delta", index=index, delta=piece)
            case Clock():
                yield Clock(index)
            case _:
                yield piece
    yield event("content_block_stop", index=index)


def refuses() -> Reply:
    """The model will not do it."""
    return message(says("I can"), stop_reason="refusal")


def says_nothing() -> Reply:
    """A message without content."""
    return message()


def speaks_for_ever(text: str = "and on ", seconds: float = 0.001) -> Reply:
    """A message without end."""
    opening = message(says("On ")).acts[:-3]
    delta = event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
    return Reply((*opening, Forever(delta.data, seconds)))


def slowly(reply: Reply, seconds: float) -> Reply:
    """The same with a pause before each event."""
    acts = [step for act in reply.acts for step in ((Pause(seconds), act) if _is_event(act) else (act,))]
    return replace(reply, acts=tuple(acts))


def whole(reply: Reply) -> Reply:
    """The same message as JSON, from a server that knows no streams; one that breaks off, breaks off in the middle."""
    return replace(reply, whole=True)


def after(reply: Reply, *acts: Act) -> Reply:
    """The same, when these things have happened: `after(reply, pause(1))`, `after(reply, hold(gate))`."""
    return replace(reply, before=(*acts, *reply.before))


def ends_after(reply: Reply, events: int) -> Reply:
    """The first events only; the answer ends as if it were whole."""
    return replace(reply, acts=tuple(_take_events(reply.acts, events)))


def cut_after(reply: Reply, events: int) -> Reply:
    """The first events only; then the connection is closed."""
    return replace(reply, acts=(*_take_events(reply.acts, events), Cut()))


def reset_after(reply: Reply, events: int) -> Reply:
    """The first events only; then the connection is reset."""
    return replace(reply, acts=(*_take_events(reply.acts, events), Reset()))


def _is_event(act: Act) -> bool:
    return isinstance(act, Start | Send | Clock)


def _take_events(acts: tuple[Act, ...], events: int) -> Iterator[Act]:
    for act in acts:
        if _is_event(act):
            if not events:
                return
            events -= 1
        yield act
