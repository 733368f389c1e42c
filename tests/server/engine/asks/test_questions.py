"""AskUserQuestion: what people are asked, what counts as an answer, and what the model is told of it."""

from typing import Any

import pytest

from ostler.protocol.errors import AskResolved
from tests.server.engine.asks.test_plans import settle_behind_its_back
from tests.support.crash import CrashSession
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.hooks import make_project_with_hook
from tests.support.messages_api.replies import Block, calls, message
from tests.support.model_replies import DONE

TEA: Json = {
    "question": "Which one?",
    "header": "Drink",
    "options": [{"label": "tea", "value": "t1"}, {"label": "coffee", "description": "black", "preview": "c[_]"}],
}
PARTS: Json = {
    "question": "Which parts?",
    "multiSelect": True,
    "options": [{"label": "a"}, {"label": "b"}, {"label": "c"}],
}


def ask_user(*questions: Json, **more: Any) -> Block:
    return calls("AskUserQuestion", {"questions": list(questions), **more})


def open_question(harness: Harness, *questions: Json, **session: Any) -> tuple[SessionDriver, str, Json]:
    driver = harness.open_session(message(ask_user(*questions)), otherwise=DONE, **session)
    turn_id = driver.start()
    return driver, turn_id, driver.wait_for_ask()


def test_answers_reach_the_model_in_words(harness: Harness) -> None:
    driver, turn_id, ask = open_question(harness, TEA, PARTS, mode="acceptEdits")
    assert (ask["kind"], ask["choices"], ask["message"]) == ("question", ["answer", "decline"], "2 questions")
    assert [question["question"] for question in ask["questions"]] == ["Which one?", "Which parts?"]
    assert (ask["call"]["tool"], ask["suggestions"], ask["destructive"]) == ("AskUserQuestion", [], False)
    answered = driver.answer(
        ask,
        "answer",
        answers={"Which one?": ["tea"], "Which parts?": ["a", "both"]},
        notes={"Which one?": "hot"},
    )
    assert answered["status"] == "resolved"
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert driver.fetch_result_texts() == [
        "Which one? tea (value: t1)\n  The person's note: hot\nWhich parts? a, in the person's own words: both"
    ]
    (call,) = [data["call"] for data in driver.list_event_data("tool.completed")]
    assert (call["decision"]["by"], call["decision"]["behavior"], call["is_error"]) == ("person", "allow", False)
    assert call["output"]["answers"] == {"Which one?": ["tea"], "Which parts?": ["a", "both"]}
    assert call["output"]["annotations"] == {"Which one?": {"notes": "hot", "preview": None}}


def test_a_question_may_be_left_out_and_a_preview_goes_with_its_option(harness: Harness) -> None:
    driver, turn_id, ask = open_question(harness, TEA, PARTS)
    driver.answer(ask, "answer", answers={"Which one?": ["coffee"], "Which parts?": []})
    driver.wait_for_turn_end(turn_id)
    assert driver.fetch_result_texts() == ["Which one? coffee\nWhich parts? (no answer)"]
    output = driver.list_event_data("tool.completed")[0]["call"]["output"]
    assert output["annotations"] == {"Which one?": {"notes": None, "preview": "c[_]"}}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"answers": {"Which two?": ["tea"]}}, "has 'Which two?', and the questions are 'Which one?'"),
        ({"answers": {"Which one?": ["tea"]}, "notes": {"Who?": "me"}}, "answer.notes: has 'Who?'"),
        ({"answers": {"Which one?": ["tea", "coffee"]}}, "has 2 answers to 'Which one?', which takes one"),
        ({"answers": {"Which one?": ["  "]}}, "has a blank answer"),
        ({"answers": {}}, "has none; `decline`"),
        ({"choice": "allow"}, "is 'allow', and this ask takes answer, decline"),
    ],
)
def test_what_does_not_fit_the_questions_is_refused_and_the_ask_stays_open(
    harness: Harness, answer: Json, words: str
) -> None:
    driver, turn_id, ask = open_question(harness, TEA)
    refused = driver.expect_error("ask/resolve", ask_id=ask["id"], answer={"choice": "answer", **answer})
    assert refused["code"] == -32602
    assert words in str(refused)
    assert harness.daemon.call("ask/get", ask_id=ask["id"]) == ask
    driver.answer(ask, "decline")
    driver.wait_for_turn_end(turn_id)


@pytest.mark.parametrize(
    ("message", "words"),
    [("ask again on Monday", "and said: ask again on Monday"), (None, "does not want to answer")],
)
def test_who_declines_is_no_end_of_the_turn(harness: Harness, message: str | None, words: str) -> None:
    driver, turn_id, ask = open_question(harness, TEA)
    driver.answer(ask, "decline", **({"message": message} if message else {}))
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert words in driver.fetch_result_texts()[0]
    (call,) = [data["call"] for data in driver.list_event_data("tool.completed")]
    assert (call["is_error"], call["decision"]["behavior"], call["decision"]["by"]) == (True, "deny", "person")


def test_the_first_answer_wins_and_the_second_is_told(harness: Harness) -> None:
    driver, turn_id, ask = open_question(harness, TEA)
    driver.answer(ask, "answer", answers={"Which one?": ["tea"]})
    late = {"choice": "answer", "answers": {"Which one?": ["coffee"]}}
    error = driver.expect_error("ask/resolve", ask_id=ask["id"], answer=late)
    assert error["data"]["code"] == AskResolved.word
    driver.wait_for_turn_end(turn_id)
    assert "tea" in driver.fetch_result_texts()[0]


@pytest.mark.parametrize("session", [{"on_ask": "deny"}, {"mode": "dontAsk"}])
def test_where_nobody_can_be_asked_it_is_an_error_that_says_so(harness: Harness, session: Json) -> None:
    driver = harness.open_session(message(ask_user(TEA)), otherwise=DONE, **session)
    assert driver.run_turn()["reason"] == "completed"
    (result,) = driver.fetch_results()
    assert result["is_error"]
    assert "Only a person can answer it" in driver.fetch_result_texts()[0]
    assert harness.daemon.call("ask/list", session_id=driver.id, status=None)["asks"] == []


def test_a_deny_rule_denies_and_no_allow_rule_answers(harness: Harness) -> None:
    allowed, turn_id, ask = open_question(harness, TEA, rules={"allow": ["AskUserQuestion"]})
    assert ask["kind"] == "question"
    allowed.answer(ask, "decline")
    allowed.wait_for_turn_end(turn_id)
    asking, turn_id, ask = open_question(harness, TEA, rules={"ask": ["AskUserQuestion"]})
    assert ask["kind"] == "question"
    asking.answer(ask, "answer", answers={"Which one?": ["tea"]})
    assert asking.wait_for_turn_end(turn_id)["reason"] == "completed"
    denied = harness.open_session(message(ask_user(TEA)), otherwise=DONE, rules={"deny": ["AskUserQuestion"]})
    denied.run_turn()
    assert "a rule denies it" in denied.fetch_result_texts()[0]


@pytest.mark.parametrize(
    ("questions", "words"),
    [
        ([], "questions"),
        ([TEA] * 5, "questions"),
        ([TEA, TEA], "Two questions are the same: 'Which one?'"),
        ([{**TEA, "options": [{"label": "tea"}]}], "options"),
        ([{**TEA, "options": [{"label": "tea"}, {"label": "tea"}]}], "are both labelled 'tea'"),
        ([{**TEA, "header": "A long header"}], "header"),
        ([{**TEA, "question": "  "}], "A question is blank"),
    ],
)
def test_questions_that_cannot_be_asked_are_errors_for_the_model(
    harness: Harness, questions: list[Json], words: str
) -> None:
    driver = harness.open_session(message(ask_user(*questions)), otherwise=DONE)
    assert driver.run_turn()["reason"] == "completed"
    assert words in driver.fetch_result_texts()[0]
    assert driver.list_event_data("ask.opened") == []


def test_a_hook_can_refuse_for_people_and_cannot_answer_for_them(harness: Harness) -> None:
    says_no = """echo '{"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "not at night"}}}'"""
    folder = make_project_with_hook(harness, "PermissionRequest", says_no)
    driver = harness.open_session(message(ask_user(TEA)), otherwise=DONE, folder=folder, trust=True)
    assert driver.run_turn()["reason"] == "completed"
    assert "not at night" in driver.fetch_result_texts()[0]
    says_yes = """echo '{"hookSpecificOutput": {"decision": {"behavior": "allow"}}}'"""
    folder = make_project_with_hook(harness, "PermissionRequest", says_yes)
    driver, turn_id, ask = open_question(harness, TEA, folder=folder, trust=True)
    driver.answer(ask, "answer", answers={"Which one?": ["tea"]})
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"


def test_a_question_outlives_a_crash_and_is_answered_after_it(scene: CrashSession) -> None:
    scene.script(message(ask_user(TEA)))
    scene.create()
    turn_id = scene.start_turn()
    assert scene.wait_for_turn_rest(turn_id)["status"] == "waiting"
    scene.wait_for("message.completed", lambda data: data["message"]["role"] == "assistant")
    (ask,) = scene.list_asks()
    scene.crash()
    assert scene.list_asks() == [ask]
    answer = {"choice": "answer", "answers": {"Which one?": ["tea"]}}
    scene.daemon.call("ask/resolve", ask_id=ask["id"], answer=answer)
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert "Which one? tea" in str(scene.fetch_results())
    scene.expect_recovered()


def test_an_interrupt_cancels_the_question(harness: Harness) -> None:
    driver, turn_id, _ = open_question(harness, TEA)
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait("ask.resolved")["data"]["ask"]["status"] == "cancelled"
    driver.wait_for_turn_end(turn_id)


@pytest.mark.parametrize("at", ["waiting", "running"])
def test_an_answer_reaches_the_model_though_the_daemon_dies_over_it(scene: CrashSession, at: str) -> None:
    """Killed after the answer was stored, and before or after its call had begun."""
    scene.script(message(ask_user(TEA)))
    scene.create()
    turn_id = scene.start_turn()
    assert scene.wait_for_turn_rest(turn_id)["status"] == "waiting"
    scene.wait_for("message.completed", lambda data: data["message"]["role"] == "assistant")
    (ask,) = scene.list_asks()
    scene.daemon.kill()
    settle_behind_its_back(scene, ask["id"], {"choice": "answer", "answers": {"Which one?": ["tea"]}}, at)
    scene.daemon.start()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert [text for text in scene.fetch_results().values() if "Which one? tea" in text] == [
        "Which one? tea (value: t1)"
    ]
    scene.expect_recovered()
