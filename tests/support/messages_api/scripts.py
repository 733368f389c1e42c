"""Which answer a request gets: a script per conversation, a step per assistant message, an attempt per try."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import calls, message, says

_MARKER: Final = re.compile(r"\[([\w.-]+)((?::[\w.-]+)?)\]")


@dataclass(frozen=True, slots=True)
class Attempts:
    """One step that is tried several times; what comes last is given from then on."""

    replies: tuple[Reply, ...]


def attempts(*replies: Reply) -> Attempts:
    """The first try gets the first reply, the second the second…"""
    return Attempts(replies)


Step = Reply | Attempts | Callable[[RecordedRequest], Reply]
"""An answer, or what makes it from the request."""


@dataclass(frozen=True, slots=True)
class Script:
    """The answers of one conversation: the nth to the request with n assistant messages."""

    name: str
    steps: tuple[Step, ...]
    otherwise: Step | None = None
    """For every step after the last one. None: such a request is a violation."""

    def get_step(self, number: int) -> Step | None:
        return self.steps[number] if number < len(self.steps) else self.otherwise


def script(name: str, *steps: Step, otherwise: Step | None = None) -> Script:
    """The script of the conversations whose first user message has `[name]` or `[name:anything]` in it."""
    return Script(name, steps, otherwise)


def loop(name: str, times: int, tool: str, arguments: Mapping[str, Any], *, parallel: int = 1) -> Script:
    """So many messages with calls, then text; again after each further input."""

    def step(request: RecordedRequest) -> Reply:
        if request.step % (times + 1) == times:
            return message(says("Done."))
        return message(*(calls(tool, arguments) for _ in range(parallel)))

    return Script(name, (), step)


def extract_first_text(body: dict[str, Any]) -> str:
    """All text of the first message."""
    content = body["messages"][0]["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")


class ScriptLibrary:
    """All scripts, and how often each step was tried."""

    def __init__(self, scripts: Iterable[Script], default: Script | None) -> None:
        self._scripts = {each.name: each for each in scripts}
        self._tries: Counter[tuple[str, int]] = Counter()
        self.default = default

    def add(self, new: Script) -> None:
        self._scripts[new.name] = new

    def find(self, body: dict[str, Any]) -> tuple[str, Script | None]:
        """The name of the conversation, which may be one of many with the same script, and its script."""
        text = extract_first_text(body)
        for found in _MARKER.finditer(text):
            if found[1] in self._scripts:
                return found[1] + found[2], self._scripts[found[1]]
        return f"default:{hashlib.sha256(text.encode()).hexdigest()[:12]}", self.default

    def choose_reply(self, chosen: Script | None, request: RecordedRequest) -> Reply | None:
        """The answer to this request, or None where the script has none."""
        match chosen.get_step(request.step) if chosen else None:
            case Attempts(replies):
                tried = self._tries[request.conversation, request.step]
                self._tries[request.conversation, request.step] += 1
                return replies[min(tried, len(replies) - 1)]
            case Reply() | None as reply:
                return reply
            case make:
                return make(request)
