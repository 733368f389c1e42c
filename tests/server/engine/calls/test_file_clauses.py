"""What the spec says of files and is only seen over the wire: what was shown, told and kept, and disks that fail."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.engine.calls.file_changes import contents, diff, edit, kept, read, write
from tests.support.disks import close_to_writers, fill, small_disk
from tests.support.driver import Stage, Talk
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import Block, calls, cut, hold, message, says
from tests.support.messages_api.scripts import attempts

DONE = message(says("Done."))
LONG = "x" * 40_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "project"
    place.mkdir()
    return place


# What the conversation has seen.


def test_what_was_read_in_a_stream_that_broke_is_shown_when_it_is_read_again(stage: Stage) -> None:
    talk, gate = stage.talk(), Gate()
    again = read(talk.file("a.txt", "alpha\n"))
    stage.api.script(talk.name, attempts(message(again, hold(gate), cut()), message(again)), DONE)
    turn_id = talk.start()
    talk.wait("tool.completed")
    gate.open()
    assert talk.ended(turn_id)["reason"] == "completed"
    assert talk.result_texts() == ["     1\talpha"]
    talk.is_usable()


def test_what_was_read_before_a_stream_that_broke_is_still_known(own_stage: Callable[..., Stage]) -> None:
    stage, gate = own_stage(), Gate()
    talk = stage.talk(mode="acceptEdits")
    path = talk.file("a.txt", "one\ntwo\n")
    first, second = (calls("Read", {"file_path": path, "offset": line, "limit": 1}) for line in (1, 2))
    broken = message(second, hold(gate), cut())
    tries = message(first, second, write(path, "new\n"))
    stage.api.script(talk.name, message(first), attempts(broken, DONE), tries, otherwise=DONE)
    turn_id = talk.start()
    talk.wait("tool.completed")
    talk.wait("tool.completed")
    gate.open()
    talk.ended(turn_id)
    stage.restart()
    talk.turn()
    known, shown, written = talk.result_texts()[1:]
    assert "in the conversation already" in known
    assert shown == "     2\ttwo"
    assert written.startswith(f"File updated: {path}")


def test_what_only_a_stream_that_broke_has_read_cannot_be_written_over(own_stage: Callable[..., Stage]) -> None:
    stage, gate = own_stage(), Gate()
    talk = stage.talk(mode="acceptEdits")
    path = talk.file("a.txt", "alpha\n")
    broken = message(read(path), hold(gate), cut())
    stage.api.script(talk.name, attempts(broken, message(write(path, "new"))), DONE, message(write(path, "new")), DONE)
    turn_id = talk.start()
    talk.wait("tool.completed")
    gate.open()
    talk.ended(turn_id)
    stage.restart()
    talk.turn()
    assert ["has not been read in this session" in text for text in talk.result_texts()] == [True, True]
    assert Path(path).read_text() == "alpha\n"


def test_a_fork_is_shown_what_its_source_has_read(stage: Stage, folder: Path) -> None:
    path = folder / "a.txt"
    path.write_text("alpha\n")
    stage.api.may_rewrite = True
    talk = stage.talk(message(read(path)), DONE, message(read(path)), DONE, folder=folder)
    talk.turn()
    made = stage.daemon.call("session/fork", session_id=talk.id, message_id=talk.messages()[0]["id"])
    fork = Talk(talk.daemon, talk.api, talk.name, folder, made, talk.daemon.follow(f"?session={made['id']}"))
    stage.talks.append(fork)
    fork.turn()
    assert fork.result_texts() == ["     1\talpha"]


def test_a_restart_forgets_neither_what_was_read_nor_how_much_of_it(
    own_stage: Callable[..., Stage], folder: Path
) -> None:
    whole, part, stale = (folder / name for name in ("whole.txt", "part.txt", "stale.txt"))
    for path in (whole, part, stale):
        path.write_text("one\ntwo\n")
    first = calls("Read", {"file_path": str(part), "limit": 1})
    stage = own_stage()
    talk = stage.talk(
        message(read(whole), first, read(stale)),
        DONE,
        message(read(whole), write(whole, "new\n"), write(part, "new\n"), edit(part, "two", "2"), write(stale, "new")),
        DONE,
        folder=folder,
        mode="acceptEdits",
    )
    talk.turn()
    stage.restart()
    stale.write_text("somebody else's\n")
    talk.turn()
    again, written, partly, edited, changed = talk.result_texts()[3:]
    assert "in the conversation already" in again
    assert written.startswith(f"File updated: {whole}")
    assert "Only a part of" in partly
    assert edited.startswith(f"File updated: {part}")
    assert "has changed since it was read" in changed
    assert stale.read_text() == "somebody else's\n"


# What clients are told.


def test_clients_are_told_of_a_change_with_its_patch_and_the_output_of_the_call(stage: Stage, folder: Path) -> None:
    path = folder / "a.txt"
    path.write_text("one\ntwo\n")
    talk = stage.talk(message(read(path)), message(edit(path, "two", "2")), DONE, folder=folder, mode="acceptEdits")
    talk.turn()
    call = talk.all("tool.completed")[-1]["call"]
    patch = f"--- {path}\n+++ {path}\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    assert talk.all("file.changed") == [{"path": str(path), "patch": patch, "call_id": call["call_id"]}]
    output = call["output"]
    assert (output["kind"], output["original"], output["replace_all"]) == ("update", "one\ntwo\n", False)
    assert (output["old_string"], output["new_string"], output["user_modified"]) == ("two", "2", False)
    assert output["structured_patch"][0]["lines"] == [" one", "-two", "+2"]


@pytest.mark.parametrize("where", ["file", "folder"])
def test_what_became_a_link_is_said_to_be_one_and_what_is_behind_it_is_not_shown(
    stage: Stage, folder: Path, where: str
) -> None:
    path = folder / "sub" / "a.txt"
    talk = stage.talk(message(write(path, "mine\n")), DONE, folder=folder, mode="acceptEdits")
    talk.turn()
    secret = folder / "secret" / "a.txt"
    secret.parent.mkdir()
    secret.write_text("secret\n")
    path.unlink()
    if where == "file":
        path.symlink_to(secret)
    else:
        path.parent.rmdir()
        path.parent.symlink_to(secret.parent)
    (found,) = diff(talk)
    assert (found["path"], found["patch"]) == (str(path), None)
    assert found["note"] == "It is a link now, or in a folder that is one."


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


def left(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


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
