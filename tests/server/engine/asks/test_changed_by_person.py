"""A person may change the text of an edit before they allow it; the model is told."""

from pathlib import Path

import pytest

from tests.server.engine.calls.file_changes import talk_in
from tests.support.driver import Stage
from tests.support.model_replies import edit, read, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "a.txt"
    place.write_text("old\n")
    return place


def test_what_a_person_wrote_instead_is_written_and_marked(stage: Stage, file: Path) -> None:
    talk = talk_in(stage, file.parent, [read(file), edit(file, "old", "new")], mode="default")
    turn_id = talk.start()
    changed = {"file_path": str(file), "old_string": "old", "new_string": "better"}
    talk.answer(talk.ask(), "allow", input=changed)
    talk.ended(turn_id)
    assert file.read_text() == "better\n"
    output = talk.all("tool.completed")[-1]["call"]["output"]
    assert (output["user_modified"], output["new_string"]) == (True, "better")
    assert "The person changed the text" in talk.result_texts()[-1]


def test_what_a_person_only_allowed_is_not_marked(stage: Stage, file: Path) -> None:
    talk = talk_in(stage, file.parent, [read(file), edit(file, "old", "new")], mode="default")
    turn_id = talk.start()
    talk.answer(talk.ask(), "allow")
    talk.ended(turn_id)
    assert talk.all("tool.completed")[-1]["call"]["output"]["user_modified"] is False
    assert "The person changed" not in talk.result_texts()[-1]


def test_the_content_of_a_write_can_be_changed_too(stage: Stage, file: Path) -> None:
    new = file.parent / "new.txt"
    talk = talk_in(stage, file.parent, [write(new, "a\n")], mode="default")
    turn_id = talk.start()
    talk.answer(talk.ask(), "allow", input={"file_path": str(new), "content": "b\n"})
    talk.ended(turn_id)
    assert new.read_text() == "b\n"
    assert talk.all("tool.completed")[-1]["call"]["output"]["user_modified"] is True
