"""Answers of a model that are cut off, empty, malformed or of an unknown kind."""

from typing import Any

import pytest

from tests.support.driver import Harness
from tests.support.messages_api.behaviors import Reply, Usage
from tests.support.messages_api.replies import (
    Block,
    calls,
    calls_raw,
    event,
    message,
    refuses,
    says,
    says_nothing,
    thinks,
)
from tests.support.messages_api.scripts import attempts

WORDS = message(says("All is well."))


def test_a_refusal_ends_the_turn_and_says_so(harness: Harness) -> None:
    driver = harness.open_session(refuses())
    turn = driver.run_turn()
    assert (turn["reason"], turn["error"]["code"], turn["error"]["kind"]) == ("failed", "model_error", "refusal")
    assert turn["error"]["message"]
    driver.expect_usable()


def test_a_refusal_without_a_word_leaves_a_history_that_can_be_sent(harness: Harness) -> None:
    driver = harness.open_session(message(stop_reason="refusal"))
    assert driver.run_turn()["error"]["kind"] == "refusal"
    assert driver.outline_messages() == [("user", ["text"])]
    driver.expect_usable()


@pytest.mark.parametrize(
    ("stop_reason", "kind"), [("refusal", "refusal"), ("model_context_window_exceeded", "too_long")]
)
def test_a_model_that_ends_beside_a_call_has_ended(harness: Harness, stop_reason: str, kind: str) -> None:
    driver = harness.open_session()
    driver.write_file("go")
    call = calls("Gate", {"path": driver.get_gate_path("go")})
    harness.api.script(driver.name, otherwise=message(says("I "), call, stop_reason=stop_reason))
    turn = driver.run_turn(max_requests=4)
    assert (turn["reason"], turn["error"]["kind"], turn["model_requests"]) == ("failed", kind, 1)
    assert driver.fetch_result_texts() == ["passed go"]
    driver.expect_usable()


def test_calls_of_a_refusal_can_be_interrupted(harness: Harness) -> None:
    driver = harness.open_session()
    call = calls("Gate", {"path": driver.get_gate_path("never")})
    harness.api.script(driver.name, message(call, stop_reason="refusal"))
    turn_id = driver.start()
    driver.wait_at_gate("never")
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    driver.expect_usable()


def test_an_answer_that_is_cut_by_its_length_goes_on(harness: Harness) -> None:
    driver = harness.open_session(
        message(says("First half "), stop_reason="max_tokens"), message(says("and second half."))
    )
    turn = driver.run_turn()
    assert (turn["reason"], turn["model_requests"]) == ("completed", 2)
    assert [role for role, _ in driver.outline_messages()] == ["user", "assistant", "user", "assistant"]
    assert "length limit" in driver.requests[1].messages[-1]["content"][-1]["text"]
    assert turn["result_text"] == "First half and second half."
    driver.expect_usable()


def test_a_call_that_is_cut_by_the_length_limit_is_not_run(harness: Harness) -> None:
    driver = harness.open_session()
    half = calls_raw("Write", f'{{"file_path": "{driver.folder}/a.txt", "content": "hal')
    harness.api.script(driver.name, message(says("I write."), half, stop_reason="max_tokens"), WORDS)
    turn = driver.run_turn(mode="acceptEdits")
    assert (turn["reason"], turn["result_text"]) == ("completed", "All is well.")
    assert not (driver.folder / "a.txt").exists()
    told = str(driver.requests[1].messages[-1])
    assert "length limit" in told
    assert "smaller pieces" in told
    driver.expect_usable()


@pytest.mark.parametrize("before", ["a call", "words"])
def test_a_call_that_the_length_limit_cut_is_named_whatever_stands_before_it(harness: Harness, before: str) -> None:
    driver = harness.open_session()
    first = calls("Gate", {"path": driver.write_file("go")}) if before == "a call" else says("I write it.")
    cut_call = {"type": "tool_use", "id": "t2", "name": "Write", "input": {}}
    start = event("content_block_start", index=1, content_block=cut_call)
    piece = event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": '{"file_pa'})
    harness.api.script(driver.name, message(first, start, piece, stop_reason="max_tokens"), WORDS)
    turn = driver.run_turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", "All is well.")
    assert "smaller pieces" in str(driver.requests[1].messages[-1])
    assert len(driver.fetch_results()) == (before == "a call")
    driver.expect_usable()


def test_a_pause_without_a_word_ends_the_turn_and_is_told(harness: Harness) -> None:
    driver = harness.open_session(otherwise=message(stop_reason="pause_turn"))
    turn = driver.run_turn(max_requests=4)
    assert (turn["reason"], turn["model_requests"]) == ("completed", 1)
    assert any("nothing" in notice["text"] for notice in driver.list_event_data("notice"))
    assert driver.outline_messages() == [("user", ["text"])]
    driver.expect_usable()


def test_a_cut_call_and_nothing_else_is_not_run_either(harness: Harness) -> None:
    # The block is opened and never closed, as the API does it when the limit strikes.
    start = event(
        "content_block_start", index=0, content_block={"type": "tool_use", "id": "t", "name": "Read", "input": {}}
    )
    piece = event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": '{"file_pa'})
    driver = harness.open_session(attempts(message(start, piece, stop_reason="max_tokens"), WORDS))
    turn = driver.run_turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", "All is well.")
    driver.expect_usable()


def test_an_answer_that_is_cut_again_and_again_ends_and_says_so(harness: Harness) -> None:
    driver = harness.open_session(otherwise=message(says("on and on "), stop_reason="max_tokens"))
    turn = driver.run_turn()
    assert turn["reason"] == "completed"
    assert turn["model_requests"] == 4
    assert any("length limit" in notice["text"] for notice in driver.list_event_data("notice"))
    driver.expect_usable()


def test_calls_that_are_cut_again_and_again_end_and_say_so(harness: Harness) -> None:
    half = calls_raw("Write", '{"file_path": "a.txt", "content": "hal')
    driver = harness.open_session(otherwise=message(half, stop_reason="max_tokens"))
    turn = driver.run_turn(max_requests=20)
    assert (turn["reason"], turn["model_requests"]) == ("completed", 4)
    assert any("length limit" in notice["text"] for notice in driver.list_event_data("notice"))
    driver.expect_usable()


def test_a_paused_answer_is_taken_up_again(harness: Harness) -> None:
    driver = harness.open_session(message(says("Searching… "), stop_reason="pause_turn"), WORDS)
    turn = driver.run_turn()
    assert (turn["reason"], turn["model_requests"]) == ("completed", 2)
    assert turn["result_text"] == "Searching… All is well."
    assert [role for role, _ in driver.outline_messages()] == ["user", "assistant", "assistant"]
    assert driver.requests[1].messages[-1]["role"] == "assistant"
    driver.expect_usable()


def test_an_answer_of_nothing_ends_the_turn_with_a_notice(harness: Harness) -> None:
    driver = harness.open_session(says_nothing())
    turn = driver.run_turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", None)
    assert any("nothing" in notice["text"] for notice in driver.list_event_data("notice"))
    assert driver.outline_messages() == [("user", ["text"])]
    driver.expect_usable()


def test_an_answer_of_blanks_is_an_answer_of_nothing(harness: Harness) -> None:
    driver = harness.open_session(message(says(" ", "\n\n")))
    assert driver.run_turn()["reason"] == "completed"
    assert driver.outline_messages() == [("user", ["text"])]
    driver.expect_usable()


def test_blanks_beside_a_call_are_not_kept(harness: Harness) -> None:
    driver = harness.open_session(message(says("\n"), calls("Nothing", {})), WORDS)
    assert driver.run_turn()["reason"] == "completed"
    assert driver.outline_messages()[1] == ("assistant", ["tool_use"])
    assert [data["index"] for data in driver.list_event_data("message.delta") if data["kind"] == "tool_input"] == [0]


def test_thoughts_without_an_answer_are_an_answer(harness: Harness) -> None:
    driver = harness.open_session(message(thinks("Hm.")))
    assert driver.run_turn()["reason"] == "completed"
    driver.expect_usable()


def test_a_full_window_fails_with_advice(harness: Harness) -> None:
    driver = harness.open_session(message(says("I was"), stop_reason="model_context_window_exceeded"))
    turn = driver.run_turn()
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "too_long")
    driver.expect_usable()


def test_a_stop_reason_that_nobody_knows_ends_the_turn(harness: Harness) -> None:
    driver = harness.open_session(message(says("Well."), stop_reason="tired"))
    assert (driver.run_turn()["reason"], driver.fetch_messages()[1]["stop_reason"]) == ("completed", "tired")
    driver.expect_usable()


def test_the_reason_tool_use_without_a_call_ends_the_turn(harness: Harness) -> None:
    driver = harness.open_session(message(says("I would call."), stop_reason="tool_use"))
    assert driver.run_turn()["reason"] == "completed"
    driver.expect_usable()


def test_calls_under_the_reason_end_turn_are_run(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Nothing", {}), stop_reason="end_turn"), WORDS)
    assert driver.run_turn()["model_requests"] == 2
    driver.expect_usable()


def test_blocks_and_events_of_an_unknown_kind_pass_through(harness: Harness) -> None:
    harness.api.may_refuse = True  # the scripted API does not know the kind either
    search = Block(
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        ({"type": "input_json_delta", "partial_json": '{"query": "x"}'},),
    )
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    driver = harness.open_session(
        message(
            event("weather", sunny=True),
            search,
            Block(found, ()),
            Block(
                {"type": "text", "text": ""},
                ({"type": "scent_delta", "scent": "rose"}, {"type": "text_delta", "text": "So."}),
            ),
        ),
        WORDS,
    )
    assert driver.run_turn()["result_text"] == "So."
    content = driver.fetch_messages()[1]["content"]
    assert content == [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        found,
        {"type": "text", "text": "So."},
    ]
    driver.run_turn()
    assert driver.requests[1].messages[1]["content"] == content
    assert harness.api.violations == []


def test_a_block_of_next_month_is_stored_and_sent_back_as_it_came(harness: Harness) -> None:
    harness.api.may_refuse = True  # the scripted API does not know the kind either
    hologram = {"type": "hologram", "data": {"depth": 3}, "flag": None}
    driver = harness.open_session(message(Block(hologram, ()), says("See?")), WORDS)
    driver.run_turn()
    assert driver.fetch_messages()[1]["content"][0] == hologram
    driver.run_turn()
    sent = harness.api.requests[-1].body["messages"][1]["content"][0]
    assert sent == hologram


@pytest.mark.parametrize(
    "reply",
    [
        message(event("content_block_stop", index=7), says("Well.")),
        message(event("content_block_delta", index=3, delta={"type": "text_delta", "text": "lost"}), says("Well.")),
        message(event("content_block_start", index=0, content_block={}), says("Well.")),
        message(event("message_delta", delta={}, usage={"output_tokens": "many"}), says("Well.")),
        message(says("Well."), usage=Usage(cache_read_input_tokens=2**63)),
        message(says("Well."), usage=Usage(cache_read_input_tokens=-1)),
        message(event("message_start", message={"model": 5}), says("Well.")),
        message(Block({"type": ""}, ()), says("Well.")),
    ],
    ids=[
        "stop without start",
        "delta without block",
        "block without kind",
        "usage of words",
        "usage beyond all numbers",
        "usage below nothing",
        "model that is a number",
        "block with an empty kind",
    ],
)
def test_events_that_make_no_sense_do_no_harm(harness: Harness, reply: Reply) -> None:
    driver = harness.open_session(reply)
    turn = driver.run_turn()
    assert (turn["reason"], turn["result_text"], turn["usage"]["cache_read_tokens"]) == ("completed", "Well.", 0)
    assert driver.outline_messages() == [("user", ["text"]), ("assistant", ["text"])]
    driver.expect_usable()


DEEP: dict[str, Any] = {}
for _ in range(200):
    DEEP = {"in": DEEP}

UNREADABLE: dict[str, Block] = {
    "input of a call": Block({"type": "tool_use", "id": "t", "name": "Read", "input": DEEP}, ()),
    "unknown kind": Block({"type": "hologram", "depth": DEEP}, ()),
    "citation": Block({"type": "text", "text": "So"}, ({"type": "citations_delta", "citation": DEEP},)),
    "signature": Block({"type": "thinking", "thinking": "Hm.", "signature": 5}, ()),
    "unseen thinking": Block({"type": "redacted_thinking", "data": 5}, ()),
    "picture": Block({"type": "image"}, ()),
    "result": Block({"type": "tool_result", "tool_use_id": "t", "content": "done"}, ()),
}


@pytest.mark.parametrize("block", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_block_that_could_not_be_read_again_is_not_kept(harness: Harness, block: Block) -> None:
    driver = harness.open_session(message(block, says("Well.")))
    turn = driver.run_turn()
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "garbage")
    assert "makes no sense" in turn["error"]["message"]
    assert driver.outline_messages() == [("user", ["text"])]
    driver.expect_usable()
