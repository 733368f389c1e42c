"""TaskCreate, TaskGet, TaskUpdate, TaskList and TodoWrite in turns, with hooks and reminders."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.server.engine.turn.test_environment_updates import list_all_notes
from tests.support.driver import Harness, SessionDriver
from tests.support.hooks import make_project_with_hook
from tests.support.messages_api.replies import Block, calls, message
from tests.support.model_replies import DONE, read, run_scripted_turn


def add(subject: str, **more: Any) -> Block:
    return calls("TaskCreate", {"subject": subject, "description": "", **more})


def update(todo_id: str, **more: Any) -> Block:
    return calls("TaskUpdate", {"taskId": todo_id, **more})


def list_todos(harness: Harness, driver: SessionDriver) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = harness.daemon.call("todo/list", session_id=driver.id)["todos"]
    return found


def list_outputs(driver: SessionDriver) -> list[Any]:
    return [data["call"]["output"] for data in driver.list_event_data("tool.completed")]


def run_scripted_turns(harness: Harness, driver: SessionDriver, *turns: list[Block]) -> None:
    """Turns with a call a message, each of which ends with words."""
    harness.api.script(driver.name, *(reply for turn in turns for reply in (*map(message, turn), DONE)))
    for _ in turns:
        assert driver.run_turn()["reason"] == "completed"


def test_a_list_is_made_worked_through_and_looked_at(harness: Harness) -> None:
    driver = harness.open_session(mode="dontAsk")
    run_scripted_turn(
        harness,
        driver,
        add("Write the parser", activeForm="Writing the parser"),
        add("Test it"),
        update("2", addBlockedBy=["1"]),
        update("1", status="in_progress"),
        calls("TaskList", {}),
        update("1", status="completed", metadata={"note": "x"}),
        calls("TaskGet", {"taskId": "2"}),
        calls("TaskGet", {"taskId": "9"}),
        update("1", status="deleted"),
    )
    assert driver.fetch_result_texts() == [
        "Todo 1 added: Write the parser",
        "Todo 2 added: Test it",
        "Todo 2: addBlockedBy.",
        "Todo 1: pending → in_progress.",
        "1. Write the parser (in_progress, main)\n2. Test it (pending, waits for 1)",
        "Todo 1: in_progress → completed.",
        "2. Test it (pending)\nWaits for: 1",
        "The work list has no item of this id. TaskList shows those that there are.",
        "Todo 1: completed → deleted.",
    ]
    outputs = list_outputs(driver)
    assert outputs[0] == {"task": {"id": "1", "subject": "Write the parser"}}
    assert outputs[3] == {
        "success": True,
        "taskId": "1",
        "updatedFields": ["status", "owner"],
        "error": None,
        "statusChange": {"from": "pending", "to": "in_progress"},
        "verification_nudge_needed": False,
    }
    assert outputs[4]["tasks"][1] == {
        "id": "2",
        "subject": "Test it",
        "status": "pending",
        "owner": None,
        "blockedBy": ["1"],
    }
    assert outputs[7] == {"task": None}
    (left,) = list_todos(harness, driver)
    assert (left["id"], left["blocked_by"]) == ("2", [])


def test_changes_that_cannot_be_made_are_results_that_say_so(harness: Harness) -> None:
    driver = harness.open_session()
    run_scripted_turn(
        harness, driver, add("a"), add("b"), update("2", addBlockedBy=["1"]), update("1", addBlockedBy=["2"]),
        update("7", status="completed"), update("7", status="deleted"),
    )  # fmt: skip
    refused = list_outputs(driver)[3:]
    assert [output["success"] for output in refused] == [False] * 3
    assert "wait for each other for ever" in refused[0]["error"]
    assert refused[1]["error"] == refused[2]["error"] == "There is no todo '7'. The list has 1, 2."


def test_items_with_internal_metadata_are_not_listed_for_the_model(harness: Harness) -> None:
    driver = harness.open_session()
    run_scripted_turn(harness, driver, add("seen"), add("hidden", metadata={"_internal": True}), calls("TaskList", {}))
    assert driver.fetch_result_texts()[-1] == "1. seen (pending)"
    assert len(list_todos(harness, driver)) == 2


def test_three_completed_items_none_of_which_checks_the_work_get_a_nudge(harness: Harness) -> None:
    driver = harness.open_session()
    done = [update(str(number), status="completed") for number in (1, 2, 3)]
    check = [update("4", status="completed")]
    run_scripted_turns(harness, driver, [add("a"), add("b"), add("c"), *done, add("Run the tests")], check)
    nudges = [output.get("verification_nudge_needed") for output in list_outputs(driver)[3:6]]
    assert nudges == [False, False, True]
    assert "add a todo that verifies it" in driver.fetch_result_texts()[5]
    assert list_outputs(driver)[-1]["verification_nudge_needed"] is False


def test_a_hook_that_blocks_the_making_of_an_item_deletes_it_again(harness: Harness) -> None:
    folder = make_project_with_hook(harness, "TaskCreated", "echo 'too vague' >&2; exit 2")
    driver = harness.open_session(folder=folder, trust=True)
    run_scripted_turn(harness, driver, add("Improve things"))
    assert "too vague" in driver.fetch_result_texts()[0]
    assert list_todos(harness, driver) == []


def test_a_hook_keeps_an_item_from_being_completed(harness: Harness) -> None:
    folder = make_project_with_hook(harness, "TaskCompleted", "echo 'tests fail' >&2; exit 2")
    driver = harness.open_session(folder=folder, trust=True)
    run_scripted_turn(harness, driver, add("Fix it"), update("1", status="completed"))
    assert "tests fail" in driver.fetch_result_texts()[1]
    assert list_todos(harness, driver)[0]["status"] == "pending"
    # A person's word is not a hook's business.
    harness.daemon.call("todo/update", session_id=driver.id, todo_id="1", status="completed")
    assert list_todos(harness, driver)[0]["status"] == "completed"


def test_an_untouched_list_with_open_items_is_brought_to_mind_once_in_ten_requests(harness: Harness) -> None:
    driver = harness.open_session()
    look = read(driver.write_file("a.txt", "hay\n"))
    finish = [update("1", status="completed"), *[look] * 11]
    run_scripted_turns(harness, driver, [add("Feed the horses"), *[look] * 21], finish)
    told = [note for note in list_all_notes(driver) if "not touched for a while" in note]
    assert len(told) == 2
    assert "1. Feed the horses (pending)" in told[0]


def test_with_v1_the_whole_list_is_written_at_once(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_TODOS="v1")
    driver = harness.open_session()
    tools = harness.daemon.call("tool/list", session_id=driver.id)["tools"]
    listed = {tool["name"] for tool in tools if tool["enabled"]}
    assert "TodoWrite" in listed
    assert not listed & {"TaskCreate", "TaskGet", "TaskUpdate", "TaskList"}

    def write(*todos: tuple[str, str]) -> Block:
        items = [{"content": content, "status": status, "activeForm": content} for content, status in todos]
        return calls("TodoWrite", {"todos": items})

    harness.api.script(
        driver.name,
        message(write(("hay", "in_progress"), ("oats", "pending"))),
        message(write(("hay", "in_progress"), ("oats", "in_progress"))),
        message(write(("hay", "completed"), ("oats", "in_progress"))),
        DONE,
        message(write(("hay", "completed"), ("oats", "completed"))),
        DONE,
    )
    driver.run_turn()
    results = driver.fetch_result_texts()
    assert results[0] == "Work list written, 2 open. Active now: hay"
    assert "One todo at most can be in_progress, and 2 are: hay; oats." in results[1]
    assert results[2] == "Work list written, 1 open. Active now: oats"
    assert [(todo["id"], todo["subject"], todo["status"]) for todo in list_todos(harness, driver)] == [
        ("1", "hay", "completed"),
        ("2", "oats", "in_progress"),
    ]
    driver.run_turn()
    assert list_todos(harness, driver) == []
    assert len(list_outputs(driver)[-1]["old_todos"]) == 2


@pytest.mark.parametrize("mode", ["plan", "dontAsk"])
def test_the_list_may_be_changed_in_every_mode(harness: Harness, mode: str) -> None:
    driver = harness.open_session(mode=mode)
    run_scripted_turn(harness, driver, add("Look around"), update("1", status="in_progress"))
    assert list_todos(harness, driver)[0]["status"] == "in_progress"
