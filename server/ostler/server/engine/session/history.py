"""The history of a session as the model is sent it: encoded once, joined for each request, never changed later."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import orjson

from ostler.protocol.content import ContentBlock
from ostler.protocol.shapes import Call
from ostler.storage.repositories.messages import ApiMessage
from ostler.tools.formats.image_blocks import correct_images
from ostler.tools.token_estimate import estimate_tokens

_BREAKPOINT: Final = b',"cache_control":{"type":"ephemeral"}'
_CACHED_USER_MESSAGES: Final = 2
"""Of the four breakpoints that the API takes; the others are on the tools and on the system prompt."""
_MIN_JOIN_BYTES: Final = 64 * 1024
_LONG_BYTES: Final = 1024 * 1024


def dump_blocks(content: Iterable[ContentBlock]) -> list[dict[str, Any]]:
    """Blocks as the API takes them, in the order of fields in which they are stored."""
    return [block.model_dump(mode="json") for block in content]


def build_tool_result(call: Call) -> dict[str, Any]:
    """The result of a call, as the tool_result block for its tool_use."""
    return {
        "type": "tool_result",
        "tool_use_id": call.tool_use_id,
        "content": call.content or "",
        "is_error": call.is_error,
    }


def join_blocks(blocks: Iterable[bytes]) -> bytes:
    """The content array of these blocks, each of them JSON already."""
    parts = [part for block in blocks for part in (b",", block)]
    return b"".join((b"[", *parts[1:], b"]"))


def _cut_content(role: str, message: bytes) -> bytes:
    return message[len(b'{"role":"","content":') + len(role) : -1]


class History:
    """Messages in order; neighbours of one role are one message for the API, which wants them to alternate."""

    def __init__(self, stored: Sequence[ApiMessage] = ()) -> None:
        self._roles: list[str] = []
        self._settled = b""
        """The messages that will not change any more, joined: a long history is not joined again for each request."""
        self._settled_sizes: list[int] = []
        """Of each of them, so that they can be told apart again."""
        self._messages: list[bytes] = []
        """The messages after those."""
        self.tool_use_ids: set[str] = set()
        """All ids of tool_use blocks, since the model may repeat one and the API rejects duplicates."""
        self.tokens = 0
        """An estimate of what it takes of the window."""
        self.references: set[str] = set()
        """All tools that a `tool_reference` loads."""
        for message in stored:
            self.add_encoded(message.role, message.content)

    def __len__(self) -> int:
        return len(self._roles)

    @property
    def ends_with_assistant(self) -> bool:
        return bool(self._roles) and self._roles[-1] == "assistant"

    def list_unanswered(self) -> list[str]:
        """The tool_use ids of the last message: without results, where a fork ends in the middle of a turn."""
        if not self.ends_with_assistant or b'"tool_use"' not in self._messages[-1]:
            return []
        return [block["id"] for block in orjson.loads(self._messages[-1])["content"] if block["type"] == "tool_use"]

    def add(self, role: str, blocks: list[dict[str, Any]]) -> None:
        self.add_encoded(role, orjson.dumps(blocks))

    @property
    def is_long(self) -> bool:
        """Whether it is better joined on a thread."""
        return sum(map(len, self._messages)) > _LONG_BYTES

    def add_answer(self, blocks: Sequence[dict[str, Any]], encoded: Sequence[bytes], content: bytes) -> None:
        """Add a message of the model: as blocks, each as JSON, and all as JSON, so that nothing is encoded again."""
        kept = self._select_sendable(blocks)
        self._add("assistant", content if len(kept) == len(blocks) else join_blocks(encoded[at] for at in kept))

    def add_encoded(self, role: str, content: bytes) -> None:
        if role == "assistant" and (b'"tool_use"' in content or b'thinking"' in content):
            blocks = orjson.loads(content)
            kept = self._select_sendable(blocks)
            content = content if len(kept) == len(blocks) else orjson.dumps([blocks[at] for at in kept])
        if role == "user" and b'"image"' in content:
            # Stored by an earlier version as somebody called it: the API would refuse the session for ever.
            blocks = orjson.loads(content)
            corrected = correct_images(blocks)
            content = content if corrected == blocks else orjson.dumps(corrected)
        if role == "user" and b'"tool_reference"' in content:
            self.references.update(_find_references(orjson.loads(content)))
        self._add(role, content)

    def _add(self, role: str, content: bytes) -> None:
        if content == b"[]":
            return
        self.tokens += estimate_tokens(content)
        if self._roles and self._roles[-1] == role:
            self._messages[-1] = b"".join((memoryview(self._messages[-1])[:-2], b",", memoryview(content)[1:], b"}"))
        else:
            self._roles.append(role)
            self._messages.append(b"".join((b'{"role":"', role.encode(), b'","content":', content, b"}")))

    def list_contents(self) -> Iterator[tuple[str, bytes]]:
        """The role and the JSON of the content of each message."""
        at = 0
        for role, size in zip(self._roles, self._settled_sizes, strict=False):
            yield role, _cut_content(role, self._settled[at : at + size])
            at += size + 1
        for role, message in zip(self._roles[len(self._settled_sizes) :], self._messages, strict=True):
            yield role, _cut_content(role, message)

    def decode(self) -> list[dict[str, Any]]:
        """The messages as they are sent, decoded; for a thread, where they are many."""
        pieces = [self._settled, *self._messages] if self._settled else self._messages
        return list(orjson.loads(b"".join((b"[", b",".join(pieces), b"]"))))

    def undo_add(self, content: bytes) -> None:
        """Undo the last addition, which had this content."""
        whole = b'{"role":"user","content":' + content + b"}"
        self.tokens -= estimate_tokens(content)
        if self._messages and self._messages[-1] == whole:
            self._messages.pop()
            self._roles.pop()
        elif self._messages and self._messages[-1].endswith(b"," + content[1:] + b"}"):
            self._messages[-1] = self._messages[-1][: -len(content) - 1] + b"]}"

    def encode_pieces(self) -> list[bytes]:
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
            self._join_settled(marked[0])
        return pieces

    def _join_settled(self, count: int) -> None:
        """Join messages that will not change any more; not for a few bytes, so that each is copied a few times only."""
        settled = self._messages[:count]
        if sum(map(len, settled)) > max(_MIN_JOIN_BYTES, len(self._settled) // 16):
            self._settled = b",".join([self._settled, *settled] if self._settled else settled)
            self._settled_sizes += map(len, settled)
            del self._messages[:count]

    def _select_sendable(self, blocks: Sequence[dict[str, Any]]) -> list[int]:
        """The indexes of blocks that the API accepts: without thinking that is unsigned, or is last in the message."""
        self.tool_use_ids.update(block["id"] for block in blocks if block["type"] == "tool_use")
        kept = [at for at, block in enumerate(blocks) if block["type"] != "thinking" or block.get("signature")]
        # The message was cut while the model was thinking: the API wants other content after a thinking block.
        while kept and blocks[kept[-1]]["type"] in {"thinking", "redacted_thinking"}:
            kept.pop()
        return kept


def _find_references(blocks: Iterable[dict[str, Any]]) -> Iterator[str]:
    for block in blocks:
        if block["type"] == "tool_result" and isinstance(block.get("content"), list):
            yield from (each["tool_name"] for each in block["content"] if each.get("type") == "tool_reference")
