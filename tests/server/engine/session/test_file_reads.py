"""What a session has seen of files: told to whoever listens, and forgotten when it leaves the conversation."""

from ostler.server.engine.session.file_reads import StoredReads
from ostler.tools.services import FileRead

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
