"""Each step of a call is a span with its duration: counted for Prometheus, and a line of the log at level debug."""

import re
from collections.abc import Callable

from tests.support.driver import Stage
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE

STEPS = {"look_up", "schema", "validate", "hooks_before", "permission", "run", "render", "persist", "hooks_after"}
WAITS = {"order", "ask"}
SPAN = re.compile(r'^ostler_tool_step_seconds_count\{step="(\w+)",tool="(\w+)"\} (\S+)$', re.MULTILINE)
CALL = re.compile(r'^ostler_tool_calls_total\{outcome="(\w+)",tool="(\w+)"\} (\S+)$', re.MULTILINE)


def metrics(stage: Stage) -> str:
    return stage.daemon.http("GET", "/metrics").body.decode()


def spans(stage: Stage, tool: str) -> dict[str, float]:
    return {step: float(count) for step, of, count in SPAN.findall(metrics(stage)) if of == tool}


def outcomes(stage: Stage) -> dict[tuple[str, str], float]:
    return {(tool, outcome): float(count) for outcome, tool, count in CALL.findall(metrics(stage))}


def test_every_step_of_a_call_and_every_wait_is_a_span(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(message(calls("Bash", {"command": "touch it"})), DONE)
    turn_id = talk.start()
    talk.answer(talk.ask(), "allow")
    talk.ended(turn_id)
    assert spans(stage, "Bash") == dict.fromkeys(STEPS | WAITS, 1.0)
    assert outcomes(stage) == {("Bash", "ok"): 1.0}


def test_a_call_that_ends_early_has_the_spans_of_the_steps_that_it_came_to(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk(
        message(
            calls("Read", {"file_path": 5}), calls("Reed", {}), calls("Reid", {}), calls("Read", {"file_path": "a"})
        ),
        DONE,
    )
    talk.turn()
    assert spans(stage, "Read") == {"look_up": 2.0, "schema": 2.0, "order": 2.0, "validate": 1.0}
    assert spans(stage, "unknown") == {"look_up": 2.0, "order": 2.0}
    assert outcomes(stage) == {("Read", "error"): 2.0, ("unknown", "error"): 2.0}


def test_a_close_look_at_the_log_shows_where_a_call_spent_its_time(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_LOG__LEVEL="debug")
    talk = stage.talk()
    path = talk.file("a.txt", "alpha\n")
    stage.api.script(talk.name, message(calls("Read", {"file_path": path})), DONE)
    talk.turn()
    [line] = [line for line in stage.daemon.stderr.splitlines() if "tool_finished" in line]
    assert "tool=Read" in line
    assert f"session={talk.id}" in line
    assert all(f"'{step}'" in line for step in STEPS)
    assert path not in line
