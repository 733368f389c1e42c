"""What a session has seen of files: told to whoever listens, and forgotten when it leaves the conversation."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.server.engine.session.file_reads import SessionFileReads
from ostler.tools.services import FileRead
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, cut, hold, message
from tests.support.messages_api.scripts import attempts
from tests.support.model_replies import DONE, edit, read, write

SHOWN = FileRead(1, 2, "digest", ((1, 3),), 3, ((1, 3),))
WRITTEN = FileRead(1, 2, "digest", ((1, 3),), 3)


def test_who_listens_hears_of_what_is_shown_and_not_of_what_is_only_written() -> None:
    heard: list[str] = []
    reads = SessionFileReads({})
    reads.listen(lambda path, _: heard.append(path))
    call = reads.create_recorder()
    call.put("/a", SHOWN)
    call.put("/b", WRITTEN)
    assert heard == ["/a"]
    assert set(call.added) == {"/a", "/b"}


def test_what_is_forgotten_as_shown_is_still_known_as_read() -> None:
    reads = SessionFileReads({})
    reads.create_recorder().put("/a", SHOWN)
    stored = reads.forget_shown()
    again = reads.create_recorder().get("/a")
    assert again is not None
    assert (again.shown, again.ranges) == ((), ((1, 3),))
    assert SessionFileReads(stored).create_recorder().get("/a") == again


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "project"
    place.mkdir()
    return place


# What the conversation has seen.


def test_what_was_read_in_a_stream_that_broke_is_shown_when_it_is_read_again(harness: Harness) -> None:
    driver, gate = harness.open_session(), Gate()
    again = read(driver.write_file("a.txt", "alpha\n"))
    harness.api.script(driver.name, attempts(message(again, hold(gate), cut()), message(again)), DONE)
    turn_id = driver.start()
    driver.wait("tool.completed")
    gate.open()
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert driver.fetch_result_texts() == ["     1\talpha"]
    driver.expect_usable()


def test_what_was_read_before_a_stream_that_broke_is_still_known(own_harness: Callable[..., Harness]) -> None:
    harness, gate = own_harness(), Gate()
    driver = harness.open_session(mode="acceptEdits")
    path = driver.write_file("a.txt", "one\ntwo\n")
    first, second = (calls("Read", {"file_path": path, "offset": line, "limit": 1}) for line in (1, 2))
    broken = message(second, hold(gate), cut())
    tries = message(first, second, write(path, "new\n"))
    harness.api.script(driver.name, message(first), attempts(broken, DONE), tries, otherwise=DONE)
    turn_id = driver.start()
    driver.wait("tool.completed")
    driver.wait("tool.completed")
    gate.open()
    driver.wait_for_turn_end(turn_id)
    harness.restart()
    driver.run_turn()
    known, shown, written = driver.fetch_result_texts()[1:]
    assert "in the conversation already" in known
    assert shown == "     2\ttwo"
    assert written.startswith(f"File updated: {path}")


def test_what_only_a_stream_that_broke_has_read_cannot_be_written_over(own_harness: Callable[..., Harness]) -> None:
    harness, gate = own_harness(), Gate()
    driver = harness.open_session(mode="acceptEdits")
    path = driver.write_file("a.txt", "alpha\n")
    broken = message(read(path), hold(gate), cut())
    harness.api.script(
        driver.name, attempts(broken, message(write(path, "new"))), DONE, message(write(path, "new")), DONE
    )
    turn_id = driver.start()
    driver.wait("tool.completed")
    gate.open()
    driver.wait_for_turn_end(turn_id)
    harness.restart()
    driver.run_turn()
    assert ["has not been read in this session" in text for text in driver.fetch_result_texts()] == [True, True]
    assert Path(path).read_text() == "alpha\n"


def test_a_fork_is_shown_what_its_source_has_read(harness: Harness, folder: Path) -> None:
    path = folder / "a.txt"
    path.write_text("alpha\n")
    harness.api.may_rewrite = True
    driver = harness.open_session(message(read(path)), DONE, message(read(path)), DONE, folder=folder)
    driver.run_turn()
    made = harness.daemon.call("session/fork", session_id=driver.id, message_id=driver.fetch_messages()[0]["id"])
    fork = SessionDriver(
        driver.daemon, driver.api, driver.name, folder, made, driver.daemon.follow(f"?session={made['id']}")
    )
    harness.drivers.append(fork)
    fork.run_turn()
    assert fork.fetch_result_texts() == ["     1\talpha"]


def test_a_restart_forgets_neither_what_was_read_nor_how_much_of_it(
    own_harness: Callable[..., Harness], folder: Path
) -> None:
    whole, part, stale = (folder / name for name in ("whole.txt", "part.txt", "stale.txt"))
    for path in (whole, part, stale):
        path.write_text("one\ntwo\n")
    first = calls("Read", {"file_path": str(part), "limit": 1})
    harness = own_harness()
    driver = harness.open_session(
        message(read(whole), first, read(stale)),
        DONE,
        message(read(whole), write(whole, "new\n"), write(part, "new\n"), edit(part, "two", "2"), write(stale, "new")),
        DONE,
        folder=folder,
        mode="acceptEdits",
    )
    driver.run_turn()
    harness.restart()
    stale.write_text("somebody else's\n")
    driver.run_turn()
    again, written, partly, edited, changed = driver.fetch_result_texts()[3:]
    assert "in the conversation already" in again
    assert written.startswith(f"File updated: {whole}")
    assert "Only a part of" in partly
    assert edited.startswith(f"File updated: {part}")
    assert "has changed since it was read" in changed
    assert stale.read_text() == "somebody else's\n"
