"""A person may change the text of an edit before they allow it; the model is told."""

from pathlib import Path

import pytest

from tests.server.engine.calls.file_changes import open_editing_session
from tests.support.driver import Harness
from tests.support.model_replies import edit, read, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "a.txt"
    place.write_text("old\n")
    return place


def test_what_a_person_wrote_instead_is_written_and_marked(harness: Harness, file: Path) -> None:
    driver = open_editing_session(harness, file.parent, [read(file), edit(file, "old", "new")], mode="default")
    turn_id = driver.start()
    changed = {"file_path": str(file), "old_string": "old", "new_string": "better"}
    driver.answer(driver.wait_for_ask(), "allow", input=changed)
    driver.wait_for_turn_end(turn_id)
    assert file.read_text() == "better\n"
    output = driver.list_event_data("tool.completed")[-1]["call"]["output"]
    assert (output["user_modified"], output["new_string"]) == (True, "better")
    assert "The person changed the text" in driver.fetch_result_texts()[-1]


def test_what_a_person_only_allowed_is_not_marked(harness: Harness, file: Path) -> None:
    driver = open_editing_session(harness, file.parent, [read(file), edit(file, "old", "new")], mode="default")
    turn_id = driver.start()
    driver.answer(driver.wait_for_ask(), "allow")
    driver.wait_for_turn_end(turn_id)
    assert driver.list_event_data("tool.completed")[-1]["call"]["output"]["user_modified"] is False
    assert "The person changed" not in driver.fetch_result_texts()[-1]


def test_the_content_of_a_write_can_be_changed_too(harness: Harness, file: Path) -> None:
    new = file.parent / "new.txt"
    driver = open_editing_session(harness, file.parent, [write(new, "a\n")], mode="default")
    turn_id = driver.start()
    driver.answer(driver.wait_for_ask(), "allow", input={"file_path": str(new), "content": "b\n"})
    driver.wait_for_turn_end(turn_id)
    assert new.read_text() == "b\n"
    assert driver.list_event_data("tool.completed")[-1]["call"]["output"]["user_modified"] is True
