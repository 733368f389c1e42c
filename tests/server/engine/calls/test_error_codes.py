"""The number of a failure reaches clients, so that they need not read its words."""

import os
from pathlib import Path

from tests.support.driver import Stage
from tests.support.messages_api.replies import calls, message, says


def codes(stage: Stage, *blocks: object, **session: object) -> list[int | None]:
    talk = stage.talk(*(message(block) for block in blocks), otherwise=message(says("Done.")), **session)  # type: ignore[arg-type]  # blocks as `calls` makes them
    talk.turn()
    return [data["call"]["error_code"] for data in talk.all("tool.completed")]


def test_a_tools_own_number_is_told(stage: Stage) -> None:
    missing = calls("Edit", {"file_path": "/nowhere/at/all", "old_string": "a", "new_string": "b"})
    relative = calls("Read", {"file_path": "a.txt"})
    assert codes(stage, missing, relative, on_ask="deny") == [1, 8]


def test_what_a_rule_denied_has_a_number_too(stage: Stage) -> None:
    write = calls("Write", {"file_path": "/somewhere/else", "content": "x"})
    assert codes(stage, write, rules={"deny": ["Write"]}, mode="acceptEdits", on_ask="deny") == [None]
    assert codes(stage, write, on_ask="deny") == [7]


def test_a_file_whose_name_is_not_utf_8_can_be_read_through_a_link_and_remembered(stage: Stage) -> None:
    talk = stage.talk()
    odd = os.fsencode(talk.folder) + b"/caf\xe9.txt"
    Path(os.fsdecode(odd)).write_text("alpha\n")
    link = talk.folder / "link.txt"
    os.symlink(odd, link)
    stage.api.script(talk.name, message(calls("Read", {"file_path": str(link)})), message(says("Done.")))
    assert talk.turn()["reason"] == "completed"
    assert "alpha" in talk.result_texts()[0]
    talk.is_usable()
