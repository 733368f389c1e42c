"""Assembles the raw events of a provider's stream into the blocks of a message.

Tool input is parsed here and nowhere else: JSON that is not complete, not an object, or more than could be read while
others wait, never becomes a call that runs.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ostler.protocol.extent import count_chars
from ostler.protocol.limits import MAX_DEPTH
from ostler.protocol.patterns import compile_later
from ostler.protocol.shapes import Usage
from ostler.server.models.provider import ModelFailure, RawEvent
from ostler.server.models.tool_input_json import describe_unusable, parse_tool_input
from ostler.storage.sqlite.long_json import LONG_CHARS, encode_plain, is_long

MAX_MESSAGE_CHARS: Final = 16 * 1024 * 1024
"""A model that never stops is stopped here: no real message is a tenth as long."""

MAX_BLOCKS: Final = 500
"""More than anybody asks for at once; each may be a call, which waits for those before it."""

_MAX_HELD: Final = 64 * 1024
_CITATION_CHARS: Final = 64
"""Characters that a citation counts for beside its own length."""
_MAX_TOKENS: Final = 10**12
"""A larger token count is ignored: the sums of many have to fit into the database."""
_ONLY_IN_INPUT: Final = frozenset({"image", "document", "tool_result"})

_NOT_IN_NAMES: Final = compile_later(r"[^a-zA-Z0-9_-]")

DeltaKind = Literal["text", "thinking", "tool_input"]


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of text, for clients that watch the message grow."""

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
    input_error: str | None = None
    """Why nothing can be run of it, for the model: what was written is no object, or more than is parsed."""


StreamItem = Delta | ToolUse


@dataclass(frozen=True, slots=True)
class _CompleteBlock:
    """A block that is complete."""

    content: dict[str, Any]
    encoded: bytes
    tool_use: ToolUse | None = None


@dataclass(slots=True)
class _OpenBlock:
    """The block that is being streamed."""

    start: dict[str, Any]
    provider_index: Any = None
    """The provider's own index of the block."""
    index: int | None = None
    """Its place in the message; given when there is something in it."""
    parts: list[str] = field(default_factory=list)
    offset: int = 0
    held: list[str] = field(default_factory=list)
    """Blanks at the start of a text: the API takes no text that has nothing else."""
    held_chars: int = 0
    signature: list[str] = field(default_factory=list)
    extras: dict[str, Any] = field(default_factory=dict)
    extra_chars: int = 0
    """Characters that are no text: signatures and citations."""
    completed: _CompleteBlock | None = None
    """The complete block, where it was built ahead (see `complete_ahead`)."""

    @property
    def is_long(self) -> bool:
        return self.offset + self.extra_chars >= LONG_CHARS or (not self.parts and is_long(self.start))


class MessageAssembler:
    """Assembles one message from the events of its stream."""

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
        self._token_counts: dict[str, int] = {}
        self._server_tools: Any = None
        """What the API says of the tools that it ran itself."""
        self._used_ids = used_ids
        self._own_ids: set[str] = set()
        self._open: _OpenBlock | None = None
        self._chars = 0

    def feed(self, event: RawEvent) -> Iterator[StreamItem]:
        """Takes one event; yields what it brings: pieces of text, and calls that are complete."""
        match event.get("type"):
            case "message_start":
                self._begin(event.get("message") or {})
            case "content_block_start":
                yield from self._open_block(event.get("content_block") or {}, event.get("index"))
            case "content_block_delta":
                self._check_block_index(event.get("index"))
                yield from self._extend(event.get("delta") or {})
            case "content_block_stop":
                self._check_block_index(event.get("index"))
                yield from self._close_block()
            case "message_delta":
                self._finish(event)
            case "message_stop":
                self.finish_incomplete()  # a block that was never closed
                self.stopped = True
            case "error":
                raise _build_failure(event.get("error") or {})
            case _:
                pass  # a ping, or a kind that does not exist yet

    def completes_long_block(self, event: RawEvent | None = None) -> bool:
        """Whether an event, or the end of the stream, completes a block so long that it is better built ahead."""
        block = self._open
        if block is None or block.index is None:
            return False
        closes = event is not None and event.get("type") == "content_block_stop"
        breaks = event is None or event.get("type") == "message_stop"
        return (closes or (breaks and block.start.get("type") == "text")) and block.is_long

    def complete_ahead(self) -> None:
        """Builds the complete block before the event that closes it comes; for a thread, where the block is long."""
        block = self._open
        if block is not None:
            block.completed = self._build_block(block)

    def finish_incomplete(self) -> None:
        """Ends a message that broke off: keeps its text; drops an incomplete call, and thoughts without signature."""
        block, self._open = self._open, None
        if block is not None and block.start.get("type") == "text" and block.index is not None:
            self._append_block(block.completed or self._build_block(block))
        self.call_cut = block is not None and block.start.get("type") == "tool_use"

    @property
    def is_long(self) -> bool:
        return self._chars >= LONG_CHARS

    @property
    def text(self) -> str:
        return "".join(block["text"] for block in self.content if block["type"] == "text")

    # One method for each kind of event.

    def _begin(self, message: dict[str, Any]) -> None:
        self.started = True
        self.model = _as_text(message.get("model"))
        self._record_usage(message.get("usage") or {})

    def _finish(self, event: RawEvent) -> None:
        self.stop_reason = _as_text((event.get("delta") or {}).get("stop_reason")) or self.stop_reason
        self._record_usage(event.get("usage") or {})

    def _check_block_index(self, number: Any) -> None:
        """Raises where an event names another block than the open one: mixed up, a call would run that nobody made."""
        block = self._open
        if block is not None and None not in (number, block.provider_index) and number != block.provider_index:
            raise ValueError(
                f"it speaks of block {str(number)[:20]}, and block {str(block.provider_index)[:20]} is open"
            )

    def _open_block(self, start: dict[str, Any], number: Any) -> Iterator[StreamItem]:
        _refuse_unreadable(start)
        if self._open is not None:
            if self._open.start.get("type") not in {None, "", "text"}:
                raise ValueError("a block begins in the middle of another")
            self.finish_incomplete()
        if len(self.content) == MAX_BLOCKS:
            raise ModelFailure("garbage", f"The model wrote more than {MAX_BLOCKS} blocks in one message.")
        block = self._open = _OpenBlock(start, number)
        if start.get("type") == "text":
            yield from self._append_text(block, str(start.get("text") or ""))
        else:
            block.index = len(self.content)
            if start.get("type") == "thinking" and start.get("thinking"):
                yield from self._append_delta(block, "thinking", start["thinking"])

    def _extend(self, delta: dict[str, Any]) -> Iterator[StreamItem]:
        block = self._open
        if block is None:
            return
        match delta.get("type"):
            case "text_delta":
                yield from self._append_text(block, str(delta.get("text") or ""))
            case "thinking_delta":
                yield from self._append_delta(block, "thinking", str(delta.get("thinking") or ""))
            case "input_json_delta":
                yield from self._append_delta(block, "tool_input", str(delta.get("partial_json") or ""))
            case "signature_delta":
                block.signature.append(str(delta.get("signature") or ""))
                self._add_extra_chars(block, len(block.signature[-1]))
            case "citations_delta":
                _refuse_deep(delta)
                block.extras.setdefault("citations", []).append(delta.get("citation"))
                self._add_extra_chars(block, _CITATION_CHARS + count_chars(delta, MAX_MESSAGE_CHARS))
            case _:
                pass

    def _close_block(self) -> Iterator[StreamItem]:
        block, self._open = self._open, None
        if block is None or block.index is None:
            return
        completed = block.completed or self._build_block(block)
        self._append_block(completed)
        if completed is not None and completed.tool_use is not None:
            yield completed.tool_use

    def _append_block(self, completed: _CompleteBlock | None) -> None:
        if completed is not None:
            self.content.append(completed.content)
            self.encoded.append(completed.encoded)

    def _build_block(self, block: _OpenBlock) -> _CompleteBlock | None:
        match block.start.get("type"):
            case "text":
                return _encode_block({"type": "text", "text": "".join(block.parts), **block.extras})
            case "thinking":
                return _encode_block({"type": "thinking", "thinking": "".join(block.parts), **_build_signature(block)})
            case "tool_use":
                return self._build_tool_use(block)
            case str(kind) if kind:
                return _encode_block(_build_opaque_block(block))
            case _:
                return None  # no kind at all: nothing that the API would take back

    # Blocks.

    def _append_text(self, block: _OpenBlock, text: str) -> Iterator[StreamItem]:
        if block.index is None:
            if not text.strip():
                self._hold_blanks(block, text)
                return
            block.index = len(self.content)
            text = "".join((*block.held, text))
            self._chars -= block.held_chars  # counted below, with the rest
        yield from self._append_delta(block, "text", text)

    def _hold_blanks(self, block: _OpenBlock, text: str) -> None:
        self._add_chars(len(text))
        if block.held_chars + len(text) <= _MAX_HELD:  # more blanks than that are dropped
            block.held.append(text)
            block.held_chars += len(text)

    def _append_delta(self, block: _OpenBlock, kind: DeltaKind, text: str) -> Iterator[StreamItem]:
        if not text or block.index is None:
            return
        self._add_chars(len(text))
        offset, block.offset = block.offset, block.offset + len(text)
        block.parts.append(text)
        yield Delta(block.index, kind, offset, text)

    def _add_extra_chars(self, block: _OpenBlock, count: int) -> None:
        block.extra_chars += count
        self._add_chars(count)

    def _add_chars(self, count: int) -> None:
        self._chars += count
        if self._chars > MAX_MESSAGE_CHARS:
            raise ModelFailure("garbage", f"The model wrote more than {MAX_MESSAGE_CHARS:,} characters in one message.")

    def _build_tool_use(self, block: _OpenBlock) -> _CompleteBlock:
        raw = "".join(block.parts)
        parsed_input, over_limit = parse_tool_input(raw) if raw.strip() else (block.start.get("input") or {}, None)
        name = str(block.start.get("name") or "")
        call_input: dict[str, Any] = parsed_input if isinstance(parsed_input, dict) else {}
        use = ToolUse(
            index=len(self.content),
            id=self._make_unique_id(str(block.start.get("id") or "toolu")),
            name=name,
            input=call_input,
            input_error=None if isinstance(parsed_input, dict) else describe_unusable(raw, over_limit),
        )
        # The API refuses a history with a name that no tool could have.
        shown = _NOT_IN_NAMES.sub("_", name[:128]) or "unnamed"
        return _encode_block({"type": "tool_use", "id": use.id, "name": shown, "input": call_input}, use)

    def _make_unique_id(self, wanted: str) -> str:
        wanted = _NOT_IN_NAMES.sub("_", wanted[:200])
        found, number = wanted, 2
        while found in self._own_ids or found in self._used_ids:
            found, number = f"{wanted}_{number}", number + 1
        self._own_ids.add(found)
        return found

    def _record_usage(self, usage: dict[str, Any]) -> None:
        """The API sends running totals: a later number replaces an earlier one."""
        # Only stored here, and read later: the first text comes right after the first of these, and must not wait.
        self._token_counts.update((name, count) for name, count in usage.items() if _is_count(count))
        if "server_tool_use" in usage:
            self._server_tools = usage["server_tool_use"]

    @property
    def searches(self) -> int:
        """How often the API has searched the web for this message."""
        found = self._server_tools.get("web_search_requests") if isinstance(self._server_tools, dict) else None
        return found if isinstance(found, int) and _is_count(found) else 0

    @property
    def usage(self) -> Usage:
        return Usage(
            input_tokens=self._token_counts.get("input_tokens", 0),
            output_tokens=self._token_counts.get("output_tokens", 0),
            cache_read_tokens=self._token_counts.get("cache_read_input_tokens", 0),
            cache_write_tokens=self._token_counts.get("cache_creation_input_tokens", 0),
        )


def _encode_block(content: dict[str, Any], use: ToolUse | None = None) -> _CompleteBlock:
    return _CompleteBlock(content, encode_plain(content), use)


def _build_opaque_block(block: _OpenBlock) -> dict[str, Any]:
    """A block of a kind that only the API understands: kept as it came."""
    extra_input = {"input": parse_tool_input("".join(block.parts))[0]} if block.parts else {}
    return {**block.start, **extra_input, **block.extras, **_build_signature(block)}


def _as_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value <= _MAX_TOKENS


def _refuse_unreadable(start: dict[str, Any]) -> None:
    """Raises for a block that could not be stored or sent back: it would make its whole session unusable."""
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


def _build_signature(block: _OpenBlock) -> dict[str, Any]:
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


def _build_failure(error: dict[str, Any]) -> ModelFailure:
    kind: Any = {"overloaded_error": "overloaded", "rate_limit_error": "rate_limited"}.get(
        str(error.get("type")), "server"
    )
    return ModelFailure(
        kind, str(error.get("message") or "The provider reported an error in the middle of its answer.")
    )
