"""Parses a model request for the rehearsal model, to which only what came since the last input matters."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ostler.protocol.patterns import compile_later
from ostler.server.models.provider import ModelRequest
from ostler.server.models.rehearsal.actions import Capabilities
from ostler.server.prompt.reminders import INTERRUPTED, is_ours

_FOLDER: Final = compile_later(r"^Working directory: (/.*)$", re.MULTILINE)
_AGENT_ENDED: Final = compile_later(
    r"<ostler-note>\nThe background task (a[0-9a-z]{8}) (?:is done|has failed|was stopped)\b"
)
_ERROR_TAGS: Final = ("<tool_use_error>", "</tool_use_error>")


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """A call of an earlier message."""

    id: str
    tool: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    call_id: str
    text: str
    is_error: bool
    refused: bool
    """The error is the daemon's own: the tool did not run to its end."""


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """A message as far as it matters: its calls, its results, and the texts of the person."""

    calls: list[EarlierCall] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    ended_agents: list[str] = field(default_factory=list)
    """The tasks of agents in the background that it tells the end of."""


def read_capabilities(request: ModelRequest) -> Capabilities:
    """The tools and the folder that the request names."""
    chosen = request.extras.get("tool_choice")
    forbidden = isinstance(chosen, dict) and chosen.get("type") == "none"
    tools = frozenset() if forbidden else frozenset(tool["name"] for tool in orjson.loads(request.tools))
    return Capabilities(tools, _find_folder(request), _isolates_agents(request))


def read_since_last_input(messages: Sequence[bytes]) -> list[ParsedMessage]:
    """The last input and the messages after it."""
    tail: list[ParsedMessage] = []
    for encoded in reversed(messages):
        parsed, starts = _parse_message(orjson.loads(encoded), last=not tail)
        tail.append(parsed)
        if starts:
            break
    return tail[::-1]


def _parse_message(message: dict[str, Any], *, last: bool) -> tuple[ParsedMessage, bool]:
    parsed = ParsedMessage()
    if message["role"] == "assistant":
        parsed.calls.extend(
            EarlierCall(block["id"], block["name"], block["input"])
            for block in _list_blocks(message)
            if block["type"] == "tool_use"
        )
        return parsed, False
    interrupted = False
    for block in _list_blocks(message):
        if block["type"] == "tool_result":
            parsed.results.append(_parse_result(block))
        elif block["type"] == "text" and block["text"] == INTERRUPTED:
            # Whatever stands before it belongs to a turn that has ended.
            parsed.results.clear()
            parsed.texts.clear()
            parsed.ended_agents.clear()
            interrupted = True
        elif block["type"] == "text" and not is_ours(block["text"]):
            parsed.texts.append(block["text"])
        elif block["type"] == "text" and (ended := _AGENT_ENDED.match(block["text"])):
            parsed.ended_agents.append(ended[1])
    # Notifications alone, without a result or a text of a person, are an input, too.
    return parsed, not parsed.results and (interrupted or last or bool(parsed.texts or parsed.ended_agents))


def _list_blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _parse_result(block: dict[str, Any]) -> Result:
    content = block.get("content", "")
    if not isinstance(content, str):
        content = "\n".join(part.get("text", f"({part.get('type')})") for part in content)
    refused = _ERROR_TAGS[0] in content[:200]
    if refused:
        content = content.replace(_ERROR_TAGS[0], "", 1).replace(_ERROR_TAGS[1], "", 1).strip()
    return Result(block["tool_use_id"], content, bool(block.get("is_error")), refused)


def _isolates_agents(request: ModelRequest) -> bool:
    tools = {tool["name"]: tool for tool in orjson.loads(request.tools)}
    return "isolation" in tools.get("Agent", {}).get("input_schema", {}).get("properties", {})


def _find_folder(request: ModelRequest) -> str | None:
    for text in _list_prompt_texts(request):
        if found := _FOLDER.search(text):
            return found[1]
    return None


def _list_prompt_texts(request: ModelRequest) -> Iterator[str]:
    system = orjson.loads(request.system)
    yield from [system] if isinstance(system, str) else (block.get("text", "") for block in system)
    for message in request.messages[:1]:
        yield from (block["text"] for block in _list_blocks(orjson.loads(message)) if block["type"] == "text")
