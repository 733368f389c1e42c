"""What the turn engine asks of a provider: one request, and the Messages API's raw events in return."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import orjson

_LONG_BYTES: Final = 1024 * 1024
RawEvent = dict[str, Any]
"""An event of the Messages API's stream as it came: `message_start`, `content_block_delta`…"""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. The long parts are encoded already: a long history is joined, never encoded again."""

    model: str
    max_tokens: int
    system: bytes
    """The JSON of `system`: a list of text blocks."""
    tools: bytes
    """The JSON of `tools`: a list, which may be empty."""
    messages: Sequence[bytes]
    """The JSON of the messages, in pieces of one or several with commas between."""
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the body: `thinking`, `tool_choice`…"""
    stream: bool = True
    """Whether the answer is wanted in pieces, as it is written."""
    betas: Sequence[str] = ()
    """Names of what the request needs of the API beyond its common part."""
    stored: Callable[[], Awaitable[None]] | None = None
    """Waits until the disk has all of it: nothing leaves before, but everything can be made ready."""

    @property
    def prefix_tokens(self) -> int:
        """An estimate of what stands before the messages, at four bytes a token."""
        return (len(self.system) + len(self.tools)) // 4

    @property
    def is_long(self) -> bool:
        """What comes after its first part is so long that it is better put together on a thread."""
        return sum(map(len, self.messages[1:])) > _LONG_BYTES

    def encode_body(self) -> bytes:
        """The whole request as the Messages API takes it."""
        return b"".join(self.encode_parts())

    def encode_parts(self) -> list[bytes]:
        """The same in parts: the longest is most of a long history, which is not copied."""
        head = orjson.dumps({"model": self.model, "max_tokens": self.max_tokens, "stream": self.stream, **self.extras})
        tools = b',"tools":' + self.tools if self.tools != b"[]" else b""
        opening = b"".join((head[:-1], b',"system":', self.system, tools, b',"messages":['))
        first, *rest = self.messages
        return [opening, first, b"".join((*(part for each in rest for part in (b",", each)), b"]}"))]


FailureKind = Literal[
    "rate_limited",  # 429
    "overloaded",  # 529
    "server",  # 5xx, and `error` events in the middle of a stream
    "timeout",  # no connection, or silence
    "connection",  # refused, reset, cut before `message_stop`
    "garbage",  # an answer that is not the Messages API's
    "too_long",  # the conversation does not fit the model's window
    "access",  # 401, 403
    "extras",  # 400 because of tool extras
    "unknown_model",  # 404: the provider has no model of this name
    "bad_request",  # any other 4xx
    "missing",  # the provider cannot be used here: no key, no SDK
]
RETRYABLE: frozenset[FailureKind] = frozenset(
    {"rate_limited", "overloaded", "server", "timeout", "connection", "garbage"}
)


class ModelFailure(Exception):
    """A request that failed, with all that the provider said about it."""

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.message = message
        """For people: what went wrong, with which address, key or model, and what to do about it."""
        self.status = status
        self.request_id = request_id
        self.retry_after_ms = retry_after_ms

    def count_retries(self, most: int) -> int:
        """How often it is tried again, where the settings say how often at most."""
        if self.kind not in RETRYABLE:
            return 0
        # An HTML page or an endless answer is no sign of overload: the next answer would be the same.
        return min(most, 1) if self.kind == "garbage" else most


class Provider(Protocol):
    """Where model answers come from."""

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[RawEvent]]:
        """Send the request; entering returns when the provider has accepted it, and the iterator gives its events.

        An answer that comes whole, asked for or not, is given as the same events.
        Before anything leaves, it waits for `request.stored`, and raises what that raises.
        Everything that goes wrong, on entering or in the middle, is a ModelFailure. A stream that ends without
        `message_stop` is for the caller to notice. Leaving ends the request at once.
        """
        ...

    def takes_extras(self, model: str) -> bool:
        """Whether tools may say more than their schemas: `strict`, `input_examples`."""
        ...

    def forgo_extras(self, model: str) -> None:
        """The provider has refused the extras: from now on `takes_extras` is False for this model."""
        ...

    def compacts(self, model: str) -> bool:
        """Whether the provider summarises a conversation itself, where a request asks for it."""
        ...

    def searches(self, model: str) -> bool:
        """Whether the provider is known to search the web itself, where a request has its tool for that."""
        ...

    def forgo_compaction(self, model: str) -> None:
        """The provider has refused to: from now on `compacts` is False for this model."""
        ...
