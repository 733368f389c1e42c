"""Files that are not any more what the model has read."""

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ostler.server.engine.session.file_reads import SessionFileReads
from ostler.server.engine.turn.stale_files import describe_stale_files
from ostler.tools.services import FileRead
from tests.support.daemon import wait_until
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, bash, read, run_scripted_turn

HEAD = "Changed on the disk since you read it; read it again before you rely on it or edit it:"
ALLOW = {"allow": ["Bash", "Edit"]}


def list_hints(driver: SessionDriver) -> list[list[str]]:
    """The names in the hint of each message of the user's that brings results; empty where it has none."""
    found = []
    for one in driver.fetch_messages():
        if one["role"] == "user" and any(block["type"] == "tool_result" for block in one["content"]):
            texts = [block["text"] for block in one["content"] if block["type"] == "text"]
            found.append([line for text in texts for line in _list_hinted_files(text)])
    return found


def _list_hinted_files(text: str) -> Iterable[str]:
    lines = text.split("\n")
    return lines[2:-1] if HEAD in lines else []


def test_a_command_that_changes_a_read_file_is_told_once(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOW)
    path = driver.write_file("a.txt", "alpha\n")
    run_scripted_turn(
        harness, driver, read(path), bash(f"echo beta >> {path}"), bash("touch other"), bash("touch another")
    )
    assert list_hints(driver) == [[], [f"- {path}"], [], []]


def test_the_next_change_is_told_again(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOW)
    path = driver.write_file("a.txt", "alpha\n")
    change = f"echo more >> {path}"
    run_scripted_turn(harness, driver, read(path), bash(change), bash(f"{change} #"), read(path), bash(f"{change} ##"))
    assert list_hints(driver) == [[], [f"- {path}"], [f"- {path}"], [], [f"- {path}"]]


def test_a_file_that_is_gone_is_told_as_gone(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOW)
    path = driver.write_file("a.txt", "alpha\n")
    run_scripted_turn(harness, driver, read(path), bash(f"rm {path}"), bash("touch other"))
    assert list_hints(driver) == [[], [f"- {path} (it is gone)"], []]


def test_what_another_program_changed_is_told_after_the_next_call_that_is_not_read_only(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOW)
    path = Path(driver.write_file("a.txt", "alpha\n"))
    gate = calls("Gate", {"path": driver.get_gate_path("go"), "reads": True})
    harness.api.script(driver.name, message(read(str(path))), message(gate), message(bash("touch b")), otherwise=DONE)
    turn_id = driver.start()
    driver.wait_at_gate("go")
    path.write_text("another\n")
    driver.open_gate("go")
    driver.wait_for_turn_end(turn_id)
    assert list_hints(driver) == [[], [], [f"- {path}"]]


def test_edits_of_the_model_itself_and_a_new_time_alone_are_no_news(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOW)
    path = driver.write_file("a.txt", "alpha\n")
    edit = calls("Edit", {"file_path": path, "old_string": "alpha", "new_string": "beta"})
    run_scripted_turn(harness, driver, read(path), edit, bash(f"touch -d '2001-01-01' {path}"))
    assert Path(path).stat().st_mtime < 1_000_000_000
    assert list_hints(driver) == [[], [], []]


def test_many_files_are_named_in_part_and_in_order(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOW)
    paths = [driver.write_file(f"{number:02}.txt", "alpha\n") for number in range(23)]
    change = bash(f"for f in {driver.folder}/*.txt; do echo x >> $f; done")
    harness.api.script(driver.name, message(*map(read, paths)), message(change), otherwise=DONE)
    driver.run_turn()
    assert list_hints(driver) == [[], [*(f"- {path}" for path in paths[:20]), "- and 3 more"]]


def test_a_hint_is_not_repeated_after_a_restart(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(rules=ALLOW)
    path = driver.write_file("a.txt", "alpha\n")
    harness.api.script(
        driver.name,
        message(read(path)),
        message(bash(f"echo x >> {path}")),
        DONE,
        message(bash("touch b")),
        otherwise=DONE,
    )
    driver.run_turn()
    harness.restart()
    driver.run_turn("More.")
    assert list_hints(driver) == [[], [f"- {path}"], []]


def test_a_name_cannot_pretend_to_be_words_of_ours(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOW)
    path = driver.write_file("a\n<ostler-note>.txt", "alpha\n")
    run_scripted_turn(harness, driver, read(path), bash(f"rm -r {driver.folder}/*.txt"))
    assert list_hints(driver) == [[], [f"- {os.path.dirname(path)}/a\\x0a\\x3costler-note>.txt (it is gone)"]]


def test_a_file_of_more_than_a_megabyte_counts_as_changed_by_its_time_alone(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOW)
    small, large = (
        driver.write_file("small.txt", "x" * 1024 * 1024),
        driver.write_file("large.txt", "x" * 1024 * 1024 + "x"),
    )
    run_scripted_turn(harness, driver, read(small), read(large), bash(f"touch -d '2001-01-01' {small} {large}"))
    assert list_hints(driver) == [[], [], [f"- {large}"]]


class StubSession:
    """The part of a session that `describe_stale_files` uses: its file reads, its state, and that it has no hooks."""

    @property
    def hooks(self) -> "StubSession":
        return self

    def has_hooks_for(self, event: str) -> bool:
        return False

    def __init__(self, reads: dict[str, FileRead]) -> None:
        self.reads = SessionFileReads({})
        self.reads.restore(reads)
        self.state: dict[str, object] = {}

    def remember(self, **values: object) -> None:
        self.state |= values


@pytest.mark.anyio
async def test_the_last_thousand_files_are_looked_at(tmp_path: Path) -> None:
    gone = FileRead(0, 1, "digest", (), 1)
    session: Any = StubSession({str(tmp_path / f"{number:04}"): gone for number in range(1_001)})
    hint = await describe_stale_files(session)
    assert hint is not None
    assert hint.splitlines()[-1] == "- and 980 more"
    assert str(tmp_path / "0000") not in session.state["told_stale"]


@pytest.mark.anyio
async def test_a_disk_that_does_not_answer_is_waited_for_a_second(tmp_path: Path) -> None:
    answers = threading.Event()

    class Slow(FileRead):
        def __getattribute__(self, name: str) -> Any:
            answers.wait(30)
            return super().__getattribute__(name)

    file = tmp_path / "a"
    file.write_text("a")
    session: Any = StubSession({str(file): Slow(0, 1, "digest", (), 1)})
    try:
        with anyio.fail_after(20):
            assert await describe_stale_files(session) is None
    finally:
        answers.set()
    assert not session.state


# Files that were read before.


def test_a_command_that_fails_after_a_change_is_told_of_too(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOW)
    path = driver.write_file("a.txt", "alpha\n")
    run_scripted_turn(harness, driver, read(path), bash(f"echo beta >> {path}; exit 3"))
    assert list_hints(driver) == [[], [f"- {path}"]]


def test_a_command_that_is_stopped_after_a_change_is_told_of_too(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOW)
    path = driver.write_file("a.txt", "alpha\n")
    command = f"echo beta >> {path}; touch ready; sleep 1000"
    harness.api.script(driver.name, message(read(path)), message(bash(command)), otherwise=DONE)
    turn_id = driver.start()
    wait_until((driver.folder / "ready").exists)
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    driver.wait_for_turn_end(turn_id)
    assert list_hints(driver) == [[], [f"- {path}"]]


def test_a_file_that_was_not_read_is_not_named(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOW)
    path, other = driver.write_file("a.txt", "alpha\n"), driver.write_file("b.txt", "beta\n")
    run_scripted_turn(harness, driver, read(path), bash(f"echo more >> {other}"))
    assert list_hints(driver) == [[], []]


def test_what_reads_only_looks_at_nothing(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOW)
    path = driver.write_file("a.txt", "alpha\n")
    gate: dict[str, Any] = {"path": driver.get_gate_path("go"), "reads": True}
    harness.api.script(driver.name, message(read(path)), message(calls("Gate", gate)), otherwise=DONE)
    turn_id = driver.start()
    driver.wait_at_gate("go")
    Path(path).write_text("another\n")
    driver.open_gate("go")
    driver.wait_for_turn_end(turn_id)
    assert list_hints(driver) == [[], []]


def test_a_change_behind_a_call_is_named_after_the_next_that_is_not_read_only(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOW)
    path = driver.write_file("a.txt", "alpha\n")
    background_call = calls("Bash", {"command": f"echo beta >> {path}", "run_in_background": True})
    harness.api.script(
        driver.name, message(read(path)), DONE, message(background_call), DONE, message(bash("true")), otherwise=DONE
    )
    driver.run_turn()
    driver.run_turn()
    driver.wait("task.ended")
    driver.run_turn()
    assert [f"- {path}"] in list_hints(driver)
    assert sum(map(len, list_hints(driver))) == 1
