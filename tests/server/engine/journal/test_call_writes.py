"""A call that ends before its start is written is written once; its events are as if each had been written alone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from ostler.protocol.events import MessageDelta, Notice
from ostler.protocol.ids import Cursor, TurnId, call_id, new_message_id, new_session_id
from ostler.protocol.shapes import Call, Usage
from ostler.server.engine.journal.calls import CompletedCall
from ostler.server.engine.journal.journal import Journal
from ostler.server.events.event_log import EventLog
from ostler.storage import Scope, Store, open_store

pytestmark = pytest.mark.anyio
TURN = TurnId("t_1")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = open_store(tmp_path / "ostler.db", pending_limit=1000)
    yield opened
    await opened.close()


class RecordedJournal:
    """A journal with its calls, and the events that were published."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.log = EventLog(store)
        self.session_id = new_session_id()
        self.journal = Journal(self.log, self.session_id, self.session_id, Usage(), self._fail)
        self.message_id = new_message_id()
        self.published: list[tuple[str, dict[str, Any]]] = []
        self.log.followers.append(lambda event: self.published.append((event.type, orjson.loads(event.data))))

    @staticmethod
    def _fail(error: Exception) -> None:
        raise error

    def make_call(self, index: int, **more: Any) -> Call:
        return Call(
            call_id=call_id(self.message_id, index),
            tool_use_id=f"toolu_{index}",
            session_id=self.session_id,
            turn_id=TURN,
            tool="Read",
            input={"file_path": "/x"},
            summary="/x",
            status="running",
            started_at="2026-01-01T00:00:00.000Z",
        ).model_copy(update=more)

    def begin(self, index: int, *, queued: bool = False) -> None:
        self.journal.calls.start(self.make_call(index), [(index, b"{}")], queued=queued, urgent=False)

    def end(self, index: int) -> None:
        ended = self.make_call(index, status="completed", content=[{"type": "text", "text": "y"}], duration_ms=1)
        self.journal.calls.end(CompletedCall(ended), (), queued=True)

    async def flush(self) -> list[str]:
        """Wait until all is on the disk, and list the events about calls that were published by then."""
        await self.journal.writes.write(lambda tx: None)
        return [
            f"{kind} {data['call']['call_id'].rpartition('#')[2]}" for kind, data in self.published if "call" in data
        ]

    async def replay(self) -> list[tuple[str, dict[str, Any]]]:
        page, _ = await self.store.read(lambda db: db.events.list_page(Cursor(0), [self.session_id], 100))
        return [(event.type, orjson.loads(event.data)) for event in page]

    async def find_row(self, index: int) -> Call | None:
        return await self.store.read(lambda db: db.calls.find(call_id(self.message_id, index)))

    @property
    def units(self) -> int:
        return self.store.writer.counts.units


async def test_start_and_end_share_a_unit_where_nothing_came_between(store: Store) -> None:
    recorded = RecordedJournal(store)
    for index in (0, 1):
        recorded.begin(index)
        recorded.end(index)
    assert await recorded.flush() == [
        *("tool.queued 0", "tool.started 0", "tool.completed 0"),
        *("tool.queued 1", "tool.started 1", "tool.completed 1"),
    ]
    assert recorded.units == 2 + 1


async def test_the_order_is_kept_where_another_call_began_between(store: Store) -> None:
    recorded = RecordedJournal(store)
    recorded.begin(0)
    recorded.begin(1)
    recorded.end(0)
    recorded.end(1)
    assert await recorded.flush() == [
        *("tool.queued 0", "tool.started 0", "tool.queued 1", "tool.started 1"),
        *("tool.completed 0", "tool.completed 1"),
    ]


async def test_the_order_is_kept_where_something_was_said_or_written_between(store: Store) -> None:
    recorded = RecordedJournal(store)
    recorded.begin(0)
    recorded.journal.add_notice(TURN, Notice(level="info", text="between"))
    recorded.end(0)
    await recorded.flush()
    kinds = [kind for kind, _ in recorded.published]
    assert kinds == ["tool.queued", "tool.started", "notice", "tool.completed"]
    recorded.begin(1)
    delta = MessageDelta(message_id=recorded.message_id, index=0, kind="text", offset=0, text="x")
    recorded.log.publish_transient("message.delta", Scope(recorded.session_id, recorded.session_id, TURN), delta)
    before = recorded.units
    recorded.end(1)
    await recorded.flush()
    assert recorded.units == before + 3  # the start, the end, and the unit that waits for them


async def test_a_start_that_is_written_already_is_followed_by_its_end(store: Store) -> None:
    recorded = RecordedJournal(store)
    recorded.begin(0, queued=True)
    assert await recorded.flush() == ["tool.started 0"]
    recorded.end(0)
    assert await recorded.flush() == ["tool.started 0", "tool.completed 0"]


async def test_joined_or_apart_the_log_and_the_row_are_the_same(store: Store) -> None:
    joined, apart = RecordedJournal(store), RecordedJournal(store)
    joined.begin(0)
    joined.end(0)
    await joined.flush()
    apart.begin(0)
    await apart.flush()
    apart.end(0)
    await apart.flush()
    assert _replace_ids(joined) == _replace_ids(apart)
    for recorded in (joined, apart):
        assert await recorded.replay() == recorded.published
        row = await recorded.find_row(0)
        assert row is not None
        assert (row.status, row.content) == ("completed", [{"type": "text", "text": "y"}])


def _replace_ids(recorded: RecordedJournal) -> str:
    text = orjson.dumps(recorded.published).decode()
    return text.replace(recorded.session_id, "s_1").replace(recorded.message_id, "m_1")
