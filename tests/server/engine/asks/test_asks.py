"""Asks: opened, shown, answered in every way."""

from typing import Any

import pytest

from ostler.protocol import times
from tests.support.driver import Json, Stage, Talk
from tests.support.hooks import hooked
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, bash
from tests.support.projects import talk_of


def asked(stage: Stage, *commands: str, **session: Any) -> tuple[Talk, str, Json]:
    """A talk whose first message runs these commands, one message each, its turn, and the first ask."""
    talk = stage.talk(*(message(bash(command)) for command in commands), otherwise=DONE, **session)
    turn_id = talk.start()
    return talk, turn_id, talk.ask()


def test_an_ask_says_all_that_a_person_needs(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    assert (ask["kind"], ask["status"], ask["session_id"], ask["turn_id"]) == ("permission", "open", talk.id, turn_id)
    assert (ask["call"]["tool"], ask["call"]["input"]) == ("Bash", {"command": "touch it"})
    assert ask["choices"] == ["allow", "allow_always", "deny", "deny_always"]
    assert ask["suggestions"][0] == {"rule": "Bash(touch:*)", "scope": "session"}
    assert (ask["answer"], ask["answered_by"], ask["expires_at"]) == (None, None, None)
    assert "touch it" in ask["message"]
    talk.answer(ask, "allow")
    talk.ended(turn_id)


def test_an_open_ask_is_shown_everywhere(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    talk.wait("turn.updated", lambda data: data["turn"]["status"] == "waiting")
    state = talk.state()
    assert (state["status"], state["turn"]["status"]) == ("waiting", "waiting")
    assert state["asks"] == [ask]
    assert stage.daemon.call("ask/list", session_id=talk.id)["asks"] == [ask]
    assert ask in stage.daemon.call("ask/list")["asks"]
    assert stage.daemon.call("ask/get", ask_id=ask["id"]) == ask
    assert stage.daemon.call("turn/get", turn_id=turn_id)["status"] == "waiting"
    with stage.daemon.follow(f"?session={talk.id}&after=0") as late:
        assert late.until("ask.opened")["data"]["ask"] == ask
    answered = talk.answer(ask, "allow")
    talk.ended(turn_id)
    assert stage.daemon.call("ask/list", session_id=talk.id)["asks"] == []
    assert stage.daemon.call("ask/list", session_id=talk.id, status="resolved")["asks"] == [answered]
    assert stage.daemon.call("ask/list", session_id=talk.id, status=None)["asks"] == [answered]
    talk.is_usable()


def test_allow_runs_the_call_once(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it", "touch it")
    answered = talk.answer(ask, "allow")
    assert (answered["status"], answered["answer"]) == ("resolved", {"choice": "allow"})
    assert (answered["answered_by"], answered["answered_by_name"]) == ("somebody", None)
    assert talk.wait("ask.resolved")["data"]["ask"] == answered
    second = talk.ask()
    assert (talk.folder / "it").exists()
    call = talk.all("tool.completed")[0]["call"]
    assert (call["decision"]["behavior"], call["decision"]["by"]) == ("allow", "person")
    talk.answer(second, "allow")
    assert talk.ended(turn_id)["denials"] == []
    talk.is_usable()


def test_tool_started_comes_after_the_answer(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    talk.answer(ask, "allow")
    talk.ended(turn_id)
    order = talk.types("tool.queued", "ask.opened", "ask.resolved", "tool.started", "tool.completed")
    assert order == ["tool.queued", "ask.opened", "ask.resolved", "tool.started", "tool.completed"]
    statuses = [data["turn"]["status"] for data in talk.all("turn.updated")]
    assert statuses == ["waiting", "running"]
    sessions = [data["session"]["status"] for data in talk.all("session.updated")]
    assert sessions[:3] == ["running", "waiting", "running"]


def test_allow_always_is_remembered_for_the_session(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it", "touch it")
    talk.answer(ask, "allow_always", scope="session")
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["tool_calls"]) == ("completed", 2)
    assert talk.types("ask.opened") == ["ask.opened"]
    second = talk.all("tool.completed")[1]["call"]
    assert second["decision"] == {
        "behavior": "allow",
        "by": "rule",
        "rule": "Bash(touch:*)",
        "source": "session",
        "reason": None,
        "decided_at": second["decision"]["decided_at"],
    }
    talk.is_usable()


@pytest.mark.parametrize("choice", ["allow", "deny"])
def test_an_answer_and_the_decision_that_it_makes_say_when(stage: Stage, choice: str) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    before = times.now()
    answered = talk.answer(ask, choice)
    after = times.now()
    talk.ended(turn_id)
    assert ask["answered_at"] is None
    assert ask["opened_at"] <= before <= answered["answered_at"] <= after
    assert stage.daemon.call("ask/get", ask_id=ask["id"])["answered_at"] == answered["answered_at"]
    assert talk.all("tool.completed")[0]["call"]["decision"]["decided_at"] == answered["answered_at"]


def test_a_decision_that_needs_nobody_says_when(stage: Stage) -> None:
    before = times.now()
    talk = stage.talk(message(bash("touch it"), bash("rm x")), DONE, rules={"allow": ["Bash"], "deny": ["Bash(rm:*)"]})
    talk.turn()
    after = times.now()
    made = [data["call"]["decision"]["decided_at"] for data in talk.all("tool.completed")]
    assert len(made) == 2
    assert all(before <= each <= after for each in made)


def test_an_ask_that_an_interrupt_settles_says_when(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    before = times.now()
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    talk.ended(turn_id)
    stored = stage.daemon.call("ask/get", ask_id=ask["id"])
    assert (stored["status"], stored["answered_at"] >= before) == ("cancelled", True)


def test_a_rule_of_the_persons_own_is_remembered(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it", "touch other")
    talk.answer(ask, "allow_always", rule="Bash")
    assert talk.ended(turn_id)["reason"] == "completed"
    assert talk.types("ask.opened") == ["ask.opened"]
    assert (talk.folder / "other").exists()


def test_deny_always_is_remembered_and_needs_no_second_ask(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it", "touch it")
    talk.answer(ask, "deny_always", message="never do that")
    turn = talk.ended(turn_id)
    assert (turn["reason"], len(turn["denials"])) == ("completed", 2)
    assert talk.types("ask.opened") == ["ask.opened"]
    first, second = talk.result_texts()
    assert "never do that" in first
    assert "Bash(touch:*)" in second
    assert not (talk.folder / "it").exists()
    assert talk.all("tool.completed")[1]["call"]["decision"]["by"] == "rule"
    talk.is_usable()


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
def test_an_answer_that_is_none_leaves_the_ask_open(stage: Stage, answer: Json) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    error = talk.refused("ask/resolve", ask_id=ask["id"], answer=answer)
    assert error["code"] == -32602
    assert error["data"]["errors"]
    assert talk.state()["asks"] == [ask]
    talk.answer(ask, "allow")
    assert talk.ended(turn_id)["reason"] == "completed"


def test_changed_input_is_what_runs(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    talk.answer(ask, "allow", input={"command": "touch other"})
    assert talk.ended(turn_id)["reason"] == "completed"
    assert ((talk.folder / "it").exists(), (talk.folder / "other").exists()) == (False, True)
    call = talk.all("tool.completed")[0]["call"]
    assert call["input"] == {"command": "touch other"}
    # The history keeps what the model wrote.
    assert talk.messages()[1]["content"][0]["input"] == {"command": "touch it"}
    talk.is_usable()


def test_the_model_is_told_that_another_input_ran(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    talk.answer(ask, "allow", input={"command": "touch other"})
    talk.ended(turn_id)
    result, *notes = talk.requests[1].messages[-1]["content"]
    [told] = [each["text"] for each in notes if "changed the input" in each["text"]]
    assert result["tool_use_id"] in told
    assert "touch other" in told
    talk.is_usable()


def test_changed_input_passes_the_deny_rules_again(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it", rules={"deny": ["Bash(touch forbidden)"]})
    talk.answer(ask, "allow", input={"command": "touch forbidden"})
    turn = talk.ended(turn_id)
    assert (turn["reason"], len(turn["denials"])) == ("completed", 1)
    assert not (talk.folder / "forbidden").exists()
    assert "Bash(touch forbidden)" in talk.result_texts()[0]
    talk.is_usable()


def test_changed_input_passes_the_tools_own_checks_again(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    talk.answer(ask, "allow", input={"command": "   "})
    assert talk.ended(turn_id)["reason"] == "completed"
    assert "empty" in talk.result_texts()[0]
    talk.is_usable()


def test_a_deny_rule_that_came_while_the_ask_was_open_counts(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    stage.daemon.call("session/update", session_id=talk.id, rules={"deny": ["Bash(touch it)"]})
    talk.answer(ask, "allow")
    turn = talk.ended(turn_id)
    assert len(turn["denials"]) == 1
    assert not (talk.folder / "it").exists()
    talk.is_usable()


def test_deny_with_words_goes_on_with_them(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    talk.answer(ask, "deny", message="use pnpm")
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")
    assert "use pnpm" in talk.result_texts()[0]
    assert talk.result_texts()[0].startswith("<tool_use_error>")
    [denial] = turn["denials"]
    assert (denial["tool"], denial["reason"]) == ("Bash", "use pnpm")
    assert talk.types().count("tool.started") == 0
    talk.is_usable()


def test_deny_without_words_ends_the_turn(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    talk.answer(ask, "deny")
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["error"], len(turn["denials"])) == ("interrupted", None, 1)
    assert len(talk.requests) == 1
    assert talk.transcript() == [("user", ["text"]), ("assistant", ["tool_use"]), ("user", ["tool_result"])]
    talk.is_usable()


@pytest.mark.parametrize("choice", ["deny", "deny_always"])
@pytest.mark.parametrize("words", ["", " \n"])
def test_deny_with_words_that_say_nothing_ends_the_turn(stage: Stage, choice: str, words: str) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    talk.answer(ask, choice, message=words)
    turn = talk.ended(turn_id)
    assert (turn["reason"], len(talk.requests)) == ("interrupted", 1)
    assert turn["denials"][0]["reason"].startswith("The person said no")
    talk.is_usable()


def test_deny_without_words_stops_the_calls_beside_it(stage: Stage) -> None:
    talk = stage.talk()
    gate = calls("Gate", {"path": talk.gate("never"), "safe": True})
    stage.api.script(talk.name, message(gate, calls("TestingPermission", {}), bash("touch it")))
    turn_id = talk.start()
    talk.at_gate("never")
    talk.answer(talk.ask(), "deny")
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert all(result["is_error"] for result in talk.results())
    running, refused, waiting = talk.result_texts()
    why = "Stopped, since the person said no to another call and so ended the turn,"
    assert f"{why} before it was finished." in running
    assert "The person said no to this call." in refused
    assert f"{why} before it started." in waiting
    talk.is_usable()


def test_deny_without_words_can_let_the_turn_go_on(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    talk.answer(ask, "deny", interrupt=False)
    turn = talk.ended(turn_id)
    assert (turn["reason"], len(turn["denials"])) == ("completed", 1)
    assert "said no" in talk.result_texts()[0]
    talk.is_usable()


def test_deny_with_words_can_end_the_turn_all_the_same(stage: Stage) -> None:
    talk, turn_id, ask = asked(stage, "touch it")
    talk.answer(ask, "deny", message="enough", interrupt=True)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert "enough" in talk.result_texts()[0]
    talk.is_usable()


def test_an_ask_shows_the_change_to_a_file(stage: Stage) -> None:
    talk = stage.talk()
    path = talk.file("a.txt", "alpha\n")
    edit = {"file_path": path, "old_string": "alpha", "new_string": "beta"}
    stage.api.script(talk.name, message(calls("Read", {"file_path": path})), message(calls("Edit", edit)), DONE)
    turn_id = talk.start()
    ask = talk.ask()
    assert "-alpha" in ask["diff"]
    assert "+beta" in ask["diff"]
    assert (talk.folder / "a.txt").read_text() == "alpha\n"
    talk.answer(ask, "allow")
    talk.ended(turn_id)
    assert (talk.folder / "a.txt").read_text() == "beta\n"
    changed = talk.all("file.changed")
    assert [change["path"] for change in changed] == [path]
    talk.is_usable()


# Nobody to ask.


@pytest.mark.parametrize("how", [{"on_ask": "deny"}, {"mode": "dontAsk"}], ids=["on_ask", "dontAsk"])
def test_where_nobody_is_asked_the_denial_names_the_rule_that_would_allow(stage: Stage, how: Json) -> None:
    talk = stage.talk(message(bash("touch it")), DONE, **how)
    turn = talk.turn()
    assert turn["reason"] == "completed"
    [denial] = turn["denials"]
    assert (denial["tool"], denial["input"], denial["allow_with"]) == (
        "Bash",
        {"command": "touch it"},
        "Bash(touch:*)",
    )
    assert talk.types("ask.opened") == []
    assert "Bash(touch:*)" in talk.result_texts()[0]
    assert not (talk.folder / "it").exists()
    assert stage.daemon.call("turn/get", turn_id=turn["id"])["denials"] == turn["denials"]
    talk.is_usable()


def test_a_rule_allows_where_nobody_is_asked(stage: Stage) -> None:
    talk = stage.talk(message(bash("touch it")), DONE, on_ask="deny", rules={"allow": ["Bash(touch it)"]})
    assert talk.turn()["denials"] == []
    assert (talk.folder / "it").exists()


def test_an_ask_that_nobody_answers_expires_as_a_no(impatient_stage: Stage) -> None:
    talk, turn_id, ask = asked(impatient_stage, "touch it")
    assert ask["expires_at"] is not None
    expired = talk.wait("ask.resolved")["data"]["ask"]
    assert (expired["id"], expired["status"], expired["answer"]["choice"]) == (ask["id"], "expired", "deny")
    turn = talk.ended(turn_id)
    assert (turn["reason"], turn["result_text"], len(turn["denials"])) == ("completed", "Done.", 1)
    assert "Nobody answered in time" in talk.result_texts()[0]
    error = talk.refused("ask/resolve", ask_id=ask["id"], answer={"choice": "allow"})
    assert (error["data"]["code"], error["data"]["ask"]["status"]) == ("ask_resolved", "expired")
    talk.is_usable()


def test_a_question_of_trust_that_nobody_answers_expires_as_its_own_no(impatient_stage: Stage) -> None:
    folder = hooked(impatient_stage, "PreToolUse", {})
    talk = talk_of(impatient_stage, bash("ls"), folder=folder)
    turn = talk.turn()
    (expired,) = [data["ask"] for data in talk.all("ask.resolved")]
    assert (expired["kind"], expired["status"], expired["answer"]) == ("trust", "expired", {"choice": "restrict"})
    assert expired["answer"]["choice"] in expired["choices"]
    assert (turn["reason"], talk.all("hook.ran")) == ("completed", [])


def test_an_unknown_ask_is_named(stage: Stage) -> None:
    for method, more in (("ask/get", {}), ("ask/resolve", {"answer": {"choice": "allow"}})):
        error = stage.daemon.error(method, ask_id="k_00000000000000000000", **more)
        assert error["data"]["code"] == "ask_not_found"


# What cannot be undone.


@pytest.mark.parametrize(("command", "destructive"), [("rm -rf precious", True), ("sudo rm x", True), ("make", False)])
def test_an_ask_says_whether_a_command_can_be_undone(stage: Stage, command: str, destructive: bool) -> None:
    talk, turn_id, ask = asked(stage, command)
    assert ask["destructive"] is destructive
    talk.answer(ask, "deny", message="no")
    talk.ended(turn_id)


def test_an_ask_says_so_of_a_command_that_is_watched(stage: Stage) -> None:
    watch = {"command": "rm -rf precious", "description": "it", "timeout": 1000}
    talk = stage.talk(message(calls("Monitor", watch)), DONE)
    turn_id = talk.start()
    ask = talk.ask()
    assert ask["destructive"] is True
    talk.answer(ask, "deny", message="no")
    talk.ended(turn_id)
