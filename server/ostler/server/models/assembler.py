"""From the raw events of a stream to the blocks of a message.

Tool input is parsed here and nowhere else: JSON that is not complete, not an object, or more than could be read while
others wait, never becomes a call that runs.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ostler.protocol.extent import chars_of
from ostler.protocol.limits import MAX_DEPTH
from ostler.protocol.shapes import Usage
from ostler.server.models.provider import ModelFailure, RawEvent
from ostler.server.models.tool_input_json import parsed, unusable
from ostler.storage.sqlite.long_json import LONG_CHARS, dumped, is_long

MAX_MESSAGE_CHARS: Final = 16 * 1024 * 1024
"""A model that never stops is stopped here: no real message is a tenth as long."""

MAX_BLOCKS: Final = 500
"""More than anybody asks for at once; each may be a call, which waits for those before it."""

_MAX_HELD: Final = 64 * 1024
_CITATION_CHARS: Final = 64
"""What a citation counts for, however short it is."""
_MAX_TOKENS: Final = 10**12
"""A count beyond it is none: the sums of many have to fit into the database."""
_ONLY_IN_INPUT: Final = frozenset({"image", "document", "tool_result"})

_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")

DeltaKind = Literal["text", "thinking", "tool_input"]


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of text for whoever watches."""

    index: int
    kind: DeltaKind
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool_use block that is complete."""

    index: int
    id: str
    name: str
    """As the model wrote it, which may be no tool's name."""
    input: dict[str, Any]
    unusable: str | None = None
    """Why nothing can be run of it, for the model: what was written is no object, or more than is parsed."""


Step = Delta | ToolUse


@dataclass(frozen=True, slots=True)
class _Made:
    """A block that is complete."""

    content: dict[str, Any]
    encoded: bytes
    use: ToolUse | None = None


@dataclass(slots=True)
class _Open:
    """The block that is being streamed."""

    start: dict[str, Any]
    number: Any = None
    """What the provider calls it."""
    index: int | None = None
    """Its place in the message; given when there is something in it."""
    parts: list[str] = field(default_factory=list)
    offset: int = 0
    held: list[str] = field(default_factory=list)
    """Blanks at the start of a text: the API takes no text that has nothing else."""
    held_chars: int = 0
    signature: list[str] = field(default_factory=list)
    extras: dict[str, Any] = field(default_factory=dict)
    beside: int = 0
    """How much of it is no text: signatures and citations."""
    made: _Made | None = None
    """What becomes of it, where that was made ahead."""

    @property
    def is_long(self) -> bool:
        return self.offset + self.beside >= LONG_CHARS or (not self.parts and is_long(self.start))


class Assembly:
    """One message in the making."""

    def __init__(self, used_ids: Container[str]) -> None:
        self.content: list[dict[str, Any]] = []
        """The complete blocks so far."""
        self.encoded: list[bytes] = []
        """The same as JSON: made once, for the disk, the clients and the model."""
        self.started = False
        self.stopped = False
        """`message_stop` has come: the message is whole."""
        self.call_cut = False
        """It ended in the middle of a call, which is not in it."""
        self.stop_reason: str | None = None
        self.model: str | None = None
        self._counted: dict[str, int] = {}
        self._used_ids = used_ids
        self._own_ids: set[str] = set()
        self._open: _Open | None = None
        self._chars = 0

    def feed(self, event: RawEvent) -> Iterator[Step]:
        """What an event brings."""
        match event.get("type"):
            case "message_start":
                self._begin(event.get("message") or {})
            case "content_block_start":
                yield from self._open_block(event.get("content_block") or {}, event.get("index"))
            case "content_block_delta":
                self._check_number(event.get("index"))
                yield from self._extend(event.get("delta") or {})
            case "content_block_stop":
                self._check_number(event.get("index"))
                yield from self._close_block()
            case "message_delta":
                self._finish(event)
            case "message_stop":
                self.end_where_it_broke()  # a block that was never closed
                self.stopped = True
            case "error":
                raise _failure(event.get("error") or {})
            case _:
                pass  # a ping, or a kind that does not exist yet

    def ends_long(self, event: RawEvent | None = None) -> bool:
        """Whether an event, or the end of them all, completes a block that is better made ahead, on a thread."""
        block = self._open
        if block is None or block.index is None:
            return False
        closes = event is not None and event.get("type") == "content_block_stop"
        breaks = event is None or event.get("type") == "message_stop"
        return (closes or (breaks and block.start.get("type") == "text")) and block.is_long

    def make_ahead(self) -> None:
        """What the next event would make of the open block."""
        block = self._open
        if block is not None:
            block.made = self._make(block)

    def end_where_it_broke(self) -> None:
        """Keep what was said so far; an incomplete call is dropped, and so are thoughts without their signature."""
        block, self._open = self._open, None
        if block is not None and block.start.get("type") == "text" and block.index is not None:
            self._keep(block.made or self._make(block))
        self.call_cut = block is not None and block.start.get("type") == "tool_use"

    @property
    def is_long(self) -> bool:
        return self._chars >= LONG_CHARS

    @property
    def text(self) -> str:
        return "".join(block["text"] for block in self.content if block["type"] == "text")

    # One event each.

    def _begin(self, message: dict[str, Any]) -> None:
        self.started = True
        self.model = _text(message.get("model"))
        self._count(message.get("usage") or {})

    def _finish(self, event: RawEvent) -> None:
        self.stop_reason = _text((event.get("delta") or {}).get("stop_reason")) or self.stop_reason
        self._count(event.get("usage") or {})

    def _check_number(self, number: Any) -> None:
        """What is said of one block never becomes a part of another: a call would be run that nobody made."""
        block = self._open
        if block is not None and None not in (number, block.number) and number != block.number:
            raise ValueError(f"it speaks of block {str(number)[:20]}, and block {str(block.number)[:20]} is open")

    def _open_block(self, start: dict[str, Any], number: Any) -> Iterator[Step]:
        _refuse_unreadable(start)
        if self._open is not None:
            if self._open.start.get("type") not in {None, "", "text"}:
                raise ValueError("a block begins in the middle of another")
            self.end_where_it_broke()
        if len(self.content) == MAX_BLOCKS:
            raise ModelFailure("garbage", f"The model wrote more than {MAX_BLOCKS} blocks in one message.")
        block = self._open = _Open(start, number)
        if start.get("type") == "text":
            yield from self._more_text(block, str(start.get("text") or ""))
        else:
            block.index = len(self.content)
            if start.get("type") == "thinking" and start.get("thinking"):
                yield from self._more(block, "thinking", start["thinking"])

    def _extend(self, delta: dict[str, Any]) -> Iterator[Step]:
        block = self._open
        if block is None:
            return
        match delta.get("type"):
            case "text_delta":
                yield from self._more_text(block, str(delta.get("text") or ""))
            case "thinking_delta":
                yield from self._more(block, "thinking", str(delta.get("thinking") or ""))
            case "input_json_delta":
                yield from self._more(block, "tool_input", str(delta.get("partial_json") or ""))
            case "signature_delta":
                block.signature.append(str(delta.get("signature") or ""))
                self._add_beside(block, len(block.signature[-1]))
            case "citations_delta":
                _refuse_deep(delta)
                block.extras.setdefault("citations", []).append(delta.get("citation"))
                self._add_beside(block, _CITATION_CHARS + chars_of(delta, MAX_MESSAGE_CHARS))
            case _:
                pass

    def _close_block(self) -> Iterator[Step]:
        block, self._open = self._open, None
        if block is None or block.index is None:
            return
        made = block.made or self._make(block)
        self._keep(made)
        if made is not None and made.use is not None:
            yield made.use

    def _keep(self, made: _Made | None) -> None:
        if made is not None:
            self.content.append(made.content)
            self.encoded.append(made.encoded)

    def _make(self, block: _Open) -> _Made | None:
        match block.start.get("type"):
            case "text":
                return _made({"type": "text", "text": "".join(block.parts), **block.extras})
            case "thinking":
                return _made({"type": "thinking", "thinking": "".join(block.parts), **_signed(block)})
            case "tool_use":
                return self._make_tool_use(block)
            case str(kind) if kind:
                return _made(_other_block(block))
            case _:
                return None  # no kind at all: nothing that the API would take back

    # Blocks.

    def _more_text(self, block: _Open, text: str) -> Iterator[Step]:
        if block.index is None:
            if not text.strip():
                self._hold(block, text)
                return
            block.index = len(self.content)
            text = "".join((*block.held, text))
            self._chars -= block.held_chars  # counted below, with the rest
        yield from self._more(block, "text", text)

    def _hold(self, block: _Open, text: str) -> None:
        self._add_chars(len(text))
        if block.held_chars + len(text) <= _MAX_HELD:  # what is more than that says no more
            block.held.append(text)
            block.held_chars += len(text)

    def _more(self, block: _Open, kind: DeltaKind, text: str) -> Iterator[Step]:
        if not text or block.index is None:
            return
        self._add_chars(len(text))
        offset, block.offset = block.offset, block.offset + len(text)
        block.parts.append(text)
        yield Delta(block.index, kind, offset, text)

    def _add_beside(self, block: _Open, count: int) -> None:
        block.beside += count
        self._add_chars(count)

    def _add_chars(self, count: int) -> None:
        self._chars += count
        if self._chars > MAX_MESSAGE_CHARS:
            raise ModelFailure("garbage", f"The model wrote more than {MAX_MESSAGE_CHARS:,} characters in one message.")

    def _make_tool_use(self, block: _Open) -> _Made:
        raw = "".join(block.parts)
        given, over_limit = parsed(raw) if raw.strip() else (block.start.get("input") or {}, None)
        name = str(block.start.get("name") or "")
        call_input: dict[str, Any] = given if isinstance(given, dict) else {}
        use = ToolUse(
            index=len(self.content),
            id=self._unique_id(str(block.start.get("id") or "toolu")),
            name=name,
            input=call_input,
            unusable=None if isinstance(given, dict) else unusable(raw, over_limit),
        )
        # The API refuses a history with a name that no tool could have.
        shown = _NOT_IN_NAMES.sub("_", name[:128]) or "unnamed"
        return _made({"type": "tool_use", "id": use.id, "name": shown, "input": call_input}, use)

    def _unique_id(self, wanted: str) -> str:
        wanted = _NOT_IN_NAMES.sub("_", wanted[:200])
        found, number = wanted, 2
        while found in self._own_ids or found in self._used_ids:
            found, number = f"{wanted}_{number}", number + 1
        self._own_ids.add(found)
        return found

    def _count(self, usage: dict[str, Any]) -> None:
        """The API counts up: a later number stands in the place of an earlier one."""
        # Only kept: the first words come right behind the first of these.
        self._counted.update((name, count) for name, count in usage.items() if _is_count(count))

    @property
    def usage(self) -> Usage:
        return Usage(
            input_tokens=self._counted.get("input_tokens", 0),
            output_tokens=self._counted.get("output_tokens", 0),
            cache_read_tokens=self._counted.get("cache_read_input_tokens", 0),
            cache_write_tokens=self._counted.get("cache_creation_input_tokens", 0),
        )


def _made(content: dict[str, Any], use: ToolUse | None = None) -> _Made:
    return _Made(content, dumped(content), use)


def _other_block(block: _Open) -> dict[str, Any]:
    """A block of a kind that is the API's own business: kept as it came."""
    given = {"input": parsed("".join(block.parts))[0]} if block.parts else {}
    return {**block.start, **given, **block.extras, **_signed(block)}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value <= _MAX_TOKENS


def _refuse_unreadable(start: dict[str, Any]) -> None:
    """A block that could not be read again, or not be sent back, would take its whole session with it."""
    kind = start.get("type")
    if kind in _ONLY_IN_INPUT:
        raise ValueError(f"an answer cannot hold a block of type {kind!r}")
    for name in ("signature", "data") if kind in {"thinking", "redacted_thinking"} else ():
        if not isinstance(start.get(name) or "", str):
            raise ValueError(f"{name!r} of a block of type {kind!r} is no text")
    _refuse_deep(start)


def _refuse_deep(value: dict[str, Any]) -> None:
    if not _is_shallow(value):
        raise ValueError(f"it is nested deeper than {MAX_DEPTH}")


def _signed(block: _Open) -> dict[str, Any]:
    signature = "".join(block.signature) or block.start.get("signature")
    return {"signature": signature} if signature else {}


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            each
            for one in level
            if isinstance(one, dict | list)
            for each in (one.values() if isinstance(one, dict) else one)
            if isinstance(each, dict | list)
        ]
        if not level:
            return True
    return False


def _failure(error: dict[str, Any]) -> ModelFailure:
    kind: Any = {"overloaded_error": "overloaded", "rate_limit_error": "rate_limited"}.get(
        str(error.get("type")), "server"
    )
    return ModelFailure(
        kind, str(error.get("message") or "The provider reported an error in the middle of its answer.")
    )
