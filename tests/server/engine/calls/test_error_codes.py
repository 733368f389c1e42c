"""Clients get the error code of a failed call, so that they need not parse its text."""

import os
from pathlib import Path

from tests.support.driver import Harness
from tests.support.messages_api.replies import calls, message, says


def list_error_codes(harness: Harness, *blocks: object, **session: object) -> list[int | None]:
    driver = harness.open_session(*(message(block) for block in blocks), otherwise=message(says("Done.")), **session)  # type: ignore[arg-type]  # blocks as `calls` makes them
    driver.run_turn()
    return [data["call"]["error_code"] for data in driver.list_event_data("tool.completed")]


def test_a_tools_own_number_is_told(harness: Harness) -> None:
    missing = calls("Edit", {"file_path": "/nowhere/at/all", "old_string": "a", "new_string": "b"})
    relative = calls("Read", {"file_path": "a.txt"})
    nothing = [calls(name, {"pattern": "x", "path": "nowhere"}) for name in ("Grep", "Glob")]
    assert list_error_codes(harness, missing, relative, *nothing, on_ask="deny") == [1, 8, 1, 1]


def test_what_a_rule_denied_has_a_number_too(harness: Harness) -> None:
    write = calls("Write", {"file_path": "/somewhere/else", "content": "x"})
    assert list_error_codes(harness, write, rules={"deny": ["Write"]}, mode="acceptEdits", on_ask="deny") == [None]
    assert list_error_codes(harness, write, on_ask="deny") == [7]


def test_a_file_whose_name_is_not_utf_8_can_be_read_through_a_link_and_remembered(harness: Harness) -> None:
    driver = harness.open_session()
    odd = os.fsencode(driver.folder) + b"/caf\xe9.txt"
    Path(os.fsdecode(odd)).write_text("alpha\n")
    link = driver.folder / "link.txt"
    os.symlink(odd, link)
    harness.api.script(driver.name, message(calls("Read", {"file_path": str(link)})), message(says("Done.")))
    assert driver.run_turn()["reason"] == "completed"
    assert "alpha" in driver.fetch_result_texts()[0]
    driver.expect_usable()
