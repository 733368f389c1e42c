"""Results that repeat an earlier one letter for letter: the model gets one line that says where it stands already."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

MIN_CHARS: Final = 2_000
"""A shorter result is given again: the line would save little."""
_MARK: Final = "<same-result "

Block = Mapping[str, Any]


@dataclass(slots=True)
class ResultIndex:
    """The long results that stand in a conversation, found again by tool, input and text."""

    _places: dict[bytes, str] = field(default_factory=dict)
    """The tool_use id of each, by the digest of all that has to be equal."""

    @classmethod
    def of(cls, messages: Iterable[Mapping[str, Any]]) -> "ResultIndex":
        """That of a whole conversation, as the model is sent it."""
        index, uses = cls(), dict[str, Block]()
        for message in messages:
            for block in message["content"]:
                if block["type"] == "tool_use":
                    uses[block["id"]] = block
                elif block["type"] == "tool_result" and (use := uses.pop(block["tool_use_id"], None)) is not None:
                    index.find_repeat(use["name"], use["input"], block)
        return index

    def find_repeat(self, tool: str, given: Mapping[str, Any], result: Block) -> str | None:
        """The line for a tool_result that repeats an earlier one; None for a new one, which is known from now on."""
        content = result["content"]
        if not may_repeat(content):
            return None
        digest = _digest(tool, given, content, is_error=bool(result.get("is_error")))
        earlier = self._places.setdefault(digest, result["tool_use_id"])
        return None if earlier == result["tool_use_id"] else describe_repeat(tool, earlier)


def may_repeat(content: Any) -> bool:
    """Whether a result is long enough, and nothing but text."""
    if isinstance(content, str):
        return len(content) >= MIN_CHARS
    if not all(block["type"] == "text" for block in content):
        return False
    return sum(len(block["text"]) for block in content) >= MIN_CHARS


def describe_repeat(tool: str, earlier: str) -> str:
    """The line that stands in the place of a repeated result."""
    return (
        f'{_MARK}as="{earlier}"> {tool} gave, letter for letter, what it gave for the same input in call {earlier}: '
        "read it there, it still holds."
    )


def find_repeated(text: str) -> str | None:
    """The tool_use id that such a line refers to; None for every other text."""
    if not text.startswith(_MARK):
        return None
    return text.removeprefix(f'{_MARK}as="').partition('"')[0]


def _digest(tool: str, given: Mapping[str, Any], content: Any, *, is_error: bool) -> bytes:
    text = content if isinstance(content, str) else "".join(block["text"] for block in content)
    head = orjson.dumps([tool, given, is_error], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(b"%d:%b%b" % (len(head), head, text.encode("utf-8", "surrogatepass"))).digest()
