"""A result that repeats an earlier one letter for letter is given once."""

import re
from typing import Any

import pytest

from ostler.server.engine.context.repeats import ResultIndex, find_repeated, may_repeat
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, bash, read, run_scripted_turn

SEQ = "seq 1 600"
"""Prints more than 2,000 characters, and always the same."""
LINE = re.compile(r'<same-result as="([^"]+)"> Bash gave, letter for letter, .*it still holds\.')


def list_sent_results(driver: SessionDriver, request: int = -1) -> list[str]:
    """The texts of all results as the model got them with a request."""
    return [
        block["content"][0]["text"]
        for one in driver.requests[request].messages
        for block in one["content"]
        if block["type"] == "tool_result"
    ]


def list_use_ids(driver: SessionDriver) -> list[str]:
    return [block["id"] for one in driver.fetch_messages() for block in one["content"] if block["type"] == "tool_use"]


def test_a_repeated_result_is_one_line_for_the_model_and_whole_for_everybody_else(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    run_scripted_turn(harness, driver, bash(SEQ), bash("echo short"), bash(SEQ))
    first, _, repeated = list_sent_results(driver)
    assert len(first) > 2000
    match = LINE.fullmatch(repeated)
    assert match is not None
    assert match[1] == list_use_ids(driver)[0]
    ended = [driver.wait("tool.completed")["data"]["call"] for _ in range(3)]
    assert ended[2]["content"] == ended[0]["content"]
    assert ended[2]["output"]["stdout"].startswith("1\n2\n")
    assert driver.fetch_result_texts() == [first, "short", repeated]


def test_it_stays_as_it_is_after_a_restart_and_what_was_sent_before_is_known_then(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    run_scripted_turn(harness, driver, bash(SEQ), bash(SEQ))
    before = list_sent_results(driver)
    harness.restart()
    harness.api.script(driver.name, message(bash(SEQ)), message(bash(SEQ)), DONE, message(bash(SEQ)), otherwise=DONE)
    driver.run_turn("And again.")
    after = list_sent_results(driver)
    assert after[:2] == before
    assert find_repeated(after[2]) == find_repeated(before[1]) is not None


def test_calls_of_one_message_refer_to_each_other(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    harness.api.script(driver.name, message(bash(SEQ), bash(SEQ)), otherwise=DONE)
    driver.run_turn()
    first, second = list_sent_results(driver)
    assert first.startswith("1\n2\n")
    assert find_repeated(second) == list_use_ids(driver)[0]


def test_what_is_short_or_new_or_of_another_input_is_given_whole(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    same = "seq 1 $(cat n)"
    driver.write_file("n", "600")
    run_scripted_turn(
        harness, driver, bash("seq 5"), bash("seq 5"), bash(same), bash("echo 700 > n"), bash(same), bash(f"{same} ")
    )
    assert [find_repeated(text) for text in list_sent_results(driver)] == [None] * 6


def test_a_result_that_was_kept_elsewhere_does_not_stand_in_the_conversation(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash"]})
    run_scripted_turn(harness, driver, bash("seq 1 20000"), bash("seq 1 20000"))
    assert all("result://" in text for text in list_sent_results(driver))


def test_an_unchanged_file_is_told_by_read_itself(harness: Harness) -> None:
    driver = harness.open_session()
    path = driver.write_file("long.txt", "line of text\n" * 300)
    run_scripted_turn(harness, driver, read(path), read(path), calls("Grep", {"pattern": "line", "path": path}))
    assert [find_repeated(text) for text in list_sent_results(driver)] == [None] * 3


def make_result(text: str, name: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": text, "is_error": is_error}


@pytest.mark.without_daemon
def test_tool_input_text_and_failure_all_have_to_be_equal() -> None:
    index, text = ResultIndex(), "x" * 2000
    assert index.find_repeat("A", {"a": 1, "b": 2}, make_result(text, "t1")) is None
    line = index.find_repeat("A", {"b": 2, "a": 1}, make_result(text, "t2"))
    assert line is not None
    assert find_repeated(line) == "t1"
    assert index.find_repeat("B", {"a": 1, "b": 2}, make_result(text, "t3")) is None
    assert index.find_repeat("A", {"a": 1}, make_result(text, "t4")) is None
    assert index.find_repeat("A", {"a": 1, "b": 2}, make_result(text, "t5", is_error=True)) is None
    assert index.find_repeat("A", {"a": 1, "b": 2}, make_result(text + "y", "t6")) is None


@pytest.mark.without_daemon
def test_only_long_texts_may_repeat() -> None:
    long = {"type": "text", "text": "x" * 1999}
    assert not may_repeat([long])
    assert may_repeat([long, {"type": "text", "text": "y"}])
    assert not may_repeat([long, {"type": "image", "source": {}}])
    assert not may_repeat("")
    assert may_repeat("x" * 2000)
