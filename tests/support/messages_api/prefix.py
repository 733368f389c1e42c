"""Whether a conversation only grows: what was sent once must be sent again, byte for byte."""

from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class PrefixChange:
    """A later request that says something else where an earlier one had spoken already."""

    request: int
    conversation: str
    place: str
    """`tools`, `system`, `model` or `messages.N`."""
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class _SentRequest:
    head: dict[str, bytes]
    messages: list[bytes]


class PrefixWatch:
    """Compares each request with the one before it in the same conversation."""

    def __init__(self) -> None:
        self._last: dict[str, _SentRequest] = {}

    def compare(self, conversation: str, number: int, body: dict[str, Any]) -> list[PrefixChange]:
        """What this request changed. The last message of the request before it may have become longer."""
        now = _serialize_request(body)
        before = self._last.get(conversation)
        self._last[conversation] = now
        if before is None:
            return []
        return [
            PrefixChange(number, conversation, place, old.decode(), new.decode())
            for place, old, new in _find_differences(before, now)
        ]


def _find_differences(before: _SentRequest, now: _SentRequest) -> list[tuple[str, bytes, bytes]]:
    found = [(place, old, now.head[place]) for place, old in before.head.items() if old != now.head[place]]
    last = len(before.messages) - 1
    for index, old in enumerate(before.messages):
        new = now.messages[index] if index < len(now.messages) else b""
        if old != new and not (index == last and _continues(old, new)):
            found.append((f"messages.{index}", old, new))
    return found


def _continues(old: bytes, new: bytes) -> bool:
    """The message without its last two brackets begins the new one."""
    return old.endswith(b"]}") and new.startswith(old[:-2])


def _serialize_request(body: dict[str, Any]) -> _SentRequest:
    head = {
        place: orjson.dumps(
            [_strip_cache_control(each) for each in _as_list(body.get(place)) if not _is_deferred(each)]
        )
        for place in ("tools", "system")
    }
    head["model"] = orjson.dumps(body.get("model"))
    return _SentRequest(head, [orjson.dumps(_strip_message(message)) for message in body["messages"]])


def _is_deferred(block: Any) -> bool:
    """Deferred tools are no part of the prompt: the API takes them up where the conversation refers to them."""
    return isinstance(block, dict) and block.get("defer_loading") is True


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _strip_message(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return message
    # Content last, so that a message that grew begins with the bytes that it had.
    rest = {key: value for key, value in message.items() if key != "content"}
    return {**rest, "content": [_strip_cache_control(block) for block in content]}


def _strip_cache_control(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    inner = bare.get("content")
    if bare.get("type") == "tool_result" and isinstance(inner, list):
        bare["content"] = [_strip_cache_control(each) for each in inner]
    return bare
