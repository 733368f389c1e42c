"""The exit codes of `ostler run`: the first that fits."""

from typing import Any

import pytest

from ostler.clients.cli.exit_codes import Outcome
from ostler.protocol.shapes import Turn
from tests.support.tables import try_each

DENIAL = {"tool": "Bash", "input": {}, "reason": "no"}


def make_turn(**fields: Any) -> Turn:
    return Turn.model_validate({"id": "t_1", "session_id": "s_1", "status": "ended", "cursor": 1, **fields})


@try_each(
    ("reason", "code"),
    [
        ("completed", 0),
        ("stopped_by_hook", 0),
        ("interrupted", 130),
        ("timeout", 124),
        ("failed", 1),
        ("max_requests", 3),
        ("budget", 4),
        ("schema", 6),
    ],
)
def test_each_reason_has_its_code(reason: str, code: int) -> None:
    assert Outcome("s_1", make_turn(reason=reason)).exit_code == code


@pytest.mark.parametrize(
    ("reason", "code"), [("completed", 5), ("stopped_by_hook", 5), ("interrupted", 130), ("budget", 4), ("failed", 1)]
)
def test_a_denial_counts_where_nothing_else_does(reason: str, code: int) -> None:
    assert Outcome("s_1", make_turn(reason=reason, denials=[DENIAL])).exit_code == code
    assert Outcome("s_1", make_turn(reason=reason), unanswered=True).exit_code == code


def test_an_end_for_another_reason_keeps_its_code_although_it_has_an_error() -> None:
    assert Outcome("s_1", make_turn(reason="budget", error={"code": "budget_exceeded", "message": "x"})).exit_code == 4


def test_a_missing_sandbox_is_7() -> None:
    assert Outcome("s_1", make_turn(reason="failed", error={"code": "sandbox_missing", "message": "x"})).exit_code == 7


@try_each(
    ("word", "code"),
    [
        ("interrupted", 130),
        ("timeout", 124),
        ("usage", 2),
        ("bad_folder", 2),
        ("mode_forbidden", 2),
        ("budget_exceeded", 4),
        ("daemon_unreachable", 1),
    ],
)
def test_an_error_without_an_ended_turn_has_its_code(word: str, code: int) -> None:
    running = make_turn(status="running")
    assert Outcome("s_1", running, {"code": word, "message": "x"}).exit_code == code
    assert Outcome(error={"code": word, "message": "x"}).exit_code == code


def test_the_object_has_the_turn_and_an_error_only_where_there_is_one() -> None:
    whole = Outcome("s_1", make_turn(reason="completed")).as_json()
    assert (whole["type"], whole["session_id"], whole["turn"]["reason"]) == ("result", "s_1", "completed")
    assert "error" not in whole
    assert Outcome(error={"code": "x", "message": "y"}).as_json() == {
        "type": "result",
        "session_id": None,
        "turn": None,
        "error": {"code": "x", "message": "y"},
    }
