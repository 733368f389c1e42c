"""What changes around a session travels in the next user message, and stays news until the model has it."""

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ostler.storage.repositories import states
from tests.support.daemon import wait_until
from tests.support.driver import Stage, Talk
from tests.support.hooks import hooked
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE
from tests.support.projects import project

PLAN = "The permission mode is now plan"


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def repository(stage: Stage) -> Path:
    folder = project(stage)
    git(folder, "init", "-b", "main")
    return folder


def news(talk: Talk, number: int) -> list[str]:
    """The notes in the last message of a request."""
    blocks = talk.requests[number].messages[-1]["content"]
    return [str(block["text"]) for block in blocks if str(block.get("text", "")).startswith("<ostler-note>")]


def all_news(talk: Talk) -> list[str]:
    return [text for number in range(len(talk.requests)) for text in news(talk, number)]


def told_on(stage: Stage, talk: Talk, day: str) -> None:
    """As if the model had been told everything on that day; the daemon is not running."""
    with closing(sqlite3.connect(stage.daemon.home / "ostler.db")) as connection, connection:
        state: dict[str, Any] = states.find(connection, talk.session["id"])
        facts = json.loads(state["facts"])
        states.put(connection, talk.session["id"], {**state, "facts": json.dumps({**facts, "date": day})})


def test_a_mode_that_changes_during_a_call_is_told_with_its_result(stage: Stage) -> None:
    talk = stage.talk()
    gate = calls("Gate", {"path": talk.gate("g")})
    stage.api.script(talk.name, message(gate), message(gate), otherwise=DONE)
    turn_id = talk.start()
    talk.at_gate("g")
    stage.daemon.call("session/update", session_id=talk.id, mode="plan")
    talk.open_gate("g")
    talk.ended(turn_id)
    talk.turn("More.")
    assert [PLAN in text for text in all_news(talk)] == [True]
    assert PLAN in news(talk, 1)[0]
    assert [block["type"] for block in talk.requests[1].messages[-1]["content"]] == ["tool_result", "text"]
    assert stage.api.prefix_changes == []


def test_a_branch_that_a_command_switches_is_told_with_its_result(stage: Stage) -> None:
    folder = repository(stage)
    switch = calls("Bash", {"command": "git checkout -q -b other"})
    talk = stage.talk(message(switch), otherwise=DONE, folder=folder, rules={"allow": ["Bash"]})
    talk.turn()
    talk.turn("More.")
    assert ["on other" in text for text in all_news(talk)] == [True]
    assert "on other" in news(talk, 1)[0]


def test_a_branch_that_somebody_switches_between_turns_is_told_with_the_input(stage: Stage) -> None:
    folder = repository(stage)
    talk = stage.talk(otherwise=DONE, folder=folder)
    talk.turn()
    git(folder, "checkout", "-q", "-b", "other")
    talk.turn("More.")
    talk.turn("And more.")
    assert news(talk, 0) == news(talk, 2) == []
    (told,) = news(talk, 1)
    assert "The git repository is now on other." in told
    assert stage.api.prefix_changes == []


def test_a_new_date_is_told_with_the_input(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(otherwise=DONE)
    talk.turn()
    stage.daemon.kill()
    told_on(stage, talk, "2020-02-20")
    stage.restart()
    talk.turn("Good morning.")
    talk.turn("And more.")
    assert ["The date is now" in text for text in all_news(talk)] == [True]
    assert "The date is now" in news(talk, 1)[0]


def test_a_new_date_is_told_in_the_middle_of_a_turn(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(on_restart="resume")
    stage.api.script(talk.name, message(calls("Gate", {"path": talk.gate("g")})), otherwise=DONE)
    turn_id = talk.start()
    talk.at_gate("g")
    stage.daemon.kill()
    told_on(stage, talk, "2020-02-20")
    stage.restart()
    stage.daemon.call("turn/wait", turn_id=turn_id, timeout_ms=30_000)
    assert ["The date is now" in text for text in news(talk, 1)] == [True]


def test_what_was_told_in_the_middle_of_a_turn_is_not_told_again_after_a_restart(
    own_stage: Callable[..., Stage],
) -> None:
    stage = own_stage()
    talk = stage.talk()
    stage.api.script(talk.name, message(calls("Gate", {"path": talk.gate("g")})), otherwise=DONE)
    turn_id = talk.start()
    talk.at_gate("g")
    stage.daemon.call("session/update", session_id=talk.id, mode="plan")
    talk.open_gate("g")
    talk.ended(turn_id)
    stage.restart()
    talk.turn("More.")
    assert [PLAN in text for text in all_news(talk)] == [True]


def test_news_that_came_with_input_that_a_hook_blocks_comes_with_the_next(stage: Stage) -> None:
    folder = hooked(stage, "UserPromptSubmit", "if grep -q 4111; then echo no card numbers >&2; exit 2; fi")
    talk = stage.talk(otherwise=DONE, folder=folder, trust=True)
    talk.turn()
    assert talk.turn("My card is 4111.", mode="plan")["reason"] == "stopped_by_hook"
    talk.turn("Something else.")
    talk.turn("More.")
    assert [PLAN in "".join(news(talk, number)) for number in range(3)] == [False, True, False]


def test_news_that_came_with_input_that_was_stopped_in_its_hooks_comes_with_the_next(
    own_stage: Callable[..., Stage],
) -> None:
    stage = own_stage()
    folder = hooked(stage, "UserPromptSubmit", "if grep -q 4111; then touch here; sleep 30; fi")
    talk = stage.talk(otherwise=DONE, folder=folder, trust=True)
    talk.turn()
    turn_id = talk.start("My card is 4111.", mode="plan")
    wait_until((folder / "here").exists)
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    talk.ended(turn_id)
    stage.restart()
    talk.turn("Something else.")
    assert [PLAN in "".join(news(talk, number)) for number in range(2)] == [False, True]


def test_the_first_input_that_a_hook_blocks_leaves_what_the_prompt_says(stage: Stage) -> None:
    folder = hooked(stage, "UserPromptSubmit", "if grep -q 4111; then echo no card numbers >&2; exit 2; fi")
    talk = stage.talk(otherwise=DONE, folder=folder, trust=True)
    talk.turn("My card is 4111.")
    stage.daemon.call("session/update", session_id=talk.id, mode="plan")
    talk.turn("Something else.")
    assert "Permission mode: default" in talk.requests[0].body["system"][0]["text"]
    assert [PLAN in text for text in news(talk, 0) if "mode" in text] == [True]


def test_the_model_is_told_the_mode_that_is_in_force(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_PERMISSIONS__ALLOW_BYPASS="true")
    talk = stage.talk(otherwise=DONE, mode="bypassPermissions")
    talk.turn()
    del stage.daemon.environment["OSTLER_PERMISSIONS__ALLOW_BYPASS"]
    stage.restart()
    talk.turn("More.")
    assert "Permission mode: bypassPermissions" in talk.requests[0].body["system"][0]["text"]
    assert ["The permission mode is now default" in text for text in news(talk, 1)] == [True]


@pytest.mark.parametrize("blocks", [["Gate"], ["Gate", "Gate"]])
def test_without_changes_there_are_no_notes(stage: Stage, blocks: list[str]) -> None:
    talk = stage.talk()
    talk.open_gate("g")
    gates = [calls(name, {"path": talk.gate("g")}) for name in blocks]
    stage.api.script(talk.name, message(*gates), otherwise=DONE)
    talk.turn()
    talk.turn("More.")
    assert all_news(talk) == []
