"""The conversation as the model is sent it: encoded once, joined for each request, never changed afterwards."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson

from ostler.protocol.content import ContentBlock
from ostler.protocol.shapes import Call
from ostler.storage.repositories.messages import ApiMessage

_BREAKPOINT: Final = b',"cache_control":{"type":"ephemeral"}'
_CACHED_USER_MESSAGES: Final = 2
"""Of the four breakpoints that the API takes; the others are on the tools and on the system prompt."""
_WORTH_JOINING: Final = 64 * 1024
_LONG_BYTES: Final = 1024 * 1024


def plain(content: Iterable[ContentBlock]) -> list[dict[str, Any]]:
    """Blocks as the API takes them, in the order of fields in which they are stored."""
    return [block.model_dump(mode="json") for block in content]


def tool_result(call: Call) -> dict[str, Any]:
    """What a call gave, as the answer to its tool_use."""
    return {
        "type": "tool_result",
        "tool_use_id": call.tool_use_id,
        "content": call.content or "",
        "is_error": call.is_error,
    }


def joined(blocks: Iterable[bytes]) -> bytes:
    """The content that these blocks are, each of them JSON already."""
    parts = [part for block in blocks for part in (b",", block)]
    return b"".join((b"[", *parts[1:], b"]"))


class History:
    """Messages in order; neighbours of one role are one message for the API, which wants them to alternate."""

    def __init__(self, stored: Sequence[ApiMessage] = ()) -> None:
        self._roles: list[str] = []
        self._settled = b""
        """What will not change any more, joined: a long conversation is not put together for each request."""
        self._messages: list[bytes] = []
        """Those after them."""
        self.tool_use_ids: set[str] = set()
        """All that the model has used, since it may repeat one and the API does not take it twice."""
        for message in stored:
            self.add_encoded(message.role, message.content)

    def __len__(self) -> int:
        return len(self._roles)

    @property
    def ends_with_assistant(self) -> bool:
        return bool(self._roles) and self._roles[-1] == "assistant"

    def unanswered(self) -> list[str]:
        """The calls of the last message: without a result, where a fork ends in the middle of a turn."""
        if not self.ends_with_assistant or b'"tool_use"' not in self._messages[-1]:
            return []
        return [block["id"] for block in orjson.loads(self._messages[-1])["content"] if block["type"] == "tool_use"]

    def add(self, role: str, blocks: list[dict[str, Any]]) -> None:
        self.add_encoded(role, orjson.dumps(blocks))

    @property
    def is_long(self) -> bool:
        """To put it together is better done on a thread."""
        return sum(map(len, self._messages)) > _LONG_BYTES

    def add_answer(self, blocks: Sequence[dict[str, Any]], encoded: Sequence[bytes], content: bytes) -> None:
        """What the model wrote: as blocks, each as JSON, and all together, so that nothing is read or written again."""
        kept = self._sendable(blocks)
        self._add("assistant", content if len(kept) == len(blocks) else joined(encoded[at] for at in kept))

    def add_encoded(self, role: str, content: bytes) -> None:
        if role == "assistant" and (b'"tool_use"' in content or b'thinking"' in content):
            blocks = orjson.loads(content)
            kept = self._sendable(blocks)
            content = content if len(kept) == len(blocks) else orjson.dumps([blocks[at] for at in kept])
        self._add(role, content)

    def _add(self, role: str, content: bytes) -> None:
        if content == b"[]":
            return
        if self._roles and self._roles[-1] == role:
            self._messages[-1] = b"".join((memoryview(self._messages[-1])[:-2], b",", memoryview(content)[1:], b"}"))
        else:
            self._roles.append(role)
            self._messages.append(b"".join((b'{"role":"', role.encode(), b'","content":', content, b"}")))

    def take_back(self, content: bytes) -> None:
        """Undo the last addition, which was this."""
        whole = b'{"role":"user","content":' + content + b"}"
        if self._messages and self._messages[-1] == whole:
            self._messages.pop()
            self._roles.pop()
        elif self._messages and self._messages[-1].endswith(b"," + content[1:] + b"}"):
            self._messages[-1] = self._messages[-1][: -len(content) - 1] + b"]}"

    def encoded(self) -> list[bytes]:
        """The messages as the API takes them, in pieces of one or several, to be joined by commas.

        The last two of the user's have a breakpoint for the cache.
        """
        roles = self._roles[len(self._roles) - len(self._messages) :]
        marked = [at for at, role in enumerate(roles) if role == "user"][-_CACHED_USER_MESSAGES:]
        pieces = list(self._messages)
        for at in marked:
            pieces[at] = b"".join((memoryview(pieces[at])[:-3], _BREAKPOINT, b"}]}"))
        if self._settled:
            pieces.insert(0, self._settled)
        if len(marked) == _CACHED_USER_MESSAGES:
            self._settle(marked[0])
        return pieces

    def _settle(self, count: int) -> None:
        """Join what will not change any more; not for a few bytes, so that each is copied a few times only."""
        settled = self._messages[:count]
        if sum(map(len, settled)) > max(_WORTH_JOINING, len(self._settled) // 16):
            self._settled = b",".join([self._settled, *settled] if self._settled else settled)
            del self._messages[:count]

    def _sendable(self, blocks: Sequence[dict[str, Any]]) -> list[int]:
        """Of what the model wrote, less thoughts that it did not sign or that led to nothing: the API refuses them."""
        self.tool_use_ids.update(block["id"] for block in blocks if block["type"] == "tool_use")
        kept = [at for at, block in enumerate(blocks) if block["type"] != "thinking" or block.get("signature")]
        # A message that was stopped while the model thought: the API wants something said after a thought.
        while kept and blocks[kept[-1]]["type"] in {"thinking", "redacted_thinking"}:
            kept.pop()
        return kept
