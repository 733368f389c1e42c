"""The request as the rehearsal model reads it: only what came since the last input matters to it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ostler.server.models.provider import ModelRequest
from ostler.server.models.rehearsal.actions import Means
from ostler.server.prompt.reminders import INTERRUPTED, is_ours

_FOLDER: Final = re.compile(r"^Working directory: (/.*)$", re.MULTILINE)
_ERROR_TAGS: Final = ("<tool_use_error>", "</tool_use_error>")


@dataclass(frozen=True, slots=True)
class Used:
    """A call of an earlier message."""

    id: str
    tool: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    used_id: str
    text: str
    is_error: bool
    refused: bool
    """The error is the daemon's own: the tool did not run to its end."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message: what was called, what came back, and what the person said."""

    used: list[Used] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


def means_of(request: ModelRequest) -> Means:
    """The tools and the folder that the request names."""
    chosen = request.extras.get("tool_choice")
    forbidden = isinstance(chosen, dict) and chosen.get("type") == "none"
    tools = frozenset() if forbidden else frozenset(tool["name"] for tool in orjson.loads(request.tools))
    return Means(tools, _folder(request))


def since_last_input(messages: Sequence[bytes]) -> list[Exchange]:
    """The last input and the messages after it."""
    tail: list[Exchange] = []
    for encoded in reversed(messages):
        exchange, starts = _exchange(orjson.loads(encoded), last=not tail)
        tail.append(exchange)
        if starts:
            break
    return tail[::-1]


def _exchange(message: dict[str, Any], *, last: bool) -> tuple[Exchange, bool]:
    exchange = Exchange()
    if message["role"] == "assistant":
        exchange.used.extend(
            Used(block["id"], block["name"], block["input"])
            for block in _blocks(message)
            if block["type"] == "tool_use"
        )
        return exchange, False
    cut = False
    for block in _blocks(message):
        if block["type"] == "tool_result":
            exchange.results.append(_result(block))
        elif block["type"] == "text" and block["text"] == INTERRUPTED:
            # Whatever stands before it belongs to a turn that has ended.
            exchange.results.clear()
            exchange.words.clear()
            cut = True
        elif block["type"] == "text" and not is_ours(block["text"]):
            exchange.words.append(block["text"])
    # News alone, without a result or a word, are an input, too: there is just nothing to do about them.
    return exchange, not exchange.results and (cut or last or bool(exchange.words))


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _result(block: dict[str, Any]) -> Result:
    content = block.get("content", "")
    if not isinstance(content, str):
        content = "\n".join(part.get("text", f"({part.get('type')})") for part in content)
    refused = _ERROR_TAGS[0] in content[:200]
    if refused:
        content = content.replace(_ERROR_TAGS[0], "", 1).replace(_ERROR_TAGS[1], "", 1).strip()
    return Result(block["tool_use_id"], content, bool(block.get("is_error")), refused)


def _folder(request: ModelRequest) -> str | None:
    for text in _told(request):
        if found := _FOLDER.search(text):
            return found[1]
    return None


def _told(request: ModelRequest) -> Iterator[str]:
    system = orjson.loads(request.system)
    yield from [system] if isinstance(system, str) else (block.get("text", "") for block in system)
    for message in request.messages[:1]:
        yield from (block["text"] for block in _blocks(orjson.loads(message)) if block["type"] == "text")
