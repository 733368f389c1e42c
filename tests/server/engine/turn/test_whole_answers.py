"""A provider that answers without streaming, and one whose streams break."""

from collections.abc import Callable

import pytest

from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.behaviors import Gate, Reply, Usage
from tests.support.messages_api.replies import (
    Block,
    calls,
    cut,
    cut_after,
    hold,
    message,
    pause,
    refuses,
    reset_after,
    says,
    thinks,
    thinks_unseen,
    whole,
)
from tests.support.messages_api.scripts import attempts

USAGE = Usage(1000, 200, cache_read_input_tokens=30, cache_creation_input_tokens=4)
WORDS = message(says("All ", "is ", "well."), usage=USAGE)
LONG = "long " * 40_000


def build_answers(driver: SessionDriver) -> list[Reply]:
    """Thoughts, text, calls beside each other and one after the other."""
    path = driver.write_file("a.txt", "alpha\n")
    first = (thinks("Well, ", "well."), thinks_unseen(), says("I look."), calls("Read", {"file_path": path}))
    unknown = Block({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}, ())
    go = [calls("Gate", {"path": driver.write_file("go")}) for _ in range(2)]
    return [message(*first, calls("Reed", {}), usage=USAGE), message(go[0], unknown, go[1]), WORDS]


def run_conversation(harness: Harness, form: Callable[[Reply], Reply]) -> tuple[object, ...]:
    driver = harness.open_session()
    harness.api.script(driver.name, *map(form, build_answers(driver)))
    turn = driver.run_turn()
    messages = driver.fetch_messages()
    for block in (block for each in messages for block in each["content"]):
        block.pop("id", None), block.pop("tool_use_id", None)
    deltas: dict[tuple[int, int], str] = {}
    for delta in driver.list_event_data("message.delta"):
        key = (messages.index(next(m for m in messages if m["id"] == delta["message_id"])), delta["index"])
        deltas[key] = deltas.get(key, "") + delta["text"]
    shown = [(each["role"], each["content"], each["stop_reason"], each["model"]) for each in messages]
    texts = str(shown).replace(driver.name, "").replace(str(driver.folder), "")
    given = str(sorted(deltas.items())).replace(str(driver.folder), "")
    facts = (turn["reason"], turn["result_text"], turn["usage"], turn["model_requests"], turn["tool_calls"])
    driver.expect_usable()
    return (*facts, texts, given)


def test_a_message_that_comes_whole_is_the_same_as_one_that_is_streamed(harness: Harness) -> None:
    assert run_conversation(harness, whole) == run_conversation(harness, lambda reply: reply)


def test_a_long_message_that_comes_whole_reaches_clients_in_pieces(harness: Harness) -> None:
    driver = harness.open_session(whole(message(says(LONG))))
    assert driver.run_turn()["result_text"] == LONG
    texts = [delta["text"] for delta in driver.list_event_data("message.delta")]
    assert "".join(texts) == LONG
    assert len(texts) > 1


@pytest.mark.parametrize(
    ("reply", "reason", "kind"),
    [
        (whole(refuses()), "failed", "refusal"),
        (whole(message(says("I "), stop_reason="model_context_window_exceeded")), "failed", "too_long"),
        (Reply(headers={"content-type": "application/json"}, body=b'{"object": "list"}'), "failed", "garbage"),
        (Reply(headers={"content-type": "application/json"}, body=b'{"type": "message"}'), "failed", "garbage"),
        (Reply(headers={"content-type": "application/json"}, body=b"[" * 100_000), "failed", "garbage"),
        (
            Reply(
                headers={"content-type": "application/json; charset=utf-8"},
                body=b'{"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}',
            ),
            "failed",
            "bad_request",
        ),
    ],
    ids=["refusal", "window", "another API", "no content", "nesting", "error"],
)
def test_refusals_and_rubbish_that_come_whole_end_the_turn_as_they_do_in_a_stream(
    harness: Harness, reply: Reply, reason: str, kind: str
) -> None:
    driver = harness.open_session(reply)
    turn = driver.run_turn()
    assert (turn["reason"], turn["error"]["kind"]) == (reason, kind)
    driver.expect_usable()


def list_streams(driver: SessionDriver) -> list[bool]:
    return [request.body["stream"] for request in driver.requests]


def test_after_three_broken_streams_no_stream_is_asked_for_until_the_turn_ends(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness(OSTLER_MODEL__MAX_RETRIES="5", OSTLER_MODEL__SILENCE_SECONDS="0.3")
    driver = harness.open_session()
    path = driver.write_file("a.txt", "alpha\n")
    look = message(says("I look."), calls("Read", {"file_path": path}), usage=USAGE)
    # It takes longer than a stream may be silent, and breaks off once more in between.
    late = message(says("Well."), pause(0.6))
    tries = attempts(cut_after(look, 4), reset_after(look, 6), cut_after(look, 5), cut_after(look, 5), look)
    harness.api.script(driver.name, tries, late, WORDS)
    turn = driver.run_turn()
    assert (turn["reason"], turn["result_text"], turn["model_requests"]) == ("completed", "Well.", 2)
    assert list_streams(driver) == [True, True, True, False, False, False]
    assert [one["attempt"] for one in driver.list_event_data("model.retrying")] == [1, 2, 3, 4]
    assert driver.fetch_result_texts() == ["     1\talpha"]
    assert driver.run_turn()["result_text"] == "All is well."
    assert list_streams(driver)[6:] == [True]
    driver.expect_usable()

    # Answers that broke off after a call of theirs changed something are kept, and count as well.
    driver, gates = harness.open_session(), [Gate() for _ in range(3)]
    go = calls("Gate", {"path": driver.write_file("go")})
    harness.api.script(driver.name, *(message(go, hold(gate), cut()) for gate in gates), WORDS)
    turn_id = driver.start()
    for gate in gates:
        driver.wait("tool.completed")
        gate.open()
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert list_streams(driver) == [True, True, True, False]

    # A whole answer in between makes up for those that broke off.
    driver = harness.open_session()
    look, broken = message(calls("Gate", {"path": driver.write_file("go")})), cut_after(WORDS, 4)
    harness.api.script(driver.name, attempts(broken, broken, look), attempts(broken, broken, WORDS))
    assert driver.run_turn()["reason"] == "completed"
    assert all(list_streams(driver))


def test_an_interrupt_ends_a_request_without_a_stream_at_once(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(whole(message(says("Never.", hold(gate)))), WORDS)
    turn_id = driver.start()
    gate.wait_until_reached()
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    gate.open()
    driver.expect_usable()
