"""Old results are cleared before anything is summarised; and what agents and tasks have to do with compaction."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ostler.server.engine.context.clearing import is_cleared
from tests.server.engine.compaction.conversations import (
    SMALL_WINDOW,
    SUMMARY,
    TOOLS,
    get_first_text,
    is_summary_request,
    list_compactions,
    print_chars,
)
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import calls, message, says
from tests.support.messages_api.token_meter import TokenMeter
from tests.support.model_replies import DONE, bash, read

WINDOW = 80_000


@pytest.fixture
def larger(own_harness: Callable[..., Harness]) -> Iterator[Harness]:
    """A daemon whose models have a window in which old results can be cleared."""
    harness = own_harness(OSTLER_CONTEXT__WINDOW=str(WINDOW), OSTLER_MODEL__MAX_OUTPUT_TOKENS="4000")
    harness.api.meter = TokenMeter(WINDOW)
    harness.api.may_rewrite = True
    yield harness
    assert harness.api.meter.rejected == []


def list_result_texts(request: RecordedRequest) -> list[str]:
    return [
        block["content"][0]["text"]
        for one in request.messages
        for block in one["content"]
        if block["type"] == "tool_result"
    ]


def script_blocks(driver: SessionDriver, *blocks: Any, summary: str = SUMMARY) -> None:
    """A call a message, then the end."""
    made = iter(blocks)

    def step(request: RecordedRequest) -> Reply:
        if is_summary_request(request):
            return message(says(summary))
        block = next(made, None)
        return DONE if block is None else message(block)

    driver.api.script(driver.name, otherwise=step)


def test_old_results_become_a_line_once_and_for_ever(larger: Harness) -> None:
    driver = larger.open_session(tools=TOOLS, rules={"allow": ["Bash"]})
    path = driver.write_file("feed.txt", "oats\n" * 1_500)
    script_blocks(driver, read(path), *(print_chars(24_000, at) for at in range(12)), read(path))
    assert driver.run_turn()["reason"] == "completed"
    (done,) = list_compactions(driver)
    assert (done["summarised"], done["message_id"], done["trigger"]) == (False, None, "auto")
    assert done["before_tokens"] - done["after_tokens"] >= 20_000
    sent = list_result_texts(driver.requests[-1])
    cleared = [is_cleared(text) for text in sent]
    assert cleared == sorted(cleared, reverse=True)  # the oldest
    assert cleared.count(True) == done["cleared_results"] >= 5
    # What is cleared was not shown any more: Read gives the file again.
    assert sent[-1].count("oats") == 1_500
    assert not any(is_cleared(text) for text in driver.fetch_result_texts())
    larger.restart()
    script_blocks(driver)
    driver.run_turn("And now?")
    assert list_result_texts(driver.requests[-1]) == sent
    fork = larger.daemon.call("session/fork", session_id=driver.id)
    sizes = [larger.daemon.call("session/context", session_id=name)["used"] for name in (driver.id, fork["id"])]
    assert abs(sizes[0] - sizes[1]) < 0.1 * sizes[0]


def test_an_agent_compacts_itself(window: Harness) -> None:
    driver = window.open_session(tools=[*TOOLS, "Agent"], rules={"allow": ["Bash"]})
    task = calls("Agent", {"description": "fill", "prompt": f"[{driver.name}:child] Fill the trough."})
    made = iter(range(9))

    def step(request: RecordedRequest) -> Reply:
        if is_summary_request(request):
            return message(says(SUMMARY))
        if ":child]" not in str(request.messages[0]):
            return DONE if request.step else message(task)
        at = next(made, None)
        return message(says("The trough is full.")) if at is None else message(print_chars(24_000, at))

    window.api.script(driver.name, otherwise=step)
    assert driver.run_turn()["reason"] == "completed"
    assert "The trough is full." in driver.fetch_result_texts()[0]
    compacted = [event for event in driver.seen if event["type"] == "context.compacted"]
    assert [event["session_id"] == driver.id for event in compacted] == [False] * len(compacted) != []
    assert window.api.meter is not None
    assert window.api.meter.rejected == []


def test_running_tasks_and_the_end_of_agents_survive(window: Harness) -> None:
    driver = window.open_session(tools=[*TOOLS, "Agent", "TaskOutput", "TaskStop"], rules={"allow": ["Bash"]})
    agent = calls(
        "Agent", {"description": "count hay", "prompt": f"[{driver.name}:child] Count.", "run_in_background": True}
    )
    endless = bash("tail -f /dev/null", run_in_background=True)
    made = iter([endless, agent, *(print_chars(24_000, at) for at in range(2))])

    def step(request: RecordedRequest) -> Reply:
        if is_summary_request(request):
            return message(says(SUMMARY))
        if ":child]" in str(request.messages[0]):
            return message(says("Nine bales."))
        block = next(made, None)
        return DONE if block is None else message(block)

    window.api.script(driver.name, otherwise=step)
    driver.run_turn("Start them.", wait_for_agents=True)
    window.daemon.call("session/compact", session_id=driver.id)
    driver.run_turn("Go on.")
    text = get_first_text(driver.requests[-1])
    task = window.daemon.call("task/list", session_id=driver.id, status="running")["tasks"][0]
    assert f"- {task['id']} (local_bash, running" in text
    assert "tail -f /dev/null" in text
    assert "count hay" in text
    assert f"[{driver.name}] Start them." in text
    assert len(text) < SMALL_WINDOW * 4
    window.daemon.call("task/stop", task_id=task["id"])
