"""Input that a hook or the tool's own check has changed passes everything again that the first one had to pass."""

import json
import shlex
from pathlib import Path
from typing import Any

from tests.support.driver import Json, Stage, Talk
from tests.support.hooks import deciding, declared
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE
from tests.support.projects import OURS, decision, project, write

PRE = "PreToolUse"


def swapped(folder: Path, given: Json) -> Json:
    """Settings with a hook that gives the call at gate b another input."""
    answer = shlex.quote(json.dumps(deciding(PRE, updatedInput=given)))
    return declared(PRE, f"if grep -q {shlex.quote(str(folder / 'b'))}; then echo {answer}; fi", "Gate")


def at_two_gates(stage: Stage, folder: Path, **second: Any) -> Talk:
    """A message with two calls that say that they are safe; the first stands at its gate."""
    talk = stage.talk(folder=folder, trust=True)
    first = calls("Gate", {"path": str(folder / "a"), "safe": True})
    stage.api.script(
        talk.name, message(first, calls("Gate", {"path": str(folder / "b"), "safe": True, **second})), otherwise=DONE
    )
    return talk


def waits_for_the_first(talk: Talk, turn_id: str) -> None:
    """The second call, whose gate is c by now and open, begins when the first one is over."""
    talk.state()  # were it not held back, it would have begun by now
    talk.open_gate("a")
    talk.ended(turn_id)
    assert talk.result_texts() == ["passed a", "passed c"]
    events = talk.call_events()
    assert events.index(("completed", 0)) < events.index(("started", 1))


def test_a_call_that_a_hook_has_made_unsafe_waits_for_those_beside_it(stage: Stage) -> None:
    folder = project(stage)
    (folder / "c").touch()
    write(folder, OURS, swapped(folder, {"path": str(folder / "c"), "safe": False}))
    talk = at_two_gates(stage, folder)
    turn_id = talk.start()
    talk.at_gate("a")
    talk.wait("hook.ran", lambda data: data["run"]["call_id"].endswith("#1"))
    waits_for_the_first(talk, turn_id)


def test_a_call_that_its_own_check_has_made_unsafe_waits_for_those_beside_it(stage: Stage) -> None:
    folder = project(stage)
    (folder / "c").touch()
    talk = at_two_gates(stage, folder, instead=str(folder / "c"))
    turn_id = talk.start()
    talk.at_gate("a")
    waits_for_the_first(talk, turn_id)


def sent_elsewhere(stage: Stage, instead: Path, **session: Any) -> Talk:
    """A talk that has called a tool whose own check chose another input."""
    talk = stage.talk(**session)
    stage.api.script(
        talk.name,
        message(calls("Gate", {"path": talk.gate("never"), "instead": str(instead)})),
        otherwise=DONE,
    )
    talk.turn()
    return talk


def test_a_call_runs_with_the_input_that_the_tools_own_check_chose(stage: Stage) -> None:
    gate = project(stage) / "other"
    gate.touch()
    talk = sent_elsewhere(stage, gate)
    assert talk.result_texts() == ["passed other"]
    assert talk.all("tool.started")[0]["call"]["input"] == {"path": str(gate)}
    assert decision(talk)["behavior"] == "allow"


def test_the_input_that_the_tools_own_check_chose_is_validated(stage: Stage) -> None:
    talk = sent_elsewhere(stage, project(stage) / "walled-up")
    assert "That gate is walled up." in talk.result_texts()[0]
    assert talk.all("tool.started") == []


def test_the_input_that_the_tools_own_check_chose_is_held_against_the_deny_rules(stage: Stage) -> None:
    gate = project(stage) / "other"
    gate.touch()
    talk = sent_elsewhere(stage, gate, rules={"deny": [f"Gate({gate})"]})
    assert (decision(talk)["behavior"], decision(talk)["by"]) == ("deny", "rule")
    assert talk.all("tool.started") == []
