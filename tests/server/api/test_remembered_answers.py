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

from tests.support.driver import Beside, Json, Stage, Talk
from tests.support.model_replies import bash
from tests.support.projects import OUR_LOCAL, OURS, decision, notices, project, talk_of

ROUNDS = 8


def file_of(scope: str, stage: Stage, folder: Path) -> Path:
    return {"local": folder / OUR_LOCAL, "project": folder / OURS, "user": stage.daemon.home / "settings.json"}[scope]


def resolve(talk: Talk, ask: Json, **answer: Any) -> Json:
    told: Json = talk.daemon.rpc("ask/resolve", {"ask_id": ask["id"], "answer": answer})
    return told


def is_written(file: Path, rule: str) -> bool:
    return file.exists() and rule in json.loads(file.read_text())["permissions"].get("allow", [])


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Somebody else changes the settings of this folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("scope", ["local", "project", "user"])
def test_the_answer_that_comes_second_leaves_no_rule_behind(own_stage: Callable[..., Stage], scope: str) -> None:
    stage = own_stage()
    for number in range(ROUNDS):
        folder, rule = project(stage), f"Bash(make n{number})"
        talk = talk_of(stage, bash(f"make n{number}"), folder=folder)
        turn_id = talk.start()
        ask = talk.ask()
        yes = Beside(partial(resolve, talk, ask, choice="allow_always", scope=scope, rule=rule))
        no = Beside(partial(resolve, talk, ask, choice="deny", message="no"))
        told = [yes.result(), no.result()]
        talk.ended(turn_id)
        assert sum("result" in each for each in told) == 1
        assert decision(talk)["behavior"] == ("allow" if "result" in told[0] else "deny")
        assert is_written(file_of(scope, stage, folder), rule) == ("result" in told[0])


@pytest.mark.parametrize("scope", ["local", "project", "user"])
def test_an_answer_that_comes_after_an_interrupt_leaves_no_rule_behind(
    own_stage: Callable[..., Stage], scope: str
) -> None:
    stage = own_stage()
    for number in range(ROUNDS):
        folder, rule = project(stage), f"Bash(make n{number})"
        talk = talk_of(stage, bash(f"make n{number}"), folder=folder)
        turn_id = talk.start()
        ask = talk.ask()
        yes = Beside(partial(resolve, talk, ask, choice="allow_always", scope=scope, rule=rule))
        stop = Beside(partial(stage.daemon.rpc, "turn/interrupt", {"turn_id": turn_id}))
        told, _ = yes.result(), stop.result()
        talk.ended(turn_id)
        assert is_written(file_of(scope, stage, folder), rule) == ("result" in told)


def test_a_call_goes_on_when_the_rule_of_its_answer_counts(stage: Stage) -> None:
    folder = project(stage, {OUR_LOCAL: {}})
    talk = talk_of(stage, bash("touch it"), bash("touch it"), folder=folder)
    turn_id = talk.start()
    ask = talk.ask()
    with locked(folder / ".ostler"):
        yes = Beside(partial(resolve, talk, ask, choice="allow_always", scope="local", rule="Bash(touch it)"))
        talk.wait("ask.resolved")
        # The answer has won, and its rule waits for the file.
        assert resolve(talk, ask, choice="deny")["error"]["data"]["code"] == "ask_resolved"
        assert not (folder / "it").exists()
    assert "result" in yes.result()
    talk.ended(turn_id)
    assert len(talk.all("ask.opened")) == 1
    assert decision(talk)["by"] == "rule"


def test_a_rule_that_its_file_does_not_take_after_all_counts_for_the_session(stage: Stage) -> None:
    folder = project(stage, {OUR_LOCAL: {}})
    talk = talk_of(stage, bash("touch it"), bash("touch it"), folder=folder)
    turn_id = talk.start()
    ask = talk.ask()
    with locked(folder / ".ostler"):
        yes = Beside(partial(resolve, talk, ask, choice="allow_always", scope="local", rule="Bash(touch it)"))
        talk.wait("ask.resolved")
        (folder / OUR_LOCAL).write_text("{ somebody is not done")
    answered = yes.result()["result"]
    assert answered["answer"] == {"choice": "allow_always", "scope": "session", "rule": "Bash(touch it)"}
    assert stage.daemon.call("ask/get", ask_id=ask["id"]) == answered
    talk.ended(turn_id)
    assert len(talk.all("ask.opened")) == 1
    assert (decision(talk)["by"], decision(talk)["source"]) == ("rule", "session")
    assert any("for this session only" in text and OUR_LOCAL in text for text in notices(talk))


@pytest.mark.parametrize("content", ["{ no JSON", '{"permissions": []}'])
def test_an_answer_whose_rule_cannot_be_written_is_refused_while_the_ask_is_open(stage: Stage, content: str) -> None:
    folder = project(stage, {OUR_LOCAL: content})
    talk = talk_of(stage, bash("touch it"), folder=folder)
    turn_id = talk.start()
    ask = talk.ask()
    assert resolve(talk, ask, choice="allow_always", scope="local")["error"]["data"]["code"] == "conflict"
    assert talk.state()["asks"] == [ask]
    talk.answer(ask, "allow")
    talk.ended(turn_id)
