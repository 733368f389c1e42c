"""The turn loop as clients see it."""

import base64
from collections import Counter
from typing import Any

import pytest

from tests.support.driver import Harness
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says, thinks, thinks_unseen
from tests.support.model_replies import DONE


def test_a_turn_of_words_only_ends_with_them(harness: Harness) -> None:
    driver = harness.open_session(message(says("Hello ", "there.")))
    turn = driver.run_turn("Say hello.")
    assert (turn["status"], turn["reason"], turn["result_text"]) == ("ended", "completed", "Hello there.")
    assert (turn["model_requests"], turn["tool_calls"], turn["error"]) == (1, 0, None)
    assert driver.outline_messages() == [("user", ["text"]), ("assistant", ["text"])]
    assert driver.fetch_messages()[1]["stop_reason"] == "end_turn"
    driver.expect_usable()


def test_a_turn_goes_round_until_the_model_calls_nothing_more(harness: Harness) -> None:
    driver = harness.open_session()
    path = driver.write_file("a.txt", "alpha\n")
    harness.api.script(
        driver.name,
        message(says("I look."), calls("Read", {"file_path": path})),
        message(calls("Edit", {"file_path": path, "old_string": "alpha", "new_string": "beta"})),
        message(says("Done.")),
    )
    turn = driver.run_turn("Make it beta.", mode="acceptEdits")
    assert (turn["reason"], turn["result_text"], turn["model_requests"], turn["tool_calls"]) == (
        "completed",
        "Done.",
        3,
        2,
    )
    assert (driver.folder / "a.txt").read_text() == "beta\n"
    assert driver.outline_messages() == [
        ("user", ["text"]),
        ("assistant", ["text", "tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["text"]),
    ]
    assert "alpha" in driver.fetch_result_texts()[0]
    assert [kind for kind, _ in driver.list_call_events()] == ["queued", "started", "completed"] * 2
    assert [at for _, at in driver.list_call_events()] == [1, 1, 1, 0, 0, 0]
    driver.expect_usable()


def test_the_events_of_a_turn_come_in_the_order_of_what_happened(harness: Harness) -> None:
    driver = harness.open_session()
    path = driver.write_file("a.txt", "alpha\n")
    harness.api.script(driver.name, message(calls("Read", {"file_path": path})), message(says("Done.")))
    driver.run_turn()
    driver.wait("session.updated", lambda data: data["session"]["status"] == "idle")
    stored = [event["type"] for event in driver.seen if event["cursor"] is not None]
    assert Counter(stored) == {
        "turn.started": 1,
        "session.updated": 2,
        "message.started": 2,
        "message.completed": 4,
        "tool.queued": 1,
        "tool.started": 1,
        "tool.completed": 1,
        "usage.updated": 2,
        "turn.ended": 1,
    }
    assert stored[:4] == ["turn.started", "session.updated", "message.completed", "message.started"]
    assert stored[-2:] == ["turn.ended", "session.updated"]
    cursors = [event["cursor"] for event in driver.seen if event["cursor"] is not None]
    assert cursors == sorted(set(cursors))


def test_several_turns_share_one_growing_history(harness: Harness) -> None:
    driver = harness.open_session(message(says("One.")), message(says("Two.")), message(says("Three.")))
    assert [driver.run_turn(f"Number {n}")["result_text"] for n in (1, 2, 3)] == ["One.", "Two.", "Three."]
    assert [request.message_count for request in driver.requests] == [1, 3, 5]
    assert [role for role, _ in driver.outline_messages()] == ["user", "assistant"] * 3


def test_deltas_come_before_the_message_is_complete_and_add_up_to_it(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session(message(thinks("Let me ", "see."), says("First ", hold(gate), "and last.")))
    turn_id = driver.start()
    first = driver.wait("message.delta", lambda data: data["kind"] == "text")
    assert first["data"]["text"] == "First "
    assert first["cursor"] is None
    assert "message.completed" not in driver.list_event_types()[driver.list_event_types().index("message.started") :]
    in_progress = driver.fetch_state()["message"]
    assert in_progress["content"][-1] == {"type": "text", "text": "First "}
    gate.open()
    driver.wait_for_turn_end(turn_id)
    content = driver.fetch_messages()[1]["content"]
    told: dict[int, str] = {}
    for delta in driver.list_event_data("message.delta"):
        assert delta["offset"] == len(told.get(delta["index"], ""))
        told[delta["index"]] = told.get(delta["index"], "") + delta["text"]
    assert told == {0: content[0]["thinking"], 1: content[1]["text"]} == {0: "Let me see.", 1: "First and last."}


def test_the_input_of_a_call_is_told_while_it_is_written(harness: Harness) -> None:
    driver = harness.open_session()
    path = driver.write_file("a.txt", "alpha\n")
    harness.api.script(driver.name, message(calls("Read", {"file_path": path}, piece_chars=7)), message(says("Done.")))
    driver.run_turn()
    pieces = [data for data in driver.list_event_data("message.delta") if data["kind"] == "tool_input"]
    assert len(pieces) > 2
    assert "".join(data["text"] for data in pieces) == f'{{"file_path":"{path}"}}'


def test_thoughts_are_kept_with_their_signature_and_sent_back(harness: Harness) -> None:
    driver = harness.open_session()
    path = driver.write_file("a.txt", "alpha\n")
    harness.api.script(
        driver.name,
        message(
            thinks("I should ", "read.", signature="proof-1"),
            thinks_unseen("opaque"),
            calls("Read", {"file_path": path}),
        ),
        message(says("Done.")),
    )
    driver.run_turn(thinking={"type": "enabled", "budget_tokens": 2000})
    blocks: list[Any] = driver.fetch_messages()[1]["content"]
    assert blocks[0] == {"type": "thinking", "thinking": "I should read.", "signature": "proof-1"}
    assert blocks[1] == {"type": "redacted_thinking", "data": "opaque"}
    assert driver.requests[1].messages[1]["content"][:2] == blocks[:2]
    assert driver.requests[0].body["thinking"] == {"type": "enabled", "budget_tokens": 2000}


def test_a_call_runs_while_the_rest_of_the_message_still_streams(harness: Harness) -> None:
    gate = Gate()
    driver = harness.open_session()
    path = driver.write_file("a.txt", "alpha\n")
    harness.api.script(
        driver.name,
        message(calls("Read", {"file_path": path}), hold(gate), says("And more.")),
        message(says("Done.")),
    )
    turn_id = driver.start()
    done = driver.wait("tool.completed")["data"]["call"]
    assert done["is_error"] is False
    assert driver.requests[0].end is None
    assert len(driver.fetch_messages()) == 1
    gate.open()
    assert driver.wait_for_turn_end(turn_id)["result_text"] == "Done."
    assert [kind for _, kind in driver.outline_messages()[1:3]] == [["tool_use", "text"], ["tool_result"]]
    driver.expect_usable()


@pytest.mark.parametrize(
    ("data", "kind"), [(base64.b64encode(b"\xff\xd8\xff\xe0 a JPEG").decode(), "image"), ("aGVsbG8=", "text")]
)
def test_a_picture_that_is_not_what_it_is_called_does_not_spoil_the_session(
    harness: Harness, data: str, kind: str
) -> None:
    driver = harness.open_session(otherwise=DONE)
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    begun = driver.daemon.call(
        "turn/start", session_id=driver.id, input=[{"type": "text", "text": driver.tag_input("Look.")}, picture]
    )
    assert driver.wait_for_turn_end(begun["id"])["reason"] == "completed"
    assert driver.requests[0].messages[0]["content"][-1]["type"] == kind
    driver.expect_usable()
