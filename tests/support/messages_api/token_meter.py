"""Counts tokens as the real API does: with a window that is too small for some requests, and a cache with its rules.

A prefix is found in the cache where an earlier request of the same model had a breakpoint at its end, and a breakpoint
of this request stands there or at most twenty blocks behind it. Four bytes are a token; the true number does not matter
here.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from tests.support.messages_api.behaviors import Act, Reply, Send, Start, Usage
from tests.support.messages_api.failures import too_long

_LOOK_BACK: Final = 20
_LEAST_CACHED: Final = 1_024
_IMAGE_TOKENS: Final = 1_600
_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class CountedRequest:
    """The tokens of one request."""

    conversation: str
    read: int
    written: int
    other: int
    rejected: bool

    @property
    def total(self) -> int:
        return self.read + self.written + self.other


@dataclass
class TokenMeter:
    """Counts every request, and refuses those that do not fit the window."""

    window: int = 200_000
    counted: list[CountedRequest] = field(default_factory=list)
    _cached: set[tuple[str, str]] = field(default_factory=set)
    """The ends of prefixes, by model and digest."""

    def answer(self, conversation: str, body: Mapping[str, Any], reply: Reply) -> Reply:
        """The reply with its tokens counted, or a refusal."""
        found = self.count(conversation, body)
        if found.rejected:
            return too_long(found.total, self.window)
        written = sum(len(act.data) for act in reply.acts if isinstance(act, Send)) // 20
        usage = Usage(found.other, max(1, written), found.read, found.written)
        return replace(reply, acts=tuple(_set_usage(act, usage) for act in reply.acts))

    def count(self, conversation: str, body: Mapping[str, Any]) -> CountedRequest:
        """Count a request, and remember what it puts into the cache."""
        digest, sizes, ends = hashlib.sha256(), list[int](), list[str]()
        breakpoints: list[int] = []
        for at, (place, block) in enumerate(_list_blocks(body)):
            bare = {name: value for name, value in block.items() if name != "cache_control"}
            digest.update(place.encode() + orjson.dumps(bare))
            sizes.append((sizes[-1] if sizes else 0) + _count_block(bare))
            ends.append(digest.hexdigest())
            if "cache_control" in block:
                breakpoints.append(at)
        model, total = str(body["model"]), sizes[-1] if sizes else 0
        read = max((sizes[at] for at in self._find_cached(model, ends, breakpoints)), default=0)
        stored = [at for at in breakpoints if sizes[at] >= _LEAST_CACHED]
        last = sizes[stored[-1]] if stored else 0
        rejected = total + int(body["max_tokens"]) > self.window
        if not rejected:
            self._cached |= {(model, ends[at]) for at in stored}
        written = max(0, last - read)
        found = CountedRequest(conversation, read, written, total - read - written, rejected)
        self.counted.append(found)
        return found

    def _find_cached(self, model: str, ends: list[str], breakpoints: list[int]) -> Iterator[int]:
        for at in breakpoints:
            for before in range(at, max(-1, at - _LOOK_BACK - 1), -1):
                if (model, ends[before]) in self._cached:
                    yield before
                    break

    @property
    def rejected(self) -> list[CountedRequest]:
        return [one for one in self.counted if one.rejected]


def _list_blocks(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for tool in body.get("tools", []):
        yield "tool", tool
    system = body.get("system", [])
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield "system", block
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield message["role"], block


def _count_block(block: Mapping[str, Any]) -> int:
    inner = block.get("content")
    if isinstance(inner, list):
        return sum(map(_count_block, inner)) + 10
    return _IMAGE_TOKENS if block.get("type") == "image" else len(orjson.dumps(block)) // _BYTES


def _set_usage(act: Act, usage: Usage) -> Act:
    if isinstance(act, Start):
        return Start(usage)
    if not isinstance(act, Send) or b'"type":"message_delta"' not in act.data:
        return act
    head, _, data = act.data.partition(b"data: ")
    event = {**orjson.loads(data), "usage": {"output_tokens": usage.output_tokens}}
    return Send(head + b"data: " + orjson.dumps(event) + b"\n\n")
