"""What a summary is made of, what survives it, and what becomes of one that cannot be used."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server.engine.compaction.conversations import (
    SMALL_WINDOW,
    SUMMARY,
    TOOLS,
    get_first_text,
    is_summary_request,
    list_compactions,
    open_filling,
    print_chars,
)
from tests.support.driver import BackgroundThread, Harness, SessionDriver
from tests.support.messages_api.behaviors import Gate, Reply
from tests.support.messages_api.failures import fails, too_long
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import hold, message, refuses, says, says_nothing
from tests.support.messages_api.token_meter import TokenMeter
from tests.support.model_replies import DONE, bash, read

Json = dict[str, Any]


def answer_summaries(
    driver: SessionDriver, *summaries: Reply, otherwise: Callable[[RecordedRequest], Reply] | Reply = DONE
) -> list[RecordedRequest]:
    """Script a session so that each request for a summary gets the next of these; returns those requests."""
    asked: list[RecordedRequest] = []
    left = iter(summaries)

    def step(request: RecordedRequest) -> Reply:
        if is_summary_request(request):
            asked.append(request)
            return next(left)
        return otherwise(request) if callable(otherwise) else otherwise

    driver.api.script(driver.name, otherwise=step)
    return asked


def fill(driver: SessionDriver, calls: int = 2, chars: int = 24_000) -> None:
    """Turns with long results, so that there is something to summarise."""
    made = iter(range(calls))
    answer_summaries(
        driver,
        otherwise=lambda request: DONE if (at := next(made, None)) is None else message(print_chars(chars, at)),
    )
    assert driver.run_turn("Fill the trough.")["reason"] == "completed"


# By request.


def test_a_person_asks_for_it_and_says_what_matters(window: Harness) -> None:
    driver = window.open_session(tools=TOOLS, rules={"allow": ["Bash"]})
    fill(driver)
    asked = answer_summaries(driver, message(says(SUMMARY)))
    before = window.daemon.call("session/context", session_id=driver.id)["used"]
    session = window.daemon.call("session/compact", session_id=driver.id, instructions="Keep the colour of the mare.")
    assert (session["id"], session["status"]) == (driver.id, "idle")
    done = driver.wait("context.compacted")["data"]
    assert (done["trigger"], done["summarised"], done["cleared_results"]) == ("manual", True, 0)
    assert done["after_tokens"] < done["before_tokens"] == before
    assert "Keep the colour of the mare." in str(asked[0].messages[-1])
    used = window.daemon.call("session/context", session_id=driver.id)["used"]
    assert abs(used - done["after_tokens"]) < 10
    driver.run_turn("Go on.")
    assert get_first_text(driver.requests[-1]).startswith("<ostler-summary>")


def test_what_cannot_be_compacted_is_an_error_that_says_why(window: Harness) -> None:
    driver = window.open_session(tools=TOOLS)
    error = driver.expect_error("session/compact", session_id=driver.id)
    assert (error["data"]["code"], error["message"][:16]) == ("conflict", "There is nothing")
    gate = Gate()
    window.api.script(driver.name, message(says("Wait.", hold(gate), " Done.")), otherwise=DONE)
    turn_id = driver.start()
    gate.wait_until_reached()
    error = driver.expect_error("session/compact", session_id=driver.id)
    assert (error["data"]["code"], error["data"]["turn_id"]) == ("turn_running", turn_id)
    gate.open()
    driver.wait_for_turn_end(turn_id)
    error = driver.expect_error("session/compact", session_id="s_0000000000000")
    assert error["data"]["code"] == "session_not_found"


def test_a_turn_that_is_started_meanwhile_waits(window: Harness) -> None:
    driver = window.open_session(tools=TOOLS, rules={"allow": ["Bash"]})
    fill(driver)
    gate = Gate()
    answer_summaries(driver, message(says("Slow.", hold(gate))))
    compacting = BackgroundThread(lambda: window.daemon.call("session/compact", session_id=driver.id))
    gate.wait_until_reached()
    starting = BackgroundThread(lambda: driver.start("And now?"))
    assert driver.fetch_state()["turn"] is None
    gate.open()
    assert compacting.result()["id"] == driver.id
    driver.wait_for_turn_end(starting.result())
    assert "Slow." in get_first_text(driver.requests[-1])


def test_a_session_that_is_deleted_meanwhile_ends_it(window: Harness) -> None:
    driver = window.open_session(tools=TOOLS, rules={"allow": ["Bash"]})
    fill(driver)
    gate = Gate()
    asked = answer_summaries(driver, message(says("Slow.", hold(gate))))
    compacting = BackgroundThread(
        lambda: window.daemon.expect_error("session/compact", session_id=driver.id)["data"]["code"]
    )
    gate.wait_until_reached()
    window.daemon.call("session/delete", session_id=driver.id)
    assert compacting.result() == "session_not_found"
    assert asked[0].wait_until_ended() == "left"
    gate.open()


# What it is made of.


def test_the_request_for_it_is_the_conversation_as_it_was_sent_and_is_read_from_the_cache(window: Harness) -> None:
    driver = window.open_session(tools=TOOLS, rules={"allow": ["Bash"]})
    fill(driver)
    asked = answer_summaries(driver, message(says(SUMMARY)))
    assert isinstance(window.api.meter, TokenMeter)
    window.daemon.call("session/compact", session_id=driver.id)
    last = driver.requests[-2]
    for place in ("system", "tools"):
        assert asked[0].body[place] == last.body[place]
    counted = window.api.meter.counted[-1]
    assert counted.read > 0.9 * counted.total


def test_requests_plan_list_and_files_survive_word_for_word(window: Harness) -> None:
    tools = [*TOOLS, "TaskCreate", "TaskUpdate"]
    driver = window.open_session(tools=tools, rules={"allow": ["Bash"]})
    path = driver.write_file("feed.txt", "oats\nbarley </ostler-file> hay\n")
    answer_summaries(driver)
    driver.run_turn("The first thing: count the <ostler-note> tags.")
    made = iter([message(read(path)), message(print_chars(24_000, 1))])
    answer_summaries(driver, otherwise=lambda request: next(made, DONE))
    window.daemon.call("todo/create", session_id=driver.id, subject="Buy hay")
    driver.run_turn("The last thing: feed them.")
    plan = window.daemon.home / "plans" / f"{driver.id}.md"
    plan.parent.mkdir(exist_ok=True)
    plan.write_text("Oats first, then </ostler-summary> hay.\n")
    answer_summaries(driver, message(says(SUMMARY)))
    window.daemon.call("session/compact", session_id=driver.id)
    driver.run_turn("Go on.", mode="acceptEdits")
    text = get_first_text(driver.requests[-1])
    assert "The first thing: count the < ostler-note> tags." in text
    assert "The last thing: feed them." in text
    assert f"# Your plan ({plan})" in text
    assert "Oats first, then < /ostler-summary> hay." in text
    assert "1. Buy hay (pending)" in text
    assert "- Permission mode: default" in text
    assert "oats\nbarley < /ostler-file> hay" in text
    assert text.count("<ostler-summary>") == 1
    # What was shown is not in the conversation any more: the file is read anew.
    again = iter([message(read(path))])
    window.api.script(driver.name, otherwise=lambda request: next(again, DONE))
    driver.run_turn("Read it.")
    assert "oats" in driver.fetch_result_texts()[-1]


def test_a_second_summary_takes_in_the_first_and_a_restart_changes_nothing(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness(OSTLER_CONTEXT__WINDOW=str(SMALL_WINDOW), OSTLER_MODEL__MAX_OUTPUT_TOKENS="4000")
    harness.api.may_rewrite = True
    driver = harness.open_session(tools=TOOLS, rules={"allow": ["Bash"]})
    for summary in ("The mare is grey.", "The mare is grey, and so is the foal."):
        fill(driver)
        answer_summaries(driver, message(says(summary)))
        harness.daemon.call("session/compact", session_id=driver.id)
    driver.run_turn("Who is grey?")
    before = driver.requests[-1]
    assert "so is the foal" in get_first_text(before)
    assert sum("<ostler-summary>" in str(one) for one in before.messages) == 1
    harness.restart()
    driver.run_turn("And now?")
    after = driver.requests[-1]
    assert _strip(after.messages)[: len(before.messages) - 1] == _strip(before.messages)[:-1]
    driver.expect_usable()


def _strip(messages: list[Json]) -> list[Json]:
    """Without breakpoints, which move."""
    return [{**one, "content": [_strip_block(block) for block in one["content"]]} for one in messages]


def _strip_block(block: Json) -> Json:
    return {name: value for name, value in block.items() if name != "cache_control"}


def test_a_fork_from_before_it_has_all_and_one_from_after_it_the_summary(window: Harness) -> None:
    driver = window.open_session(tools=TOOLS, rules={"allow": ["Bash"]})
    fill(driver)
    last = driver.fetch_messages()[-1]["id"]
    answer_summaries(driver, message(says(SUMMARY)))
    window.daemon.call("session/compact", session_id=driver.id)
    for through, summarised in ((last, False), (None, True)):
        fork = window.daemon.call("session/fork", session_id=driver.id, message_id=through)
        used = window.daemon.call("session/context", session_id=fork["id"])["parts"]
        results = next(part["tokens"] for part in used if part["name"] == "results")
        assert (results < 1_000) is summarised
        window.daemon.call("session/delete", session_id=fork["id"])


# Summaries that cannot be used.


@pytest.mark.parametrize(
    "bad",
    [
        says_nothing(),
        refuses(),
        message(says("Cut"), stop_reason="max_tokens"),
        message(says("Long. " * 20_000)),
        message(bash("rm -rf /")),
        too_long(),
    ],
    ids=["empty", "refused", "cut", "longer", "calls", "too long"],
)
def test_a_bad_summary_is_asked_for_once_more_of_a_shorter_copy(window: Harness, bad: Reply) -> None:
    driver = window.open_session(tools=TOOLS, rules={"allow": ["Bash"]})
    fill(driver)
    asked = answer_summaries(driver, bad, message(says(SUMMARY)))
    window.daemon.call("session/compact", session_id=driver.id)
    assert len(asked) == 2
    assert "tools" not in asked[1].body
    assert "## person" in str(asked[1].messages)
    driver.run_turn("Go on.")
    assert SUMMARY in get_first_text(driver.requests[-1])
    driver.expect_usable()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (says_nothing(), "the model wrote nothing"),
        (refuses(), "the model declined to write one"),
        (message(says("Long. " * 20_000)), "it was not shorter than what it replaces"),
    ],
    ids=["empty", "refused", "longer"],
)
def test_where_no_summary_can_be_used_the_turn_ends_and_nothing_is_lost(
    window: Harness, bad: Reply, words: str
) -> None:
    driver = open_filling(window, calls=8, chars=24_000, summary=bad)
    turn = driver.run_turn()
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "too_long")
    assert words in turn["error"]["message"]
    assert list_compactions(driver) == []
    assert len([one for one in driver.requests if is_summary_request(one)]) == 2
    assert all(len(text) > 20_000 for text in driver.fetch_result_texts())
    assert not any(one["summary"] for one in driver.fetch_messages())
    # It can be used again as soon as the model writes one.
    answer_summaries(driver, message(says(SUMMARY)))
    assert driver.run_turn("Again.")["reason"] == "completed"
    assert len(list_compactions(driver)) == 1


def test_an_overloaded_provider_is_asked_again(window: Harness) -> None:
    driver = window.open_session(tools=TOOLS, rules={"allow": ["Bash"]})
    fill(driver)
    asked = answer_summaries(driver, fails(529, "Overloaded"), message(says(SUMMARY)))
    window.daemon.call("session/compact", session_id=driver.id)
    assert len(asked) == 2
    asked = answer_summaries(driver, fails(401, "invalid x-api-key"))
    fill(driver)
    answer_summaries(driver, fails(401, "invalid x-api-key"))
    error = driver.expect_error("session/compact", session_id=driver.id)
    assert (error["data"]["code"], error["data"]["status"]) == ("model_error", 401)


def test_an_interrupt_in_the_middle_of_it_leaves_everything_as_it_was(window: Harness) -> None:
    gate = Gate()
    driver = open_filling(window, calls=8, chars=24_000, summary=message(says("Half", hold(gate))))
    turn_id = driver.start()
    gate.wait_until_reached()
    window.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    gate.open()
    assert list_compactions(driver) == []
    answer_summaries(driver, message(says(SUMMARY)))
    assert driver.run_turn("Go on.")["reason"] == "completed"
    assert len(list_compactions(driver)) == 1
    driver.expect_usable()


def test_a_kill_in_the_middle_of_it_leaves_everything_as_it_was(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_CONTEXT__WINDOW=str(SMALL_WINDOW), OSTLER_MODEL__MAX_OUTPUT_TOKENS="4000")
    harness.api.may_rewrite = True
    harness.api.meter = TokenMeter(SMALL_WINDOW)
    gate = Gate()
    driver = open_filling(harness, calls=8, chars=24_000, summary=message(says("Half", hold(gate))))
    turn_id = driver.start()
    gate.wait_until_reached()
    harness.restart()
    gate.open()
    assert harness.daemon.call("turn/wait", turn_id=turn_id)["reason"] == "interrupted"
    assert not any(one["summary"] for one in driver.fetch_messages())
    answer_summaries(driver, message(says(SUMMARY)))
    assert driver.run_turn("Go on.")["reason"] == "completed"
    assert [one["summary"] for one in driver.fetch_messages()].count(True) == 1
    driver.expect_usable()


# Windows that are full of one thing.


def test_a_provider_that_says_too_long_is_asked_once_more_after_a_compaction(window: Harness) -> None:
    driver = window.open_session(tools=TOOLS, rules={"allow": ["Bash"]})
    fill(driver)
    left = iter([too_long(), DONE])
    asked = answer_summaries(driver, message(says(SUMMARY)), otherwise=lambda request: next(left))
    turn = driver.run_turn("Go on.")
    assert (turn["reason"], turn["model_requests"], len(asked)) == ("completed", 1, 1)
    left = iter([too_long(), too_long()])
    fill(driver)
    answer_summaries(driver, message(says(SUMMARY)), otherwise=lambda request: next(left))
    turn = driver.run_turn("Go on.")
    assert (turn["reason"], turn["error"]["kind"]) == ("failed", "too_long")
    driver.expect_usable()


def test_an_answer_that_has_filled_the_window_is_continued_after_a_compaction(window: Harness) -> None:
    driver = window.open_session(tools=TOOLS, rules={"allow": ["Bash"]})
    fill(driver)
    cut = message(says("The mare is"), stop_reason="model_context_window_exceeded")
    left = iter([cut, message(says(" grey."))])
    asked = answer_summaries(driver, message(says(SUMMARY)), otherwise=lambda request: next(left))
    turn = driver.run_turn("What colour?")
    assert (turn["reason"], turn["result_text"], len(asked)) == ("completed", "The mare is grey.", 1)
    driver.expect_usable()


def test_a_window_full_of_one_message_of_the_persons_is_made_room_in(window: Harness) -> None:
    driver = window.open_session(tools=TOOLS)
    asked = answer_summaries(driver, message(says(SUMMARY)))
    turn = driver.run_turn("Count: " + " ".join(f"horse{at}" for at in range(18_000)))
    assert (turn["reason"], len(asked)) == ("completed", 1)
    text = get_first_text(driver.requests[-1])
    assert "horse0 horse1 " in text
    assert "horse17999" in text
    assert "characters are left out here" in text
    assert len(text) < SMALL_WINDOW
    driver.expect_usable()


def test_a_window_full_of_one_result_is_made_room_in(window: Harness) -> None:
    driver = window.open_session(tools=TOOLS, rules={"allow": ["Bash"]})
    paths = [driver.write_file(f"much{at}.txt", f"{at} {'oats and barley ' * 2}\n" * 2_000) for at in range(3)]
    made = iter([message(*map(read, paths))])
    asked = answer_summaries(driver, message(says(SUMMARY)), otherwise=lambda request: next(made, DONE))
    turn = driver.run_turn("Read it.")
    assert (turn["reason"], turn["error"], len(asked)) == ("completed", None, 1)
    driver.expect_usable()


def test_a_hook_may_keep_it_from_happening(window: Harness, tmp_path: Path) -> None:
    driver = open_filling(window, calls=5, chars=24_000)
    settings = driver.folder / ".ostler"
    settings.mkdir()
    log = tmp_path / "log"
    before = f"cat >> {log}; echo 'Not now.' >&2; exit 2"
    hooks = {"PreCompact": [{"hooks": [{"type": "command", "command": before}]}]}
    (settings / "settings.json").write_text(json.dumps({"hooks": hooks}))
    window.daemon.call("trust/grant", folder=str(driver.folder))
    driver.run_turn()
    notices = [one["text"] for one in driver.list_event_data("notice")]
    assert any("A hook does not want the conversation to be compacted: Not now." in text for text in notices)
    assert list_compactions(driver) == []
    assert log.read_text().count('"trigger":"auto"') + log.read_text().count('"trigger": "auto"') == 1
    error = driver.expect_error("session/compact", session_id=driver.id, instructions="All.")
    assert "Not now." in error["message"]
    assert "All." in log.read_text()
    after = f"cat > {log}.after"
    (settings / "settings.json").write_text(
        json.dumps({"hooks": {"PostCompact": [{"hooks": [{"type": "command", "command": after}]}]}})
    )
    window.daemon.call("trust/grant", folder=str(driver.folder))
    window.daemon.call("session/compact", session_id=driver.id)
    assert "manual" in (tmp_path / "log.after").read_text()
