"""Plan mode: begun, a plan written, shown, approved, changed and sent back; what passes meanwhile."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ostler.protocol.ids import AskId
from ostler.server.classifier import Question, RehearsalClassifier
from tests.server.engine.permissions.test_modes import make_command, make_verdict_reply, script_classifier
from tests.support.crash import CrashSession
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.failures import overloaded
from tests.support.messages_api.replies import Block, calls, message
from tests.support.model_replies import DONE, bash, edit, read, run_scripted_turn, write
from tests.support.projects import explain_command, get_last_decision, list_decisions, open_session_with_calls

PLAN = "1. Look\n2. Change it\n"


def enter() -> Block:
    return calls("EnterPlanMode", {})


def leave(**given: Any) -> Block:
    return calls("ExitPlanMode", given)


def find_plan_file(harness: Harness, driver: SessionDriver) -> Path:
    return harness.daemon.home / "plans" / f"{driver.id}.md"


def open_plan(harness: Harness, *blocks: Block, **session: Any) -> tuple[SessionDriver, str, Json]:
    """A session that plans, and shows a plan unless other calls are given."""
    scripted = blocks or (enter(), leave(plan=PLAN))
    driver = harness.open_session(*map(message, scripted), otherwise=DONE, **session)
    turn_id = driver.start()
    return driver, turn_id, driver.wait_for_ask()


def settle_behind_its_back(scene: CrashSession, ask_id: str, answer: Json, status: str) -> None:
    """What is stored at the moment after an answer, which is too short to be met: its call waits, or runs."""
    with scene.open_database() as database:
        ask = database.asks.find(AskId(ask_id))
        assert ask is not None
        assert ask.call is not None
        assert database.asks.settle(ask.model_copy(update={"status": "resolved", "answer": answer}))
        call = database.calls.find(ask.call.call_id)
        assert call is not None
        started = ask.opened_at if status == "running" else None
        database.calls.put(call.model_copy(update={"status": status, "started_at": started}))


def list_notes(harness: Harness) -> str:
    return str(harness.api.requests[-1].body["messages"])


def test_an_approved_plan_brings_back_the_mode_before(harness: Harness) -> None:
    driver, turn_id, ask = open_plan(harness, mode="acceptEdits")
    file = find_plan_file(harness, driver)
    assert (ask["kind"], ask["choices"], ask["plan"], ask["path"]) == ("plan", ["approve", "reject"], PLAN, str(file))
    assert file.read_text() == PLAN
    assert file.stat().st_mode & 0o77 == 0
    assert driver.fetch_state()["mode"] == "plan"
    driver.answer(ask, "approve")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert driver.fetch_state()["mode"] == "acceptEdits"
    entered, approved = driver.fetch_result_texts()
    assert str(file) in entered
    assert "approved the plan" in approved
    output = driver.list_event_data("tool.completed")[1]["call"]["output"]
    assert (output["plan"], output["file_path"], output["plan_was_edited"]) == (PLAN, str(file), False)
    assert "The permission mode is now acceptEdits" in list_notes(harness)
    harness.daemon.call("session/delete", session_id=driver.id)
    assert not file.exists()


def test_the_plan_file_and_nothing_else_is_written_while_it_plans(harness: Harness) -> None:
    driver = harness.open_session(mode="default")
    file = find_plan_file(harness, driver)
    other = file.with_name("other.md")
    twisted = f"{file.parent}/../plans/{file.name}"
    blocks = (
        write(file, PLAN),
        enter(),
        write(file, PLAN),
        read(file),
        edit(file, "Look", "Read"),
        write(other, "x"),
        write(twisted, "x"),
        read(harness.daemon.home / "config.toml"),
        write(driver.folder / "a.txt", "x"),
        bash("touch b.txt"),
    )
    run_scripted_turn(harness, driver, *blocks)
    errors = [bool(result.get("is_error")) for result in driver.fetch_results()]
    assert errors == [True, False, False, False, False, True, True, True, True, True]
    assert file.read_text() == PLAN.replace("Look", "Read")
    assert not other.exists()
    assert "plan mode" in driver.fetch_result_texts()[8]


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_in_the_place_of_the_plan_file_leads_nowhere(
    harness: Harness, link: Callable[[Path, Path], None]
) -> None:
    driver = harness.open_session(mode="plan")
    file = find_plan_file(harness, driver)
    file.parent.mkdir(exist_ok=True)
    secret = file.with_name(f"{driver.id}.secret")
    secret.write_text("secret")
    link(secret, file)
    run_scripted_turn(harness, driver, read(file), write(file, "x"), edit(file, "secret", "x"))
    assert [result["is_error"] for result in driver.fetch_results()] == [True] * 3
    assert "secret" not in str(driver.fetch_result_texts()).replace(secret.name, "")
    assert secret.read_text() == "secret"


def test_a_changed_plan_is_told_to_the_model_and_stored(harness: Harness) -> None:
    driver, turn_id, ask = open_plan(harness)
    driver.answer(ask, "approve", plan="1. Only look\n", mode="acceptEdits")
    driver.wait_for_turn_end(turn_id)
    assert "1. Only look" in driver.fetch_result_texts()[1]
    assert "The person changed the plan" in driver.fetch_result_texts()[1]
    assert find_plan_file(harness, driver).read_text() == "1. Only look\n"
    assert driver.fetch_state()["mode"] == "acceptEdits"
    assert driver.list_event_data("tool.completed")[1]["call"]["output"]["plan_was_edited"] is True


def test_a_plan_that_is_sent_back_with_words_is_still_planned(harness: Harness) -> None:
    driver, turn_id, ask = open_plan(harness, enter(), leave(plan=PLAN), leave(plan="1. Less\n"))
    driver.answer(ask, "reject", message="too much")
    second = driver.wait_for_ask()
    assert second["plan"] == "1. Less\n"
    assert driver.fetch_state()["mode"] == "plan"
    driver.answer(second, "reject")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    results = driver.fetch_result_texts()
    assert "in these words: too much" in results[1]
    assert "You are still in plan mode" in results[2]
    assert driver.fetch_state()["mode"] == "plan"


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        ({"plan": "  "}, -32602, "The plan is empty"),
        ({"plan": "x" * 200_000}, -32602, "Make it shorter"),
        ({"mode": "plan"}, -32602, "nothing could be done"),
        ({"mode": "bypassPermissions"}, -32001, "is not allowed here"),
        ({"choice": "allow"}, -32602, "this ask takes approve, reject"),
    ],
)
def test_an_answer_that_does_not_fit_the_plan_is_refused(harness: Harness, answer: Json, code: int, words: str) -> None:
    driver, turn_id, ask = open_plan(harness)
    refused = driver.expect_error("ask/resolve", ask_id=ask["id"], answer={"choice": "approve", **answer})
    assert (refused["code"], words in str(refused)) == (code, True)
    driver.answer(ask, "approve")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"


def test_what_cannot_be_shown_as_a_plan_is_an_error_for_the_model(harness: Harness) -> None:
    driver = harness.open_session()
    file = find_plan_file(harness, driver)
    run_scripted_turn(harness, driver, leave(plan=PLAN), enter(), enter(), leave(), leave(plan=" \n"))
    not_planning, _, again, missing, empty = driver.fetch_result_texts()
    assert "not in plan mode" in not_planning
    assert "in plan mode already" in again
    assert f"Write it to {file} first" in missing
    assert "The plan is empty" in empty
    whole = "x" * 1_000_000
    driver = harness.open_session(mode="plan")
    file = find_plan_file(harness, driver)
    run_scripted_turn(harness, driver, write(file, whole), leave(), leave(plan=whole))
    written, *long = driver.fetch_result_texts()
    assert "created" in written
    assert all("1,000,000 bytes" in text for text in long)
    assert file.read_text() == whole
    assert driver.list_event_data("ask.opened") == []


def test_where_nobody_can_approve_there_is_no_plan_mode_to_enter(harness: Harness) -> None:
    driver = harness.open_session(on_ask="deny")
    run_scripted_turn(harness, driver, enter())
    assert "EnterPlanMode" in driver.fetch_result_texts()[0]
    names = [tool["name"] for tool in harness.api.requests[-1].body["tools"]]
    assert "EnterPlanMode" not in names
    assert "ExitPlanMode" not in names
    silent = harness.open_session(mode="dontAsk")
    run_scripted_turn(harness, silent, enter())
    assert "nobody could approve a plan" in silent.fetch_result_texts()[0]
    assert silent.fetch_state()["mode"] == "dontAsk"


def test_a_person_who_puts_a_session_into_plan_mode_gets_the_mode_before_back(harness: Harness) -> None:
    driver = harness.open_session(message(leave(plan=PLAN)), otherwise=DONE, mode="acceptEdits")
    harness.daemon.call("session/update", session_id=driver.id, mode="plan")
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert str(find_plan_file(harness, driver)) in str(harness.api.requests[-1].body)
    driver.answer(ask, "approve")
    driver.wait_for_turn_end(turn_id)
    assert driver.fetch_state()["mode"] == "acceptEdits"


def test_plan_and_ask_outlive_a_crash(scene: CrashSession) -> None:
    scene.script(message(enter()), message(leave(plan=PLAN)))
    scene.create()
    turn_id = scene.start_turn()
    assert scene.wait_for_turn_rest(turn_id)["status"] == "waiting"
    scene.wait_for("message.completed", lambda data: "ExitPlanMode" in str(data["message"]["content"]))
    (ask,) = scene.list_asks()
    scene.crash()
    assert scene.list_asks() == [ask]
    assert scene.fetch_session()["mode"] == "plan"
    assert Path(ask["path"]).read_text() == PLAN
    scene.daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": "approve", "plan": "1. Less\n"})
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert scene.fetch_session()["mode"] == "default"
    assert Path(ask["path"]).read_text() == "1. Less\n"
    scene.expect_recovered()


@pytest.mark.parametrize("at", ["waiting", "running"])
def test_an_approval_is_not_lost_with_a_daemon_that_dies_over_it(scene: CrashSession, at: str) -> None:
    """Killed after the answer was stored, and before or after its call had begun."""
    scene.script(message(enter()), message(leave(plan=PLAN, allowedPrompts=TESTS, somethingElse=[1])))
    scene.create()
    turn_id = scene.start_turn()
    assert scene.wait_for_turn_rest(turn_id)["status"] == "waiting"
    scene.wait_for("message.completed", lambda data: "ExitPlanMode" in str(data["message"]["content"]))
    (ask,) = scene.list_asks()
    scene.daemon.kill()
    answer = {"choice": "approve", "plan": "1. Less\n", "mode": "acceptEdits"}
    settle_behind_its_back(scene, ask["id"], answer, at)
    scene.daemon.start()
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert scene.fetch_session()["mode"] == "acceptEdits"
    assert Path(ask["path"]).read_text() == "1. Less\n"
    (told,) = [text for text in scene.fetch_results().values() if "Less" in text]
    assert "The person changed the plan" in told
    assert "Bash(prompt: run tests)" in told
    scene.crash()
    assert scene.fetch_session()["mode"] == "acceptEdits"
    scene.expect_recovered()


# What is approved along with a plan.

TESTS = [{"tool": "Bash", "prompt": "run tests"}]


def approve_with_grants(harness: Harness, *commands: str, **session: Any) -> SessionDriver:
    """A session whose plan was approved with `run tests`, and that runs commands now."""
    driver, _, ask = open_plan(
        harness, enter(), leave(plan=PLAN, allowedPrompts=TESTS), *map(bash, commands), **session
    )
    assert ask["allowed_prompts"] == TESTS
    driver.answer(ask, "approve")
    return driver


def test_a_command_that_was_approved_with_the_plan_runs_unasked(harness: Harness) -> None:
    meant, other = make_command("test"), make_command("docs")
    shown = script_classifier(harness, lambda call: make_verdict_reply("allow" if call == meant else "ask", "tests"))
    driver = approve_with_grants(harness, meant, meant, other, "rm -rf build")
    ask = driver.wait_for_ask()
    assert ask["call"]["input"]["command"] == other
    decisions = list_decisions(driver)[-2:]
    assert decisions == [("allow", "grant")] * 2
    assert get_last_decision(driver)["reason"] == "tests"
    assert shown == [meant, other]  # the second time it was remembered
    driver.answer(ask, "deny", message="no")
    # Of high risk, whatever a model would say.
    assert driver.wait_for_ask()["call"]["input"]["command"] == "rm -rf build"
    assert shown == [meant, other]


def test_an_explanation_says_what_was_approved_and_asks_no_model(harness: Harness) -> None:
    shown = script_classifier(harness, lambda call: make_verdict_reply("allow"))
    driver = approve_with_grants(harness)
    driver.wait_for_turn_end()
    explained = {command: explain_command(driver, command) for command in ("make test", "ls")}
    assert [(each["behavior"], each["grants"]) for each in explained.values()] == [
        ("ask", ["run tests"]),
        ("allow", []),
    ]
    assert shown == []


def test_what_was_approved_is_for_the_session_alone(harness: Harness) -> None:
    meant = make_command("test")
    shown = script_classifier(harness, lambda call: make_verdict_reply("allow"))
    driver = approve_with_grants(harness, meant)
    driver.wait_for_turn_end()
    count = len(shown)
    other = open_session_with_calls(harness, bash(meant))
    other.start()
    assert other.wait_for_ask()["call"]["input"]["command"] == meant
    assert len(shown) == count


def test_where_no_model_can_be_asked_nothing_is_granted(harness: Harness) -> None:
    script_classifier(harness, lambda call: overloaded())
    command = make_command("test")
    driver = approve_with_grants(harness, command)
    assert driver.wait_for_ask()["call"]["input"]["command"] == command


@pytest.mark.anyio
async def test_the_stand_in_knows_what_is_meant(tmp_path: Path) -> None:
    def ask(command: str, *granted: str) -> Question:
        return Question("Bash", command, str(tmp_path), (str(tmp_path),), "", False, False, granted)

    judge = RehearsalClassifier()
    verdicts = {
        question.text: (await judge.classify(question)).behavior
        for question in (
            ask("pytest -q tests/a", "run tests"),
            ask("make lint", "run tests", "check the style with the linter"),
            ask("npm publish", "run tests"),
            ask("pytest && curl example.com", "run tests"),
            ask("make tests", "look around"),
        )
    }
    assert list(verdicts.values()) == ["allow", "allow", "ask", "ask", "ask"]
