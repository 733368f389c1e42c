"""`todo/list`, `create`, `update`, `delete`: people edit the work list, and the model is told."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.server.engine.turn.test_environment_updates import list_all_notes
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE


def create(harness: Harness, driver: SessionDriver, subject: str, **more: Any) -> str:
    return str(harness.daemon.call("todo/create", session_id=driver.id, subject=subject, **more)["todo_id"])


def list_todos(harness: Harness, driver: SessionDriver) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = harness.daemon.call("todo/list", session_id=driver.id)["todos"]
    return found


def test_a_person_makes_changes_and_deletes_items_and_every_change_is_an_event(harness: Harness) -> None:
    driver = harness.open_session()
    first = create(harness, driver, "Buy hay", description="Two bales", priority="high")
    second = create(harness, driver, "Feed", blocked_by=[first], metadata={"x": 1})
    assert (first, second) == ("1", "2")
    changed = harness.daemon.call(
        "todo/update", session_id=driver.id, todo_id=first, status="completed", owner="ann", priority=None
    )
    assert [(todo["id"], todo["status"]) for todo in changed["todos"]] == [("1", "completed"), ("2", "pending")]
    assert changed["todos"][0] == {
        "id": "1",
        "subject": "Buy hay",
        "description": "Two bales",
        "active_form": None,
        "status": "completed",
        "priority": None,
        "owner": "ann",
        "blocks": ["2"],
        "blocked_by": [],
        "metadata": {},
    }
    left = harness.daemon.call("todo/delete", session_id=driver.id, todo_id=first)["todos"]
    assert [(todo["id"], todo["blocked_by"]) for todo in left] == [("2", [])]
    for count in (1, 2, 2, 1):
        assert len(driver.wait("todo.changed")["data"]["todos"]) == count
    assert list_todos(harness, driver) == left


def test_a_change_that_changes_nothing_is_no_event(harness: Harness) -> None:
    driver = harness.open_session()
    create(harness, driver, "Feed")
    harness.daemon.call("todo/update", session_id=driver.id, todo_id="1", subject="Feed")
    create(harness, driver, "Water")
    assert [len(data["todos"]) for data in (driver.wait("todo.changed")["data"] for _ in range(2))] == [1, 2]


def test_a_long_list_comes_in_pages(harness: Harness) -> None:
    driver = harness.open_session()
    for number in range(5):
        create(harness, driver, f"Item {number}")
    page = harness.daemon.call("todo/list", session_id=driver.id, limit=3)
    rest = harness.daemon.call("todo/list", session_id=driver.id, limit=3, page=page["next"])
    assert [todo["id"] for todo in page["todos"] + rest["todos"]] == ["1", "2", "3", "4", "5"]
    assert rest["next"] is None


@pytest.mark.parametrize(
    ("method", "params", "code", "words"),
    [
        ("todo/update", {"todo_id": "9"}, "todo_not_found", "There is no todo '9'"),
        ("todo/delete", {"todo_id": "9"}, "todo_not_found", "There is no todo '9'"),
        ("todo/update", {"todo_id": "1", "blocked_by": ["2"]}, None, "1 → 2"),
        ("todo/update", {"todo_id": "1", "blocks": ["7"]}, None, "no todo '7'"),
        ("todo/update", {"todo_id": "1", "subject": None}, None, "cannot be taken away"),
        ("todo/update", {"todo_id": "1", "status": "done"}, None, "in_progress"),
        ("todo/create", {"subject": "x", "blocked_by": ["7"]}, None, "no todo '7'"),
        ("todo/create", {"subject": ""}, None, "subject"),
    ],
)
def test_what_cannot_be_done_is_said(
    harness: Harness, method: str, params: dict[str, Any], code: str | None, words: str
) -> None:
    driver = harness.open_session()
    create(harness, driver, "a")
    create(harness, driver, "b", blocked_by=["1"])
    error = harness.daemon.expect_error(method, session_id=driver.id, **params)
    assert error["data"].get("code") == code
    assert error["code"] == (-32001 if code else -32602)
    assert words in str(error)
    assert [todo["blocked_by"] for todo in list_todos(harness, driver)] == [[], ["1"]]


def test_a_list_of_an_unknown_session_is_said_so(harness: Harness) -> None:
    assert harness.daemon.expect_error("todo/list", session_id="s_none")["data"]["code"] == "session_not_found"


def test_the_model_is_told_once_that_a_person_edited_the_list_also_during_a_turn(harness: Harness) -> None:
    driver = harness.open_session()
    gate = calls("Gate", {"path": driver.get_gate_path("g")})
    harness.api.script(driver.name, DONE, message(gate), DONE, DONE)
    driver.run_turn()
    create(harness, driver, "Buy oats")
    turn_id = driver.start()
    driver.wait_at_gate("g")
    harness.daemon.call("todo/update", session_id=driver.id, todo_id="1", status="completed")
    driver.open_gate("g")
    driver.wait_for_turn_end(turn_id)
    driver.run_turn()
    told = [note for note in list_all_notes(driver) if "edited your work list" in note]
    assert len(told) == 2


def test_a_list_outlives_the_daemon_and_goes_with_its_session(harness: Harness) -> None:
    driver = harness.open_session()
    create(harness, driver, "Buy hay")
    before = list_todos(harness, driver)
    harness.restart()
    assert list_todos(harness, driver) == before
    harness.daemon.call("session/delete", session_id=driver.id)
    with closing(sqlite3.connect(harness.daemon.home / "ostler.db")) as database:
        assert database.execute("SELECT * FROM todo_lists WHERE session_id = ?", (driver.id,)).fetchall() == []


def test_an_edit_that_changes_nothing_is_not_told(harness: Harness) -> None:
    driver = harness.open_session()
    harness.api.script(driver.name, DONE, DONE, DONE)
    create(harness, driver, "Buy oats")
    driver.run_turn()
    driver.run_turn()
    before = len(list_all_notes(driver))
    harness.daemon.call("todo/update", session_id=driver.id, todo_id="1", subject="Buy oats")
    driver.run_turn()
    assert len(list_all_notes(driver)) == before


def test_a_fork_begins_with_the_list_of_its_source_and_has_its_own_from_then_on(harness: Harness) -> None:
    driver = harness.open_session()
    create(harness, driver, "Buy hay")
    fork = harness.daemon.call("session/fork", session_id=driver.id)
    harness.daemon.call("todo/create", session_id=fork["id"], subject="Feed")
    theirs = harness.daemon.call("todo/list", session_id=fork["id"])["todos"]
    assert [(todo["id"], todo["subject"]) for todo in theirs] == [("1", "Buy hay"), ("2", "Feed")]
    assert [todo["subject"] for todo in list_todos(harness, driver)] == ["Buy hay"]
    harness.daemon.call("session/delete", session_id=fork["id"])


def test_what_does_not_fit_into_the_list_is_a_conflict(harness: Harness) -> None:
    driver = harness.open_session()
    for number in range(6):
        create(harness, driver, f"Item {number}", description="x" * 80_000)
    error = harness.daemon.expect_error(
        "todo/create", session_id=driver.id, subject="One more", description="x" * 80_000
    )
    assert (error["data"]["code"], "512 KB" in error["message"]) == ("conflict", True)
