"""The daemon is killed while it changes a file: the file is the old or the new one, and everybody knows which."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.server.engine.calls.file_changes import count_contents, diff_session, list_kept_files
from tests.support import stop_tools
from tests.support.daemon import wait_until
from tests.support.disks import fill, make_read_only, mount_small_disk
from tests.support.driver import Harness, SessionDriver, is_gone
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import Block, calls, hold, message
from tests.support.model_replies import DONE, edit, read, write
from tests.support.stop_tools import STOP_POINTS, StopPoint

OLD, NEW = "one\ntwo\nthree\n", "one\n2\nthree\n"
TOOLS = ["Edit", "Write", "sed", "NotebookEdit"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "project"
    place.mkdir()
    return place


def make_notebook(source: str) -> str:
    cell = {"cell_type": "markdown", "id": "c", "metadata": {}, "source": [source]}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def make_change(tool: str, folder: Path) -> tuple[Path, str, str, Block]:
    """A file, what it holds before and after, and the call that makes the one of the other."""
    if tool == "NotebookEdit":
        path = folder / "a.ipynb"
        given = {"notebook_path": str(path), "cell_id": "c", "new_source": "2"}
        return path, make_notebook("two"), make_notebook("2"), calls("NotebookEdit", given)
    path = folder / "a.txt"
    made = {
        "Edit": edit(path, "two", "2"),
        "Write": write(path, NEW),
        "sed": calls("Bash", {"command": "sed -i s/two/2/ a.txt"}),
    }
    return path, OLD, NEW, made[tool]


def kill_during_write(
    own_harness: Callable[..., Harness], folder: Path, when: StopPoint, *blocks: Block, **session: Any
) -> tuple[Harness, SessionDriver]:
    """The last of these calls was in the middle of its write when the daemon died; another one is there now."""
    variables, mark = stop_tools.install(folder.parent / "plug_in", when)
    harness = own_harness(**variables)
    steps = [message(block) for block in blocks]
    driver = harness.open_session(*steps, otherwise=DONE, folder=folder, mode="acceptEdits", **session)
    turn_id = driver.start()
    wait_until(mark.exists)
    harness.restart()
    driver.reconnect(0)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    return harness, driver


def list_files(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize("when", STOP_POINTS)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_file_is_whole_and_its_history_true(
    own_harness: Callable[..., Harness], folder: Path, tool: str, when: StopPoint
) -> None:
    path, old, new, call = make_change(tool, folder)
    path.write_text(old)
    path.chmod(0o640)
    harness, driver = kill_during_write(own_harness, folder, when, read(path), call)
    done = when == "renamed"
    assert path.read_text() == (new if done else old)
    assert path.stat().st_mode & 0o777 == 0o640
    # What it held before is kept, whether it was changed or not.
    assert list_kept_files(harness, driver.id) == [(str(path), 0o100640, None)]
    assert count_contents(harness) == 1
    assert [found["path"] for found in diff_session(driver)] == ([str(path)] if done else [])
    assert "interrupted, outcome unknown" in driver.fetch_result_texts()[-1]
    assert driver.list_event_data("file.changed") == []
    driver.expect_usable()


@pytest.mark.parametrize("when", STOP_POINTS)
def test_a_new_file_is_there_or_not(own_harness: Callable[..., Harness], folder: Path, when: StopPoint) -> None:
    path = folder / "sub" / "new.txt"
    harness, driver = kill_during_write(own_harness, folder, when, write(path, NEW))
    done = when == "renamed"
    assert path.exists() is done
    assert not done or path.read_text() == NEW
    assert list_kept_files(harness, driver.id) == [(str(path), None, None)]
    assert [found["action"] for found in diff_session(driver)] == (["created"] if done else [])
    driver.expect_usable()


@pytest.mark.parametrize("when", ["kept", "whole", "renamed"])
@pytest.mark.parametrize("tool", TOOLS)
def test_nothing_is_left_beside_the_file(
    own_harness: Callable[..., Harness], folder: Path, tool: str, when: StopPoint
) -> None:
    path, old, _, call = make_change(tool, folder)
    path.write_text(old)
    kill_during_write(own_harness, folder, when, read(path), call)
    assert list_files(folder) == [path.name]


@pytest.mark.parametrize("when", STOP_POINTS)
def test_the_next_edit_is_about_the_file_as_it_is(
    own_harness: Callable[..., Harness], folder: Path, when: StopPoint
) -> None:
    """What was not written is still known as it was read; what was written has changed since."""
    path = folder / "a.txt"
    path.write_text(OLD)
    harness, driver = kill_during_write(own_harness, folder, when, read(path), edit(path, "two", "2"))
    harness.api.script(driver.name, *[DONE] * 2, message(edit(path, "three", "3")), otherwise=DONE)
    assert driver.run_turn()["reason"] == "completed"
    if when == "renamed":
        assert "has changed since it was read" in driver.fetch_result_texts()[-1]
        assert path.read_text() == NEW
    else:
        assert driver.fetch_result_texts()[-1].startswith(f"File updated: {path}")
        assert path.read_text() == OLD.replace("three", "3")
    assert len(diff_session(driver)) == 1
    driver.expect_usable()


def is_editor(process: psutil.Process) -> bool:
    return any("large_edit" in word for word in process.cmdline())


def test_the_process_that_edits_a_large_file_ends_with_its_daemon(
    own_harness: Callable[..., Harness], folder: Path
) -> None:
    path = folder / "large.log"
    path.write_text("first\n" + "a line as any other\n" * 1_800_000)
    harness = own_harness()
    read_first = message(calls("Read", {"file_path": str(path), "limit": 3}))
    driver = harness.open_session(
        read_first, message(edit(path, "first", "FIRST")), otherwise=DONE, folder=folder, mode="acceptEdits"
    )
    driver.start()
    editors: list[psutil.Process] = []

    def seen() -> bool:
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(harness.daemon.pid).children()
            # As large as that only with the file, its bytes and its text: it is in the middle of its work.
            editors[:] = [each for each in children if is_editor(each) and each.memory_info().rss > 90_000_000]
            for editor in editors:
                editor.suspend()  # it would be done with it before anybody looks again
        return bool(editors)

    wait_until(seen)
    harness.daemon.kill()
    try:
        wait_until(lambda: all(is_gone(editor.pid) for editor in editors))
    finally:
        for editor in editors:
            with suppress(psutil.NoSuchProcess):
                editor.kill()
    assert path.read_text()[:6] == "first\n"


LONG = "x" * 40_000


# Disks that fail.


def make_long_changes(folder: Path) -> dict[Path, Block]:
    """Files, and the calls that make them too long for the disk."""
    cell = {"cell_type": "markdown", "id": "c", "metadata": {}, "source": ["old"]}
    notebook = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    paths = [folder / name for name in ("written.txt", "edited.txt", "changed.ipynb")]
    for path, text in zip(paths, ("old\n", "old\n", notebook), strict=True):
        path.write_text(text)
    given = {"notebook_path": str(paths[2]), "cell_id": "c", "new_source": LONG}
    blocks = [write(paths[0], LONG), edit(paths[1], "old", LONG), calls("NotebookEdit", given)]
    return dict(zip(paths, blocks, strict=True))


@pytest.mark.parametrize(("closed", "words"), [(False, "No space left on device"), (True, "Read-only file system")])
def test_a_disk_that_takes_nothing_is_a_result_and_the_turn_goes_on(
    own_harness: Callable[..., Harness], tmp_path: Path, closed: bool, words: str
) -> None:
    harness, gate = own_harness(), Gate()
    with mount_small_disk(tmp_path.resolve() / "disk") as disk:
        blocks = make_long_changes(disk)
        before = {path: path.read_bytes() for path in blocks}
        sed = calls("Bash", {"command": "sed -i s/old/new/ edited.txt"})
        tries = message(hold(gate), *blocks.values(), *([sed] if closed else []))
        driver = harness.open_session(message(*map(read, blocks)), tries, DONE, folder=disk, mode="acceptEdits")
        turn_id = driver.start()
        gate.wait_until_reached()
        if closed:
            make_read_only(disk)
        else:
            fill(disk)
        gate.open()
        assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
        failed = driver.fetch_result_texts()[3:]
        assert [words in text for text in failed] == [True] * (4 if closed else 3)
        assert {path: path.read_bytes() for path in blocks} == before
        assert not [name for name in list_files(disk) if name.endswith(".tmp")]
        assert diff_session(driver) == []
        assert (len(list_kept_files(harness, driver.id)), driver.list_event_data("file.changed")) == (3, [])
        assert count_contents(harness) == len(set(before.values()))
        driver.expect_usable()
