"""The rehearsal's summary of a conversation: what was asked for, and which tools were called how often."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from ostler.server.prompt.reminders import SUMMARY_WANTED, is_ours

_MAX_REQUESTS: Final = 20
_REQUEST_CHARS: Final = 300


def is_summary_wanted(messages: Sequence[bytes]) -> bool:
    """Whether the last message asks for a summary in place of going on."""
    return bool(messages) and SUMMARY_WANTED.encode() in messages[-1]


def summarize_history(messages: Sequence[bytes]) -> str:
    blocks = list(_list_blocks(messages))
    requests = [" ".join(block["text"].split())[:_REQUEST_CHARS] for role, block in blocks if _is_request(role, block)]
    calls = Counter(block["name"] for _, block in blocks if block["type"] == "tool_use")
    made = ", ".join(f"{name} {count} times" for name, count in calls.most_common())
    lines = [f"- {request}" for request in requests[-_MAX_REQUESTS:]] or ["- nothing"]
    return "\n".join(["The person asked for:", *lines, f"Calls: {made or 'none'}."])


def _list_blocks(messages: Sequence[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    for message in orjson.loads(b"".join((b"[", b",".join(messages), b"]"))):
        for block in message["content"]:
            yield message["role"], block


def _is_request(role: str, block: dict[str, Any]) -> bool:
    return role == "user" and block["type"] == "text" and not is_ours(block["text"])
