"""What a call has read counts only if the call comes to something."""

from ostler.server.engine.session.file_reads import StoredReads
from ostler.tools.services import FileRead


def known(lines: int) -> FileRead:
    return FileRead(1, lines, "d", ((1, lines),), lines, shown=((1, lines),))


def test_what_a_call_that_came_to_nothing_has_read_is_not_known() -> None:
    reads = StoredReads({})
    call = reads.recorder()
    call.put("/a", known(1))
    call.take_back()
    assert (call.added, reads.recorder().get("/a")) == ({}, None)


def test_what_was_known_before_it_is_known_again() -> None:
    reads = StoredReads({})
    reads.recorder().put("/a", known(1))
    call = reads.recorder()
    call.put("/a", known(2))
    call.put("/a", known(3))
    call.take_back()
    assert reads.recorder().get("/a") == known(1)


def test_another_call_is_not_touched() -> None:
    reads = StoredReads({})
    one, other = reads.recorder(), reads.recorder()
    one.put("/a", known(1))
    other.put("/b", known(2))
    one.take_back()
    assert (reads.recorder().get("/a"), reads.recorder().get("/b")) == (None, known(2))
