"""What an attached editor says about a file stands below the edit that changed it."""

from pathlib import Path
from typing import Any

import pytest

from tests.server.engine.calls.file_changes import open_editing_session
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.editor import DIAGNOSTICS, build_diagnostics, open_editor
from tests.support.model_replies import edit, read, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "a project"
    folder.mkdir()
    file = folder / "grün.py"
    file.write_text("a = 1\n")
    return file


def open_edit_session(harness: Harness, file: Path) -> SessionDriver:
    return open_editing_session(harness, file.parent, [read(file), edit(file, "a = 1", "a = b")])


def wait_for_result(driver: SessionDriver, turn_id: str) -> tuple[str, Json]:
    """The last call's words for the model, and its output."""
    driver.wait_for_turn_end(turn_id)
    output: Json = driver.list_event_data("tool.completed")[-1]["call"]["output"]
    return driver.fetch_result_texts()[-1], output


def test_they_are_asked_for_with_the_uri_of_the_file_and_appended(harness: Harness, file: Path) -> None:
    driver = open_edit_session(harness, file)
    with open_editor(harness.daemon, f"?session={driver.id}") as ide:
        turn_id = driver.start()
        call = ide.answer_next(
            lambda given: [
                build_diagnostics(given["uri"], (4, "unused", 2), (0, "b is not\n  defined", 1)),
                build_diagnostics("file:///other.py", (0, "of another file", 1)),
            ]
        )
    assert (call["client_id"], call["tool"], call["timeout_ms"]) == (ide.client_id, DIAGNOSTICS, 1000)
    assert call["input"] == {"uri": file.as_uri()}
    shown, output = wait_for_result(driver, turn_id)
    assert shown.endswith("a = b\nDiagnostics now:\nerror 1:3: b is not defined\nwarning 5:3: unused")
    assert [(each["severity"], each["line"], each["column"]) for each in output["diagnostics"]] == [
        ("error", 1, 3),
        ("warning", 5, 3),
    ]


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ([], "none."),
        ("all is well", "\ninformation: all is well"),
        ({"content": [{"type": "text", "text": "[]"}]}, "none."),
        ([{"type": "text", "text": "two words"}], "\ninformation: two words"),
    ],
)
def test_they_may_be_none_or_words_or_wrapped_as_mcp_does(
    harness: Harness, file: Path, answer: Any, shown: str
) -> None:
    driver = open_edit_session(harness, file)
    with open_editor(harness.daemon, f"?session={driver.id}") as ide:
        turn_id = driver.start()
        ide.answer_next(lambda given: answer)
    told, _ = wait_for_result(driver, turn_id)
    assert told.endswith(f"Diagnostics now:{shown}" if shown.startswith("\n") else f"Diagnostics now: {shown}")


@pytest.mark.parametrize("answer", [None, 5, {"uri": 3}, [None, {"uri": "file://["}, {"uri": "file:///x"}]])
def test_an_answer_that_makes_no_sense_harms_nobody(harness: Harness, file: Path, answer: Any) -> None:
    driver = open_edit_session(harness, file)
    with open_editor(harness.daemon, f"?session={driver.id}") as ide:
        turn_id = driver.start()
        ide.answer_next(lambda given: answer)
    told, _ = wait_for_result(driver, turn_id)
    assert told.startswith("File updated: ")


def test_what_is_shown_of_many_is_bounded_with_the_errors_first(harness: Harness, file: Path) -> None:
    driver = open_edit_session(harness, file)
    with open_editor(harness.daemon, f"?session={driver.id}") as ide:
        turn_id = driver.start()
        hints = [(number, "hint " * 1000, 4) for number in range(500)]
        ide.answer_next(lambda given: [build_diagnostics(given["uri"], *hints, (9, "the error", 1))])
    told, output = wait_for_result(driver, turn_id)
    lines = told.partition("Diagnostics now:\n")[2].splitlines()
    assert lines[0] == "error 10:3: the error"
    assert len(lines) == 21
    assert lines[-1] == "… and 481 more"
    assert max(map(len, lines)) < 400
    assert output["diagnostics"][0]["message"] == "the error"


def test_a_new_file_is_asked_about_too(harness: Harness, file: Path) -> None:
    new = file.parent / "new.py"
    driver = open_editing_session(harness, file.parent, [write(new, "x")])
    with open_editor(harness.daemon) as ide:  # it watches everything
        turn_id = driver.start()
        ide.answer_next(lambda given: [build_diagnostics(given["uri"], (0, "bad", 1))])
    told, _ = wait_for_result(driver, turn_id)
    assert told == f"File created: {new}\nDiagnostics now:\nerror 1:3: bad"


def test_without_such_a_client_no_time_is_lost(harness: Harness, file: Path) -> None:
    other = open_editing_session(harness, file.parent, [])
    driver = open_edit_session(harness, file)
    with (
        open_editor(harness.daemon, f"?session={driver.id}", tools=("mcp__ide__executeCode",)),
        open_editor(harness.daemon, f"?session={other.id}"),
    ):
        turn_id = driver.start()
        told, output = wait_for_result(driver, turn_id)
    assert "Diagnostics" not in told
    assert output["diagnostics"] is None
    assert driver.list_event_data("client.call") == []
    assert driver.list_event_data("tool.completed")[-1]["call"]["duration_ms"] < 900


def test_after_a_second_the_edit_goes_on_without_an_answer(harness: Harness, file: Path) -> None:
    driver = open_edit_session(harness, file)
    with open_editor(harness.daemon, f"?session={driver.id}") as ide:
        turn_id = driver.start()
        call = ide.wait_for_call()
        told, output = wait_for_result(driver, turn_id)
        assert ide.respond(call["id"], output=[])["error"]["data"]["code"] == "client_call_not_found"
    assert "Diagnostics" not in told
    assert output["diagnostics"] is None
    assert 900 < driver.list_event_data("tool.completed")[-1]["call"]["duration_ms"] < 5000


def test_a_client_that_goes_away_is_not_waited_for(harness: Harness, file: Path) -> None:
    driver = open_edit_session(harness, file)
    with open_editor(harness.daemon, f"?session={driver.id}") as ide:
        turn_id = driver.start()
        ide.wait_for_call()
    told, output = wait_for_result(driver, turn_id)
    assert output["diagnostics"] is None
    assert "Diagnostics" not in told
    assert driver.list_event_data("tool.completed")[-1]["call"]["duration_ms"] < 900


def test_an_error_is_an_answer_too(harness: Harness, file: Path) -> None:
    driver = open_edit_session(harness, file)
    with open_editor(harness.daemon, f"?session={driver.id}") as ide:
        turn_id = driver.start()
        assert "result" in ide.respond(ide.wait_for_call()["id"], error="no such document")
        told, output = wait_for_result(driver, turn_id)
    assert "Diagnostics" not in told
    assert output["diagnostics"] is None


def test_the_first_answer_counts_and_only_of_the_client_that_was_asked(harness: Harness, file: Path) -> None:
    driver = open_edit_session(harness, file)
    with open_editor(harness.daemon, f"?session={driver.id}", tools=()) as other, open_editor(harness.daemon) as ide:
        turn_id = driver.start()
        call = ide.wait_for_call()
        assert other.wait_for_call() == call  # it sees it, and knows by the id that another is meant
        stranger = harness.daemon.expect_error("client/respond", client_call_id=call["id"], output=[])
        assert stranger["data"]["code"] == "client_call_not_found"
        assert "error" in other.respond(call["id"], output="other")
        assert ide.respond(call["id"], output="first")["result"] == {"client_call_id": call["id"]}
        assert ide.respond(call["id"], output="second")["error"]["data"]["code"] == "client_call_not_found"
        told, _ = wait_for_result(driver, turn_id)
    assert told.endswith("information: first")


def test_an_unknown_call_is_an_error(harness: Harness) -> None:
    with open_editor(harness.daemon) as ide:
        error = ide.respond("q_nothing", output=[])["error"]
    assert error["data"] == {"code": "client_call_not_found", "client_call_id": "q_nothing"}


def test_two_edits_of_two_sessions_are_asked_about_beside_each_other(harness: Harness, file: Path) -> None:
    files = [file.parent / f"{number}.py" for number in range(2)]
    drivers = [open_editing_session(harness, file.parent, [write(each, "x")]) for each in files]
    with open_editor(harness.daemon) as ide:
        turns = [driver.start() for driver in drivers]
        both = [ide.wait_for_call(), ide.wait_for_call()]
        for call in reversed(both):
            ide.respond(call["id"], output=f"about {call['input']['uri'].rpartition('/')[2]}")
        for each, driver, turn_id in zip(files, drivers, turns, strict=True):
            assert wait_for_result(driver, turn_id)[0].endswith(f"about {each.name}")
