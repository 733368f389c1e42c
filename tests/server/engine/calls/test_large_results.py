"""A result of any size is stored and read in pieces, and keeps no other writer and not the event loop waiting."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from pydantic import PrivateAttr

from ostler.protocol.config import Results
from ostler.protocol.ids import ResultId, SessionId, new_result_id
from ostler.protocol.result import ResultRead, ResultSearch
from ostler.protocol.shapes import Usage
from ostler.server.api.results import ResultMethods
from ostler.server.daemon.housekeeping import drop_unfinished_results
from ostler.server.engine.calls.render import RenderedResult, render_result
from ostler.server.engine.calls.spans import Spans
from ostler.server.engine.calls.stored_results import OwnedResults, find_result, read_pieces
from ostler.server.engine.journal.journal import Journal
from ostler.server.events.event_log import EventLog
from ostler.storage import Store, Tx, open_store
from ostler.storage.repositories import results
from ostler.storage.repositories.results import DROPPED_AT_ONCE, PIECE_CHARS, ResultRecord
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.services import NoSuchResult
from ostler.tools.shell.output.long_text import LongOutput, LongText
from ostler.tools.tool import Block, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block
from tests.support.inprocess import InProcessDaemon
from tests.support.rows import reach_connection, select_value
from tests.support.stalls import StallMonitor

pytestmark = pytest.mark.anyio
SESSION: Final = SessionId("s_1")
LINES: Final = "".join(f"zeile ünd {number:08}\n" for number in range(8))


class LargeTextTool(Tool[ToolInput, ToolOutput]):
    """A tool whose output is a long text in memory."""

    name = "Flood"
    Input = ToolInput
    Output = ToolOutput

    def description(self, session: SessionView) -> str:
        return "Floods."

    async def run(self, given: ToolInput, context: ToolContext) -> ToolResult[ToolOutput] | Failure:
        return Failure("It is never run.")

    def render(self, output: Any) -> list[Block]:
        return [text_block(output.text)]


class LargeTextOutput(ToolOutput):
    """An output that is one text."""

    text: str


class StreamedText:
    """A long text that is read piece by piece."""

    def __init__(self, pieces: Callable[[], Iterator[str]]) -> None:
        self.pieces = pieces
        self.closed = anyio.Event()
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self.closed.set)


class StreamedTextOutput(LongOutput):
    """An output with a short text, and the long text that it stands for."""

    text: str = "only a little"
    _long: StreamedText | None = PrivateAttr(None)

    @classmethod
    def of(cls, long: StreamedText) -> "StreamedTextOutput":
        output = cls()
        output._long = long
        return output

    def open_long_text(self) -> LongText | None:
        return self._long


class ConcurrentWriter:
    """Another writer to the database, of one small value after the other."""

    def __init__(self, store: Store) -> None:
        self.writes = 0
        self._store = store

    async def write(self) -> None:
        while True:
            await self._store.writer.submit(_write_small_value, lambda appended: None)
            self.writes += 1


def _write_small_value(tx: Tx) -> None:
    reach_connection(tx).execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('small', 'x')")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = open_store(tmp_path / "ostler.db", pending_limit=1000)
    yield opened
    await opened.close()


@pytest.fixture
def journal(store: Store) -> Journal:
    return Journal(EventLog(store), SESSION, SESSION, Usage(), lambda error: None)


@pytest.mark.without_daemon
async def test_a_flood_stalls_neither_the_loop_nor_other_writes(store: Store, journal: Journal) -> None:
    long = LINES * (64 * 1024 * 1024 // len(LINES))
    stalls, writer = StallMonitor(), ConcurrentWriter(store)
    output = LargeTextOutput.model_construct(text=long)
    async with anyio.create_task_group() as group:
        group.start_soon(stalls.watch)
        group.start_soon(writer.write)
        shown = await render_result(LargeTextTool(), output, Results(), journal, Spans())
        written = writer.writes
        await _store_record(journal, shown)
        read = [len(piece) async for piece in OwnedResults(journal.log, SESSION).read_pieces(_get_result_id(shown))]
        methods = ResultMethods(journal.log)
        found = await methods.search(ResultSearch(result_id=_get_result_id(shown), pattern="00000007$"))
        part = await methods.read(ResultRead(result_id=_get_result_id(shown), offset_chars=len(long) - 10))
        assert stalls.longest < StallMonitor.LIMIT
        assert written >= 20
        assert sum(read) == len(long)
        assert (len(found.lines), found.lines[0].line) == (250, 8)
        assert (part.content, part.next_offset) == (long[-10:], None)
        assert len(shown.limited.blocks[0]["text"]) < 2_500
        assert shown.limited.blocks[0]["text"].startswith(
            f"<persisted-output>\nOutput too large ({_format_kilobytes(long)} KB)."
        )
        assert len(shown.output["text"]) < 51_000
        group.cancel_scope.cancel()


@pytest.mark.without_daemon
async def test_what_was_stored_ahead_comes_out_as_it_was(journal: Journal) -> None:
    text = "".join(f"{number} ü🐎\n" for number in range(300_000)) + "\ud800 lone"
    shown = await render_result(
        LargeTextTool(), LargeTextOutput.model_construct(text=text), Results(), journal, Spans()
    )
    assert isinstance(shown.whole, ResultRecord)
    await _store_record(journal, shown)
    record = await find_result(journal.log, _get_result_id(shown))
    stored = "".join([piece async for piece in read_pieces(journal.log, record)])
    assert stored == text.replace("\ud800", "?")
    assert (record.total_chars, record.total_bytes) == (len(text), len(stored.encode()))


@pytest.mark.without_daemon
async def test_a_text_from_elsewhere_is_stored_whole_without_a_stall(store: Store, journal: Journal) -> None:
    piece = LINES * 16
    count = 64 * 1024 * 1024 // len(piece)
    long_text = StreamedText(lambda: (piece for _ in range(count)))
    stalls, writer = StallMonitor(), ConcurrentWriter(store)
    async with anyio.create_task_group() as group:
        group.start_soon(stalls.watch)
        group.start_soon(writer.write)
        shown = await render_result(LargeTextTool(), StreamedTextOutput.of(long_text), Results(), journal, Spans())
        assert stalls.longest < StallMonitor.LIMIT
        assert writer.writes >= 20
        await _store_record(journal, shown)
        record = await find_result(journal.log, _get_result_id(shown))
        pieces = [piece async for piece in read_pieces(journal.log, record)]
        assert {len(piece) for piece in pieces[:-1]} == {PIECE_CHARS}
        assert "".join(pieces) == piece * count
        assert (record.total_chars, record.total_bytes) == (count * len(piece), count * len(piece.encode()))
        text = shown.limited.blocks[0]["text"]
        assert text.startswith(f"<persisted-output>\nOutput too large ({record.total_bytes / 1024:.1f} KB).")
        assert shown.output == {"text": "only a little"}
        with anyio.fail_after(5):
            await long_text.closed.wait()
        group.cancel_scope.cancel()


@pytest.mark.without_daemon
async def test_a_text_from_elsewhere_that_is_short_is_shown(journal: Journal) -> None:
    for text in ("x" * 50_000, "", " \n"):
        long_text = StreamedText(lambda: iter([text[:10], "", text[10:]]))  # noqa: B023 - read at once
        shown = await render_result(LargeTextTool(), StreamedTextOutput.of(long_text), Results(), journal, Spans())
        assert shown.limited.blocks == [text_block(text if text.strip() else "(Flood completed with no output)")]
        assert (shown.whole, shown.limited.result_id) == (None, None)
        with anyio.fail_after(5):
            await long_text.closed.wait()
    long_text = StreamedText(lambda: iter(["x" * 50_000, "y"]))
    shown = await render_result(LargeTextTool(), StreamedTextOutput.of(long_text), Results(), journal, Spans())
    assert isinstance(shown.whole, ResultRecord)
    assert shown.whole.total_chars == 50_001


@pytest.mark.without_daemon
async def test_where_a_text_cannot_be_read_what_the_output_holds_is_shown(journal: Journal) -> None:
    def broken() -> Iterator[str]:
        yield "x" * 3_000_000
        raise OSError("the disk is gone")

    long_text = StreamedText(broken)
    shown = await render_result(LargeTextTool(), StreamedTextOutput.of(long_text), Results(), journal, Spans())
    assert shown.limited.blocks == [text_block("only a little")]
    assert (shown.whole, shown.limited.result_id) == (None, None)
    with anyio.fail_after(5):
        await long_text.closed.wait()


@pytest.mark.without_daemon
async def test_a_call_that_is_stopped_while_its_result_is_stored_keeps_it(journal: Journal) -> None:
    output = LargeTextOutput.model_construct(text="x" * 3_000_000)
    shown: list[RenderedResult] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        shown.append(await render_result(LargeTextTool(), output, Results(), journal, Spans()))
    assert isinstance(shown[0].whole, ResultRecord)


@pytest.mark.without_daemon
async def test_a_result_is_not_there_before_its_call_is(journal: Journal) -> None:
    shown = await render_result(
        LargeTextTool(), LargeTextOutput.model_construct(text="x" * 3_000_000), Results(), journal, Spans()
    )
    with pytest.raises(NoSuchResult):
        await anext(aiter(OwnedResults(journal.log, SESSION).read_pieces(_get_result_id(shown))))
    with pytest.raises(Exception, match="There is no result"):
        await find_result(journal.log, _get_result_id(shown))


@pytest.mark.without_daemon
async def test_a_result_of_another_session_is_none_of_ones_business(journal: Journal) -> None:
    result_id = new_result_id()
    await journal.writes.write(lambda tx: tx.results.put(result_id, SESSION, "secret", tool="Bash"))
    assert [piece async for piece in OwnedResults(journal.log, SESSION).read_pieces(result_id)] == ["secret"]
    with pytest.raises(NoSuchResult, match="This session has no result"):
        await anext(aiter(OwnedResults(journal.log, SessionId("s_2")).read_pieces(result_id)))


@pytest.mark.without_daemon
async def test_what_a_crash_left_of_a_result_is_dropped_when_it_is_old(journal: Journal) -> None:
    old, young = ResultId("r_0aaaaaaaa00000000000"), new_result_id()

    def leave(tx: Tx) -> None:
        for result_id in (old, young):
            tx.results.put_pieces(result_id, results.pack_pieces("x" * 200_000))

    await journal.writes.write(leave)
    await drop_unfinished_results(journal.log)
    rows = await journal.log.read(
        lambda snapshot: reach_connection(snapshot).execute("SELECT DISTINCT result_id FROM result_pieces").fetchall()
    )
    assert rows == [(young,)]


def test_nothing_is_left_of_a_large_result_when_its_session_is_deleted(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        session_id = daemon.call("session/create", cwd="/")["id"]
        result_id = new_result_id()
        text = "x" * (PIECE_CHARS * (2 * DROPPED_AT_ONCE + 1))
        daemon.write(lambda tx: tx.results.put(result_id, SessionId(session_id), text, tool="Bash"))
        daemon.call("session/delete", session_id=session_id)
        left = daemon.write(lambda tx: select_value(tx, "SELECT count(*) FROM result_pieces"))
    assert left == 0


# Shortcuts.


async def _store_record(journal: Journal, shown: RenderedResult) -> None:
    record = shown.whole
    assert isinstance(record, ResultRecord)
    await journal.writes.write(lambda tx: tx.results.add(SESSION, record))


def _get_result_id(shown: RenderedResult) -> ResultId:
    assert shown.limited.result_id is not None
    return shown.limited.result_id


def _format_kilobytes(text: str) -> str:
    return f"{len(text.encode()) / 1024:.1f}"
