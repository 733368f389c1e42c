"""Asks: opened, shown, answered in every way."""

from typing import Any

import pytest

from ostler.protocol import times
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.hooks import make_project_with_hook
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, bash
from tests.support.projects import open_session_with_calls


def open_ask(harness: Harness, *commands: str, **session: Any) -> tuple[SessionDriver, str, Json]:
    """A session whose first message runs these commands, one message each, its turn, and the first ask."""
    driver = harness.open_session(*(message(bash(command)) for command in commands), otherwise=DONE, **session)
    turn_id = driver.start()
    return driver, turn_id, driver.wait_for_ask()


def test_an_ask_says_all_that_a_person_needs(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    assert (ask["kind"], ask["status"], ask["session_id"], ask["turn_id"]) == ("permission", "open", driver.id, turn_id)
    assert (ask["call"]["tool"], ask["call"]["input"]) == ("Bash", {"command": "touch it"})
    assert ask["choices"] == ["allow", "allow_always", "deny", "deny_always"]
    assert ask["suggestions"][0] == {"rule": "Bash(touch it)", "scope": "session"}
    assert (ask["answer"], ask["answered_by"], ask["expires_at"]) == (None, None, None)
    assert "touch it" in ask["message"]
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)


def test_an_open_ask_is_shown_everywhere(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    driver.wait("turn.updated", lambda data: data["turn"]["status"] == "waiting")
    state = driver.fetch_state()
    assert (state["status"], state["turn"]["status"]) == ("waiting", "waiting")
    assert state["asks"] == [ask]
    assert harness.daemon.call("ask/list", session_id=driver.id)["asks"] == [ask]
    assert ask in harness.daemon.call("ask/list")["asks"]
    assert harness.daemon.call("ask/get", ask_id=ask["id"]) == ask
    assert harness.daemon.call("turn/get", turn_id=turn_id)["status"] == "waiting"
    with harness.daemon.follow(f"?session={driver.id}&after=0") as late:
        assert late.wait_for("ask.opened")["data"]["ask"] == ask
    answered = driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)
    assert harness.daemon.call("ask/list", session_id=driver.id)["asks"] == []
    assert harness.daemon.call("ask/list", session_id=driver.id, status="resolved")["asks"] == [answered]
    assert harness.daemon.call("ask/list", session_id=driver.id, status=None)["asks"] == [answered]
    driver.expect_usable()


def test_allow_runs_the_call_once(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it", "touch it")
    answered = driver.answer(ask, "allow")
    assert (answered["status"], answered["answer"]) == ("resolved", {"choice": "allow"})
    assert (answered["answered_by"], answered["answered_by_name"]) == ("somebody", None)
    assert driver.wait("ask.resolved")["data"]["ask"] == answered
    second = driver.wait_for_ask()
    assert (driver.folder / "it").exists()
    call = driver.list_event_data("tool.completed")[0]["call"]
    assert (call["decision"]["behavior"], call["decision"]["by"]) == ("allow", "person")
    driver.answer(second, "allow")
    assert driver.wait_for_turn_end(turn_id)["denials"] == []
    driver.expect_usable()


def test_tool_started_comes_after_the_answer(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)
    order = driver.list_event_types("tool.queued", "ask.opened", "ask.resolved", "tool.started", "tool.completed")
    assert order == ["tool.queued", "ask.opened", "ask.resolved", "tool.started", "tool.completed"]
    statuses = [data["turn"]["status"] for data in driver.list_event_data("turn.updated")]
    assert statuses == ["waiting", "running"]
    sessions = [data["session"]["status"] for data in driver.list_event_data("session.updated")]
    assert sessions[:3] == ["running", "waiting", "running"]


def test_allow_always_is_remembered_for_the_session(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it", "touch it")
    driver.answer(ask, "allow_always", scope="session")
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["tool_calls"]) == ("completed", 2)
    assert driver.list_event_types("ask.opened") == ["ask.opened"]
    second = driver.list_event_data("tool.completed")[1]["call"]
    assert second["decision"] == {
        "behavior": "allow",
        "by": "rule",
        "rule": "Bash(touch it)",
        "source": "session",
        "reason": None,
        "decided_at": second["decision"]["decided_at"],
    }
    driver.expect_usable()


@pytest.mark.parametrize("choice", ["allow", "deny"])
def test_an_answer_and_the_decision_that_it_makes_say_when(harness: Harness, choice: str) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    before = times.now()
    answered = driver.answer(ask, choice)
    after = times.now()
    driver.wait_for_turn_end(turn_id)
    assert ask["answered_at"] is None
    assert ask["opened_at"] <= before <= answered["answered_at"] <= after
    assert harness.daemon.call("ask/get", ask_id=ask["id"])["answered_at"] == answered["answered_at"]
    assert driver.list_event_data("tool.completed")[0]["call"]["decision"]["decided_at"] == answered["answered_at"]


def test_a_decision_that_needs_nobody_says_when(harness: Harness) -> None:
    before = times.now()
    driver = harness.open_session(
        message(bash("touch it"), bash("rm x")), DONE, rules={"allow": ["Bash"], "deny": ["Bash(rm:*)"]}
    )
    driver.run_turn()
    after = times.now()
    made = [data["call"]["decision"]["decided_at"] for data in driver.list_event_data("tool.completed")]
    assert len(made) == 2
    assert all(before <= each <= after for each in made)


def test_an_ask_that_an_interrupt_settles_says_when(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    before = times.now()
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    driver.wait_for_turn_end(turn_id)
    stored = harness.daemon.call("ask/get", ask_id=ask["id"])
    assert (stored["status"], stored["answered_at"] >= before) == ("cancelled", True)


def test_a_rule_of_the_persons_own_is_remembered(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it", "touch other")
    driver.answer(ask, "allow_always", rule="Bash")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert driver.list_event_types("ask.opened") == ["ask.opened"]
    assert (driver.folder / "other").exists()


def test_deny_always_is_remembered_and_needs_no_second_ask(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it", "touch it")
    driver.answer(ask, "deny_always", message="never do that")
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], len(turn["denials"])) == ("completed", 2)
    assert driver.list_event_types("ask.opened") == ["ask.opened"]
    first, second = driver.fetch_result_texts()
    assert "never do that" in first
    assert "Bash(touch it)" in second
    assert not (driver.folder / "it").exists()
    assert driver.list_event_data("tool.completed")[1]["call"]["decision"]["by"] == "rule"
    driver.expect_usable()


@pytest.mark.parametrize(
    "answer",
    [
        {"choice": "perhaps"},
        {"choice": "approve"},
        {},
        {"choice": "allow_always", "rule": "no rule at all ((("},
        {"choice": "allow", "input": {"cmd": "x"}},
        {"choice": "allow", "input": {"command": 5}},
        {"choice": "allow", "unknown": 1},
    ],
    ids=str,
)
def test_an_answer_that_is_none_leaves_the_ask_open(harness: Harness, answer: Json) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    error = driver.expect_error("ask/resolve", ask_id=ask["id"], answer=answer)
    assert error["code"] == -32602
    assert error["data"]["errors"]
    assert driver.fetch_state()["asks"] == [ask]
    driver.answer(ask, "allow")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"


def test_changed_input_is_what_runs(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    driver.answer(ask, "allow", input={"command": "touch other"})
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert ((driver.folder / "it").exists(), (driver.folder / "other").exists()) == (False, True)
    call = driver.list_event_data("tool.completed")[0]["call"]
    assert call["input"] == {"command": "touch other"}
    # The history keeps what the model wrote.
    assert driver.fetch_messages()[1]["content"][0]["input"] == {"command": "touch it"}
    driver.expect_usable()


def test_the_model_is_told_that_another_input_ran(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    driver.answer(ask, "allow", input={"command": "touch other"})
    driver.wait_for_turn_end(turn_id)
    result, *notes = driver.requests[1].messages[-1]["content"]
    [told] = [each["text"] for each in notes if "changed the input" in each["text"]]
    assert result["tool_use_id"] in told
    assert "touch other" in told
    driver.expect_usable()


def test_changed_input_passes_the_deny_rules_again(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it", rules={"deny": ["Bash(touch forbidden)"]})
    driver.answer(ask, "allow", input={"command": "touch forbidden"})
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], len(turn["denials"])) == ("completed", 1)
    assert not (driver.folder / "forbidden").exists()
    assert "Bash(touch forbidden)" in driver.fetch_result_texts()[0]
    driver.expect_usable()


def test_changed_input_passes_the_tools_own_checks_again(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    driver.answer(ask, "allow", input={"command": "   "})
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert "empty" in driver.fetch_result_texts()[0]
    driver.expect_usable()


def test_a_deny_rule_that_came_while_the_ask_was_open_counts(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    harness.daemon.call("session/update", session_id=driver.id, rules={"deny": ["Bash(touch it)"]})
    driver.answer(ask, "allow")
    turn = driver.wait_for_turn_end(turn_id)
    assert len(turn["denials"]) == 1
    assert not (driver.folder / "it").exists()
    driver.expect_usable()


def test_deny_with_words_goes_on_with_them(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    driver.answer(ask, "deny", message="use pnpm")
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    assert "use pnpm" in driver.fetch_result_texts()[0]
    assert driver.fetch_result_texts()[0].startswith("<tool_use_error>")
    [denial] = turn["denials"]
    assert (denial["tool"], denial["reason"]) == ("Bash", "use pnpm")
    assert driver.list_event_types().count("tool.started") == 0
    driver.expect_usable()


def test_deny_without_words_ends_the_turn(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    driver.answer(ask, "deny")
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["error"], len(turn["denials"])) == ("interrupted", None, 1)
    assert len(driver.requests) == 1
    assert driver.outline_messages() == [("user", ["text"]), ("assistant", ["tool_use"]), ("user", ["tool_result"])]
    driver.expect_usable()


@pytest.mark.parametrize("choice", ["deny", "deny_always"])
@pytest.mark.parametrize("words", ["", " \n"])
def test_deny_with_words_that_say_nothing_ends_the_turn(harness: Harness, choice: str, words: str) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    driver.answer(ask, choice, message=words)
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], len(driver.requests)) == ("interrupted", 1)
    assert turn["denials"][0]["reason"].startswith("The person said no")
    driver.expect_usable()


def test_deny_without_words_stops_the_calls_beside_it(harness: Harness) -> None:
    driver = harness.open_session()
    gate = calls("Gate", {"path": driver.get_gate_path("never"), "safe": True})
    harness.api.script(driver.name, message(gate, calls("TestingPermission", {}), bash("touch it")))
    turn_id = driver.start()
    driver.wait_at_gate("never")
    driver.answer(driver.wait_for_ask(), "deny")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert all(result["is_error"] for result in driver.fetch_results())
    running, refused, waiting = driver.fetch_result_texts()
    why = "Stopped, since the person said no to another call and so ended the turn,"
    assert f"{why} before it was finished." in running
    assert "The person said no to this call." in refused
    assert f"{why} before it started." in waiting
    driver.expect_usable()


def test_deny_without_words_can_let_the_turn_go_on(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    driver.answer(ask, "deny", interrupt=False)
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], len(turn["denials"])) == ("completed", 1)
    assert "said no" in driver.fetch_result_texts()[0]
    driver.expect_usable()


def test_deny_with_words_can_end_the_turn_all_the_same(harness: Harness) -> None:
    driver, turn_id, ask = open_ask(harness, "touch it")
    driver.answer(ask, "deny", message="enough", interrupt=True)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert "enough" in driver.fetch_result_texts()[0]
    driver.expect_usable()


def test_an_ask_shows_the_change_to_a_file(harness: Harness) -> None:
    driver = harness.open_session()
    path = driver.write_file("a.txt", "alpha\n")
    edit = {"file_path": path, "old_string": "alpha", "new_string": "beta"}
    harness.api.script(driver.name, message(calls("Read", {"file_path": path})), message(calls("Edit", edit)), DONE)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert "-alpha" in ask["diff"]
    assert "+beta" in ask["diff"]
    assert (driver.folder / "a.txt").read_text() == "alpha\n"
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)
    assert (driver.folder / "a.txt").read_text() == "beta\n"
    changed = driver.list_event_data("file.changed")
    assert [change["path"] for change in changed] == [path]
    driver.expect_usable()


# Nobody to ask.


@pytest.mark.parametrize("how", [{"on_ask": "deny"}, {"mode": "dontAsk"}], ids=["on_ask", "dontAsk"])
def test_where_nobody_is_asked_the_denial_names_the_rule_that_would_allow(harness: Harness, how: Json) -> None:
    driver = harness.open_session(message(bash("touch it")), DONE, **how)
    turn = driver.run_turn()
    assert turn["reason"] == "completed"
    [denial] = turn["denials"]
    assert (denial["tool"], denial["input"], denial["allow_with"]) == (
        "Bash",
        {"command": "touch it"},
        "Bash(touch it)",
    )
    assert driver.list_event_types("ask.opened") == []
    assert "Bash(touch it)" in driver.fetch_result_texts()[0]
    assert not (driver.folder / "it").exists()
    assert harness.daemon.call("turn/get", turn_id=turn["id"])["denials"] == turn["denials"]
    driver.expect_usable()


def test_a_rule_allows_where_nobody_is_asked(harness: Harness) -> None:
    driver = harness.open_session(message(bash("touch it")), DONE, on_ask="deny", rules={"allow": ["Bash(touch it)"]})
    assert driver.run_turn()["denials"] == []
    assert (driver.folder / "it").exists()


def test_an_ask_that_nobody_answers_expires_as_a_no(impatient_harness: Harness) -> None:
    driver, turn_id, ask = open_ask(impatient_harness, "touch it")
    assert ask["expires_at"] is not None
    expired = driver.wait("ask.resolved")["data"]["ask"]
    assert (expired["id"], expired["status"], expired["answer"]["choice"]) == (ask["id"], "expired", "deny")
    turn = driver.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"], len(turn["denials"])) == ("completed", "Done.", 1)
    assert "Nobody answered in time" in driver.fetch_result_texts()[0]
    error = driver.expect_error("ask/resolve", ask_id=ask["id"], answer={"choice": "allow"})
    assert (error["data"]["code"], error["data"]["ask"]["status"]) == ("ask_resolved", "expired")
    driver.expect_usable()


def test_a_question_of_trust_that_nobody_answers_expires_as_its_own_no(impatient_harness: Harness) -> None:
    folder = make_project_with_hook(impatient_harness, "PreToolUse", {})
    driver = open_session_with_calls(impatient_harness, bash("ls"), folder=folder)
    turn = driver.run_turn()
    (expired,) = [data["ask"] for data in driver.list_event_data("ask.resolved")]
    assert (expired["kind"], expired["status"], expired["answer"]) == ("trust", "expired", {"choice": "restrict"})
    assert expired["answer"]["choice"] in expired["choices"]
    assert (turn["reason"], driver.list_event_data("hook.ran")) == ("completed", [])


def test_an_unknown_ask_is_named(harness: Harness) -> None:
    for method, more in (("ask/get", {}), ("ask/resolve", {"answer": {"choice": "allow"}})):
        error = harness.daemon.expect_error(method, ask_id="k_00000000000000000000", **more)
        assert error["data"]["code"] == "ask_not_found"


# What cannot be undone.


@pytest.mark.parametrize(("command", "destructive"), [("rm -rf precious", True), ("sudo rm x", True), ("make", False)])
def test_an_ask_says_whether_a_command_can_be_undone(harness: Harness, command: str, destructive: bool) -> None:
    driver, turn_id, ask = open_ask(harness, command)
    assert ask["destructive"] is destructive
    driver.answer(ask, "deny", message="no")
    driver.wait_for_turn_end(turn_id)


def test_an_ask_says_so_of_a_command_that_is_watched(harness: Harness) -> None:
    watch = {"command": "rm -rf precious", "description": "it", "timeout": 1000}
    driver = harness.open_session(message(calls("Monitor", watch)), DONE)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert ask["destructive"] is True
    driver.answer(ask, "deny", message="no")
    driver.wait_for_turn_end(turn_id)
