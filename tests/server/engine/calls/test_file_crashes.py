"""The daemon is killed while it changes a file: the file is the old or the new one, and everybody knows which."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.server.engine.calls.file_changes import contents, diff, kept
from tests.support import stop_tools
from tests.support.daemon import wait_until
from tests.support.disks import close_to_writers, fill, small_disk
from tests.support.driver import Stage, Talk, is_gone
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import Block, calls, hold, message
from tests.support.model_replies import DONE, edit, read, write
from tests.support.stop_tools import MOMENTS, Moment

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


LONG = "x" * 40_000


# Disks that fail.


def changes(folder: Path) -> dict[Path, Block]:
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
    own_stage: Callable[..., Stage], tmp_path: Path, closed: bool, words: str
) -> None:
    stage, gate = own_stage(), Gate()
    with small_disk(tmp_path.resolve() / "disk") as disk:
        blocks = changes(disk)
        before = {path: path.read_bytes() for path in blocks}
        sed = calls("Bash", {"command": "sed -i s/old/new/ edited.txt"})
        tries = message(hold(gate), *blocks.values(), *([sed] if closed else []))
        talk = stage.talk(message(*map(read, blocks)), tries, DONE, folder=disk, mode="acceptEdits")
        turn_id = talk.start()
        gate.wait_until_reached()
        if closed:
            close_to_writers(disk)
        else:
            fill(disk)
        gate.open()
        assert talk.ended(turn_id)["reason"] == "completed"
        failed = talk.result_texts()[3:]
        assert [words in text for text in failed] == [True] * (4 if closed else 3)
        assert {path: path.read_bytes() for path in blocks} == before
        assert not [name for name in left(disk) if name.endswith(".tmp")]
        assert diff(talk) == []
        assert (len(kept(stage, talk.id)), talk.all("file.changed")) == (3, [])
        assert contents(stage) == len(set(before.values()))
        talk.is_usable()
