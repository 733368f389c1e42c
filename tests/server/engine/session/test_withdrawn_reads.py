"""The file reads of a call are withdrawn when the call comes to nothing."""

from ostler.server.engine.session.file_reads import SessionFileReads
from ostler.tools.services import FileRead


def make_read(lines: int) -> FileRead:
    return FileRead(1, lines, "d", ((1, lines),), lines, shown=((1, lines),))


def test_what_a_call_that_came_to_nothing_has_read_is_not_known() -> None:
    reads = SessionFileReads({})
    call = reads.create_recorder()
    call.put("/a", make_read(1))
    call.undo()
    assert (call.added, reads.create_recorder().get("/a")) == ({}, None)


def test_what_was_known_before_it_is_known_again() -> None:
    reads = SessionFileReads({})
    reads.create_recorder().put("/a", make_read(1))
    call = reads.create_recorder()
    call.put("/a", make_read(2))
    call.put("/a", make_read(3))
    call.undo()
    assert reads.create_recorder().get("/a") == make_read(1)


def test_another_call_is_not_touched() -> None:
    reads = SessionFileReads({})
    one, other = reads.create_recorder(), reads.create_recorder()
    one.put("/a", make_read(1))
    other.put("/b", make_read(2))
    one.undo()
    assert (reads.create_recorder().get("/a"), reads.create_recorder().get("/b")) == (None, make_read(2))
