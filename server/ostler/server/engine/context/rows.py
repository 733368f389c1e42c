"""The messages of a history as they are stored, decoded for a look at what they take of the window."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from ostler.tools.token_estimate import estimate_tokens


@dataclass(frozen=True, slots=True)
class Row:
    """One message as the API has it; the position is that of the first stored one in it."""

    position: int
    role: str
    blocks: Sequence[Mapping[str, Any]]
    tokens: int
    """An estimate."""

    @property
    def has_results(self) -> bool:
        return any(block["type"] == "tool_result" for block in self.blocks)


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A tool_result, with the tool_use that it answers."""

    at: int
    """The index of its row."""
    use: Mapping[str, Any]
    block: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.use["id"])

    @property
    def text(self) -> str:
        content = self.block["content"]
        if isinstance(content, str):
            return content
        return "".join(block["text"] for block in content if block["type"] == "text")


def decode_rows(contents: Iterable[tuple[int, str, bytes]]) -> list[Row]:
    """Of positions, roles and contents; blocks for a moment, where they are many."""
    return [
        Row(position, role, orjson.loads(content), estimate_tokens(content))
        for position, role, content in contents
        if content != b"[]"
    ]


def group_places(places: Iterable[tuple[int, str]]) -> list[int]:
    """The first position of each message as the API has them: neighbours of one role are one message."""
    found: list[int] = []
    before = ""
    for position, role in places:
        if role != before:
            found.append(position)
        before = role
    return found


def list_results(rows: Sequence[Row]) -> Iterator[StoredResult]:
    """All results, in their order."""
    uses: dict[str, Mapping[str, Any]] = {}
    for at, row in enumerate(rows):
        for block in row.blocks:
            if block["type"] == "tool_use":
                uses[block["id"]] = block
            elif block["type"] == "tool_result" and (use := uses.pop(block["tool_use_id"], None)) is not None:
                yield StoredResult(at, use, block)


def sum_tokens(rows: Iterable[Row]) -> int:
    return sum(row.tokens for row in rows)
