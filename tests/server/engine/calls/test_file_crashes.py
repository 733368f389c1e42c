"""The daemon is killed while it changes a file: the file is the old or the new one, and everybody knows which."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.server.engine.calls.file_changes import contents, diff, edit, kept, read, write
from tests.support import stop_tools
from tests.support.daemon import wait_until
from tests.support.driver import Stage, Talk, is_gone
from tests.support.messages_api.replies import Block, calls, message, says
from tests.support.stop_tools import MOMENTS, Moment

DONE = message(says("Done."))
OLD, NEW = "one\ntwo\nthree\n", "one\n2\nthree\n"
TOOLS = ["Edit", "Write", "sed", "NotebookEdit"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "project"
    place.mkdir()
    return place


def notebook(source: str) -> str:
    cell = {"cell_type": "markdown", "id": "c", "metadata": {}, "source": [source]}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def change_of(tool: str, folder: Path) -> tuple[Path, str, str, Block]:
    """A file, what it holds before and after, and the call that makes the one of the other."""
    if tool == "NotebookEdit":
        path = folder / "a.ipynb"
        given = {"notebook_path": str(path), "cell_id": "c", "new_source": "2"}
        return path, notebook("two"), notebook("2"), calls("NotebookEdit", given)
    path = folder / "a.txt"
    made = {
        "Edit": edit(path, "two", "2"),
        "Write": write(path, NEW),
        "sed": calls("Bash", {"command": "sed -i s/two/2/ a.txt"}),
    }
    return path, OLD, NEW, made[tool]


def killed(
    own_stage: Callable[..., Stage], folder: Path, when: Moment, *blocks: Block, **session: Any
) -> tuple[Stage, Talk]:
    """The last of these calls was in the middle of its write when the daemon died; another one is there now."""
    variables, mark = stop_tools.install(folder.parent / "plug_in", when)
    stage = own_stage(**variables)
    steps = [message(block) for block in blocks]
    talk = stage.talk(*steps, otherwise=DONE, folder=folder, mode="acceptEdits", **session)
    turn_id = talk.start()
    wait_until(mark.exists)
    stage.restart()
    talk.reconnect(0)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    return stage, talk


def left(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize("when", MOMENTS)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_file_is_whole_and_its_history_true(
    own_stage: Callable[..., Stage], folder: Path, tool: str, when: Moment
) -> None:
    path, old, new, call = change_of(tool, folder)
    path.write_text(old)
    path.chmod(0o640)
    stage, talk = killed(own_stage, folder, when, read(path), call)
    done = when == "renamed"
    assert path.read_text() == (new if done else old)
    assert path.stat().st_mode & 0o777 == 0o640
    # What it held before is kept, whether it was changed or not.
    assert kept(stage, talk.id) == [(str(path), 0o100640, None)]
    assert contents(stage) == 1
    assert [found["path"] for found in diff(talk)] == ([str(path)] if done else [])
    assert "interrupted, outcome unknown" in talk.result_texts()[-1]
    assert talk.all("file.changed") == []
    talk.is_usable()


@pytest.mark.parametrize("when", MOMENTS)
def test_a_new_file_is_there_or_not(own_stage: Callable[..., Stage], folder: Path, when: Moment) -> None:
    path = folder / "sub" / "new.txt"
    stage, talk = killed(own_stage, folder, when, write(path, NEW))
    done = when == "renamed"
    assert path.exists() is done
    assert not done or path.read_text() == NEW
    assert kept(stage, talk.id) == [(str(path), None, None)]
    assert [found["action"] for found in diff(talk)] == (["created"] if done else [])
    talk.is_usable()


@pytest.mark.parametrize("when", ["kept", "whole", "renamed"])
@pytest.mark.parametrize("tool", TOOLS)
def test_nothing_is_left_beside_the_file(
    own_stage: Callable[..., Stage], folder: Path, tool: str, when: Moment
) -> None:
    path, old, _, call = change_of(tool, folder)
    path.write_text(old)
    killed(own_stage, folder, when, read(path), call)
    assert left(folder) == [path.name]


@pytest.mark.parametrize("when", MOMENTS)
def test_the_next_edit_is_about_the_file_as_it_is(own_stage: Callable[..., Stage], folder: Path, when: Moment) -> None:
    """What was not written is still known as it was read; what was written has changed since."""
    path = folder / "a.txt"
    path.write_text(OLD)
    stage, talk = killed(own_stage, folder, when, read(path), edit(path, "two", "2"))
    stage.api.script(talk.name, *[DONE] * 2, message(edit(path, "three", "3")), otherwise=DONE)
    assert talk.turn()["reason"] == "completed"
    if when == "renamed":
        assert "has changed since it was read" in talk.result_texts()[-1]
        assert path.read_text() == NEW
    else:
        assert talk.result_texts()[-1].startswith(f"File updated: {path}")
        assert path.read_text() == OLD.replace("three", "3")
    assert len(diff(talk)) == 1
    talk.is_usable()


def is_editor(process: psutil.Process) -> bool:
    return any("large_edit" in word for word in process.cmdline())


def test_the_process_that_edits_a_large_file_ends_with_its_daemon(
    own_stage: Callable[..., Stage], folder: Path
) -> None:
    path = folder / "large.log"
    path.write_text("first\n" + "a line as any other\n" * 1_800_000)
    stage = own_stage()
    read_first = message(calls("Read", {"file_path": str(path), "limit": 3}))
    talk = stage.talk(
        read_first, message(edit(path, "first", "FIRST")), otherwise=DONE, folder=folder, mode="acceptEdits"
    )
    talk.start()
    editors: list[psutil.Process] = []

    def seen() -> bool:
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(stage.daemon.pid).children()
            # As large as that only with the file, its bytes and its text: it is in the middle of its work.
            editors[:] = [each for each in children if is_editor(each) and each.memory_info().rss > 90_000_000]
            for editor in editors:
                editor.suspend()  # it would be done with it before anybody looks again
        return bool(editors)

    wait_until(seen)
    stage.daemon.kill()
    try:
        wait_until(lambda: all(is_gone(editor.pid) for editor in editors))
    finally:
        for editor in editors:
            with suppress(psutil.NoSuchProcess):
                editor.kill()
    assert path.read_text()[:6] == "first\n"
