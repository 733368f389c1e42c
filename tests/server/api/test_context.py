"""`session/context` and `session/usage`: what fills the window, and what was used, told apart."""

from typing import Any

import pytest

from ostler.protocol.config import Config
from ostler.protocol.shapes import Usage
from ostler.server.engine.context.accounting import compute_threshold, measure_parts, scale_parts
from ostler.server.engine.context.state import ContextState
from ostler.tools.token_estimate import IMAGE_TOKENS, estimate_block, estimate_tokens
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.behaviors import Usage as Counted
from tests.support.messages_api.replies import calls, message, says, thinks
from tests.support.model_replies import DONE, bash

Json = dict[str, Any]


def fetch_context(driver: SessionDriver) -> Json:
    found: Json = driver.daemon.call("session/context", session_id=driver.id)
    return found


def fetch_usage(driver: SessionDriver) -> Json:
    found: Json = driver.daemon.call("session/usage", session_id=driver.id)
    return found


def get_part(found: Json, name: str) -> int:
    return next(int(part["tokens"]) for part in found["parts"] if part["name"] == name)


def test_a_new_session_shows_what_would_be_sent(harness: Harness) -> None:
    driver = harness.open_session()
    driver.write_file("AGENTS.md", "Feed the horses before anything else. " * 100)
    found = fetch_context(driver)
    assert found["estimated"] is True
    assert found["used"] == sum(part["tokens"] for part in found["parts"])
    assert found["used"] + found["free"] == found["window"]
    assert get_part(found, "instructions") in range(900, 1100)
    assert [name for name in ("prompt", "tools") if get_part(found, name) < 500] == []
    assert [get_part(found, name) for name in ("messages", "results", "thinking", "memory")] == [0, 0, 0, 0]


def test_what_the_provider_counted_is_the_sum_of_the_parts(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    counted = Counted(input_tokens=7, output_tokens=100, cache_read_input_tokens=9_000, cache_creation_input_tokens=893)
    steps = (message(thinks("Hm. " * 200), bash("seq 1 500")), message(says("Done."), usage=counted))
    harness.api.script(driver.name, *steps, otherwise=DONE)
    driver.run_turn()
    found = fetch_context(driver)
    assert (found["used"], found["estimated"]) == (10_000, False)
    assert sum(part["tokens"] for part in found["parts"]) == 10_000
    assert get_part(found, "results") > get_part(found, "thinking") > 0
    harness.restart()
    again = fetch_context(driver)
    assert again["estimated"] is True
    assert again["used"] == sum(part["tokens"] for part in again["parts"])


def test_usage_is_told_apart_by_model_agent_and_tool(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    task = calls("Agent", {"description": "count hay", "prompt": f"[{driver.name}:child] Count.", "model": "haiku"})

    def answer(request: Any) -> Any:
        if ":child]" in str(request.messages[0]):
            return message(says("Nine."), usage=Counted(input_tokens=50, output_tokens=5))
        return (message(bash("seq 1 400"), task), DONE)[min(request.step, 1)]

    harness.api.script(driver.name, otherwise=answer)
    driver.run_turn()
    found = fetch_usage(driver)
    assert found["total"]["input_tokens"] == 250
    assert found["today"]["total"] == found["total"]
    assert [(row["name"], row["kind"], row["input_tokens"]) for row in found["by_agent"]] == [
        (None, None, 200),
        ("count hay", "general-purpose", 50),
    ]
    assert sum(row["input_tokens"] for row in found["by_model"]) == 250
    assert len(found["by_model"]) == 2
    tools = {row["tool"]: row for row in found["by_tool"]}
    assert (tools["Bash"]["calls"], tools["Agent"]["calls"]) == (1, 1)
    assert tools["Bash"]["input_tokens"] in range(300, 500)
    assert tools["Bash"]["estimated"] is True


def test_a_session_that_does_not_exist_is_an_error(harness: Harness) -> None:
    for method in ("session/context", "session/usage"):
        error = harness.daemon.expect_error(method, session_id="s_0000000000000")
        assert error["data"]["code"] == "session_not_found"


# The arithmetic.


@pytest.mark.without_daemon
def test_the_threshold_keeps_room_for_an_answer() -> None:
    assert compute_threshold(200_000, 64_000, Config()) == 162_000
    assert compute_threshold(200_000, 8_000, Config()) == 172_800
    assert compute_threshold(16_000, 64_000, Config()) == 10_800


@pytest.mark.without_daemon
def test_a_picture_counts_as_the_api_counts_it() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}}
    assert estimate_block(picture) == IMAGE_TOKENS
    assert estimate_block({"type": "tool_result", "tool_use_id": "t", "content": [picture]}) < 2 * IMAGE_TOKENS
    assert estimate_tokens(b'[{"type":"text","text":"abcd"}]') == 8


@pytest.mark.without_daemon
def test_parts_lose_nothing_by_rounding() -> None:
    sizes = measure_parts("Be kind.", [{"name": "Skill"}, {"name": "Read"}], [])
    assert (sizes["skills"], sizes["tools"]) == (4, 4)
    for used in (0, 1, 7, 12_345):
        assert sum(part.tokens for part in scale_parts(sizes, used)) == used


@pytest.mark.without_daemon
def test_what_came_since_the_last_count_is_added_and_a_changed_history_is_scaled() -> None:
    state = ContextState()
    assert state.measure(1_000, 500).tokens == 1_500
    state.note_answer(Usage(input_tokens=100, cache_read_tokens=2_000, output_tokens=150), 1_000, 500)
    assert state.measure(1_000, 500) == type(state.measure(1, 1))(2_250, estimated=False)
    assert state.measure(1_000, 600).tokens == 2_350
    state.forget()
    assert state.measure(1_000, 500) == type(state.measure(1, 1))(2_250, estimated=True)
    state.note_answer(Usage(), 1_000, 500)
    assert state.counted is None
