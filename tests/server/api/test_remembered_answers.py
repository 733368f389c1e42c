"""Answers that bring a rule to a settings file: it is written when the answer has won, and only then."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.driver import BackgroundThread, Harness, Json, SessionDriver
from tests.support.model_replies import bash
from tests.support.projects import (
    OSTLER_LOCAL_SETTINGS,
    OSTLER_SETTINGS,
    get_last_decision,
    list_notices,
    make_project,
    open_session_with_calls,
)

ROUNDS = 8


def get_settings_file(scope: str, harness: Harness, folder: Path) -> Path:
    return {
        "local": folder / OSTLER_LOCAL_SETTINGS,
        "project": folder / OSTLER_SETTINGS,
        "user": harness.daemon.home / "settings.json",
    }[scope]


def resolve(driver: SessionDriver, ask: Json, **answer: Any) -> Json:
    told: Json = driver.daemon.send_rpc("ask/resolve", {"ask_id": ask["id"], "answer": answer})
    return told


def is_written(file: Path, rule: str) -> bool:
    return file.exists() and rule in json.loads(file.read_text())["permissions"].get("allow", [])


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Somebody else changes the settings of this folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("scope", ["local", "project", "user"])
def test_the_answer_that_comes_second_leaves_no_rule_behind(own_harness: Callable[..., Harness], scope: str) -> None:
    harness = own_harness()
    for number in range(ROUNDS):
        folder, rule = make_project(harness), f"Bash(make n{number})"
        driver = open_session_with_calls(harness, bash(f"make n{number}"), folder=folder)
        turn_id = driver.start()
        ask = driver.wait_for_ask()
        yes = BackgroundThread(partial(resolve, driver, ask, choice="allow_always", scope=scope, rule=rule))
        no = BackgroundThread(partial(resolve, driver, ask, choice="deny", message="no"))
        told = [yes.result(), no.result()]
        driver.wait_for_turn_end(turn_id)
        assert sum("result" in each for each in told) == 1
        assert get_last_decision(driver)["behavior"] == ("allow" if "result" in told[0] else "deny")
        assert is_written(get_settings_file(scope, harness, folder), rule) == ("result" in told[0])


@pytest.mark.parametrize("scope", ["local", "project", "user"])
def test_an_answer_that_comes_after_an_interrupt_leaves_no_rule_behind(
    own_harness: Callable[..., Harness], scope: str
) -> None:
    harness = own_harness()
    for number in range(ROUNDS):
        folder, rule = make_project(harness), f"Bash(make n{number})"
        driver = open_session_with_calls(harness, bash(f"make n{number}"), folder=folder)
        turn_id = driver.start()
        ask = driver.wait_for_ask()
        yes = BackgroundThread(partial(resolve, driver, ask, choice="allow_always", scope=scope, rule=rule))
        stop = BackgroundThread(partial(harness.daemon.send_rpc, "turn/interrupt", {"turn_id": turn_id}))
        told, _ = yes.result(), stop.result()
        driver.wait_for_turn_end(turn_id)
        assert is_written(get_settings_file(scope, harness, folder), rule) == ("result" in told)


def test_a_call_goes_on_when_the_rule_of_its_answer_counts(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_LOCAL_SETTINGS: {}})
    driver = open_session_with_calls(harness, bash("touch it"), bash("touch it"), folder=folder)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    with lock_folder(folder / ".ostler"):
        yes = BackgroundThread(
            partial(resolve, driver, ask, choice="allow_always", scope="local", rule="Bash(touch it)")
        )
        driver.wait("ask.resolved")
        # The answer has won, and its rule waits for the file.
        assert resolve(driver, ask, choice="deny")["error"]["data"]["code"] == "ask_resolved"
        assert not (folder / "it").exists()
    assert "result" in yes.result()
    driver.wait_for_turn_end(turn_id)
    assert len(driver.list_event_data("ask.opened")) == 1
    assert get_last_decision(driver)["by"] == "rule"


def test_a_rule_that_its_file_does_not_take_after_all_counts_for_the_session(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_LOCAL_SETTINGS: {}})
    driver = open_session_with_calls(harness, bash("touch it"), bash("touch it"), folder=folder)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    with lock_folder(folder / ".ostler"):
        yes = BackgroundThread(
            partial(resolve, driver, ask, choice="allow_always", scope="local", rule="Bash(touch it)")
        )
        driver.wait("ask.resolved")
        (folder / OSTLER_LOCAL_SETTINGS).write_text("{ somebody is not done")
    answered = yes.result()["result"]
    assert answered["answer"] == {"choice": "allow_always", "scope": "session", "rule": "Bash(touch it)"}
    assert harness.daemon.call("ask/get", ask_id=ask["id"]) == answered
    driver.wait_for_turn_end(turn_id)
    assert len(driver.list_event_data("ask.opened")) == 1
    assert (get_last_decision(driver)["by"], get_last_decision(driver)["source"]) == ("rule", "session")
    assert any("for this session only" in text and OSTLER_LOCAL_SETTINGS in text for text in list_notices(driver))


@pytest.mark.parametrize("content", ["{ no JSON", '{"permissions": []}'])
def test_an_answer_whose_rule_cannot_be_written_is_refused_while_the_ask_is_open(
    harness: Harness, content: str
) -> None:
    folder = make_project(harness, {OSTLER_LOCAL_SETTINGS: content})
    driver = open_session_with_calls(harness, bash("touch it"), folder=folder)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert resolve(driver, ask, choice="allow_always", scope="local")["error"]["data"]["code"] == "conflict"
    assert driver.fetch_state()["asks"] == [ask]
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)
