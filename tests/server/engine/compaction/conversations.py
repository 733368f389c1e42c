"""Scripted conversations that fill a window."""

from typing import Any, Final

from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import message, says
from tests.support.messages_api.token_meter import CountedRequest
from tests.support.model_replies import bash

Json = dict[str, Any]

SMALL_WINDOW: Final = 40_000
TOOLS: Final = ["Bash", "Read", "Edit"]
SUMMARY: Final = "Filled the trough; nothing else to say."
_ASKED: Final = "The window of this conversation is nearly full."


def is_summary_request(request: RecordedRequest) -> bool:
    return _ASKED in str(request.messages[-1])


def print_chars(count: int, seed: object) -> Any:
    """A call whose result has so many characters, which differ from call to call."""
    return bash(f"seq -f '%.0f {seed}' 1 100000 | head -c {count}")


def open_filling(
    harness: Harness, calls: int, chars: int, *, summary: Reply | None = None, **session: Any
) -> SessionDriver:
    """A session whose model makes so many calls with long results, one after the other, and then is done."""
    made = iter(range(calls))

    def step(request: RecordedRequest) -> Reply:
        if is_summary_request(request):
            return summary or message(says(SUMMARY))
        at = next(made, None)
        return message(says("Done.")) if at is None else message(print_chars(chars, at))

    session = {"tools": TOOLS, "rules": {"allow": ["Bash"]}, **session}
    return harness.open_session(otherwise=step, **session)


def get_first_text(request: RecordedRequest) -> str:
    """The first text of the conversation, as the model was sent it."""
    return str(next(block["text"] for block in request.messages[0]["content"] if block["type"] == "text"))


def list_compactions(driver: SessionDriver) -> list[Json]:
    return driver.list_event_data("context.compacted")


def list_counted(harness: Harness, driver: SessionDriver) -> list[CountedRequest]:
    assert harness.api.meter is not None
    return [one for one in harness.api.meter.counted if one.conversation.startswith(driver.name)]
