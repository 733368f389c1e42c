"""Each step of a call is a span with its duration: counted for Prometheus, and a line of the log at level debug."""

import re
from collections.abc import Callable

from tests.support.driver import Harness
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE

STEPS = {"look_up", "schema", "validate", "hooks_before", "permission", "run", "render", "persist", "hooks_after"}
WAITS = {"order", "ask"}
SPAN = re.compile(r'^ostler_tool_step_seconds_count\{step="(\w+)",tool="(\w+)"\} (\S+)$', re.MULTILINE)
CALL = re.compile(r'^ostler_tool_calls_total\{outcome="(\w+)",tool="(\w+)"\} (\S+)$', re.MULTILINE)


def fetch_metrics(harness: Harness) -> str:
    return harness.daemon.send_http("GET", "/metrics").body.decode()


def count_spans(harness: Harness, tool: str) -> dict[str, float]:
    return {step: float(count) for step, of, count in SPAN.findall(fetch_metrics(harness)) if of == tool}


def count_outcomes(harness: Harness) -> dict[tuple[str, str], float]:
    return {(tool, outcome): float(count) for outcome, tool, count in CALL.findall(fetch_metrics(harness))}


def test_every_step_of_a_call_and_every_wait_is_a_span(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(message(calls("Bash", {"command": "touch it"})), DONE)
    turn_id = driver.start()
    driver.answer(driver.wait_for_ask(), "allow")
    driver.wait_for_turn_end(turn_id)
    assert count_spans(harness, "Bash") == dict.fromkeys(STEPS | WAITS, 1.0)
    assert count_outcomes(harness) == {("Bash", "ok"): 1.0}


def test_a_call_that_ends_early_has_the_spans_of_the_steps_that_it_came_to(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(
        message(
            calls("Read", {"file_path": 5}), calls("Reed", {}), calls("Reid", {}), calls("Read", {"file_path": "a"})
        ),
        DONE,
    )
    driver.run_turn()
    assert count_spans(harness, "Read") == {"look_up": 2.0, "schema": 2.0, "order": 2.0, "validate": 1.0}
    assert count_spans(harness, "unknown") == {"look_up": 2.0, "order": 2.0}
    assert count_outcomes(harness) == {("Read", "error"): 2.0, ("unknown", "error"): 2.0}


def test_a_close_look_at_the_log_shows_where_a_call_spent_its_time(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_LOG__LEVEL="debug")
    driver = harness.open_session()
    path = driver.write_file("a.txt", "alpha\n")
    harness.api.script(driver.name, message(calls("Read", {"file_path": path})), DONE)
    driver.run_turn()
    [line] = [line for line in harness.daemon.stderr.splitlines() if "tool_finished" in line]
    assert "tool=Read" in line
    assert f"session={driver.id}" in line
    assert all(f"'{step}'" in line for step in STEPS)
    assert path not in line


COUNT = re.compile(r"^ostler_(decisions|cancellations|git_operations)_total\{(.*)\} (\S+)$", re.MULTILINE)


def count_events(harness: Harness) -> dict[str, float]:
    """What was decided, cancelled and done with git; a label is shown by its value alone."""
    found = COUNT.findall(fetch_metrics(harness))
    named = {" ".join([kind, *re.findall(r'"([^",]+)"', labels)]): float(count) for kind, labels, count in found}
    return {name: count for name, count in named.items() if count}


def test_decisions_are_counted_by_source_and_cancellations_and_git_operations_by_kind(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness()
    driver = harness.open_session(rules={"allow": ["Bash(git:*)"], "deny": ["Bash(make:*)"]})
    commit = "git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m 'first'"
    lines = (commit, "make", "ls", "touch it")
    harness.api.script(driver.name, *(message(calls("Bash", {"command": line})) for line in (*lines, "touch more")))
    turn_id = driver.start()
    driver.answer(driver.wait_for_ask(), "allow")
    driver.wait_for_ask()
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    driver.wait_for_turn_end(turn_id)
    assert count_events(harness) == {
        "decisions allow flag rule": 1.0,
        "decisions deny flag rule": 1.0,
        "decisions allow read_only": 1.0,
        "decisions allow person": 1.0,
        "decisions ask default": 1.0,
        "cancellations ask": 1.0,
        "cancellations call": 1.0,
        "cancellations turn": 1.0,
        "git_operations committed commit": 1.0,
    }
