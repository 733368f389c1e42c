"""What a session has seen of files: told to whoever listens, and forgotten when it leaves the conversation."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.server.engine.session.file_reads import StoredReads
from ostler.tools.services import FileRead
from tests.support.driver import Stage, Talk
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, cut, hold, message
from tests.support.messages_api.scripts import attempts
from tests.support.model_replies import DONE, edit, read, write

SHOWN = FileRead(1, 2, "digest", ((1, 3),), 3, ((1, 3),))
WRITTEN = FileRead(1, 2, "digest", ((1, 3),), 3)


def test_who_listens_hears_of_what_is_shown_and_not_of_what_is_only_written() -> None:
    heard: list[str] = []
    reads = StoredReads({})
    reads.listen(lambda path, _: heard.append(path))
    call = reads.recorder()
    call.put("/a", SHOWN)
    call.put("/b", WRITTEN)
    assert heard == ["/a"]
    assert set(call.added) == {"/a", "/b"}


def test_what_is_forgotten_as_shown_is_still_known_as_read() -> None:
    reads = StoredReads({})
    reads.recorder().put("/a", SHOWN)
    stored = reads.forget_shown()
    again = reads.recorder().get("/a")
    assert again is not None
    assert (again.shown, again.ranges) == ((), ((1, 3),))
    assert StoredReads(stored).recorder().get("/a") == again


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
