"""A call that ends before its start is written is written once, and told as if each had been written alone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from ostler.protocol.events import MessageDelta, Notice
from ostler.protocol.ids import Cursor, TurnId, call_id, new_message_id, new_session_id
from ostler.protocol.shapes import Call, Usage
from ostler.server.engine.journal.calls import Ended
from ostler.server.engine.journal.journal import Journal
from ostler.server.events.event_log import EventLog
from ostler.storage import Scope, Store, open_store
from ostler.storage.repositories import calls, events

pytestmark = pytest.mark.anyio
TURN = TurnId("t_1")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = open_store(tmp_path / "ostler.db", pending_limit=1000)
    yield opened
    await opened.close()


class Notes:
    """A journal, what its readers were told, and its calls."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.log = EventLog(store)
        self.session_id = new_session_id()
        self.journal = Journal(self.log, self.session_id, self.session_id, Usage(), self._fail)
        self.message_id = new_message_id()
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.log.followers.append(lambda event: self.told.append((event.type, orjson.loads(event.data))))

    @staticmethod
    def _fail(error: Exception) -> None:
        raise error

    def call(self, index: int, **more: Any) -> Call:
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
        self.journal.call_started(self.call(index), [(index, b"{}")], queued=queued, urgent=False)

    def end(self, index: int) -> None:
        ended = self.call(index, status="completed", content=[{"type": "text", "text": "y"}], duration_ms=1)
        self.journal.call_completed(Ended(ended), (), queued=True)

    async def settled(self) -> list[str]:
        """What was told by now, when all of it is on the disk."""
        await self.journal.write(lambda tx: None)
        return [f"{kind} {data['call']['call_id'].rpartition('#')[2]}" for kind, data in self.told if "call" in data]

    async def replayed(self) -> list[tuple[str, dict[str, Any]]]:
        page, _ = await self.store.read(lambda db: events.page(db, Cursor(0), [self.session_id], 100))
        return [(event.type, orjson.loads(event.data)) for event in page]

    async def row(self, index: int) -> Call | None:
        return await self.store.read(lambda db: calls.find(db, call_id(self.message_id, index)))

    @property
    def units(self) -> int:
        return self.store.writer.counts.units


async def test_start_and_end_share_a_unit_where_nothing_came_between(store: Store) -> None:
    notes = Notes(store)
    for index in (0, 1):
        notes.begin(index)
        notes.end(index)
    assert await notes.settled() == [
        *("tool.queued 0", "tool.started 0", "tool.completed 0"),
        *("tool.queued 1", "tool.started 1", "tool.completed 1"),
    ]
    assert notes.units == 2 + 1


async def test_the_order_is_kept_where_another_call_began_between(store: Store) -> None:
    notes = Notes(store)
    notes.begin(0)
    notes.begin(1)
    notes.end(0)
    notes.end(1)
    assert await notes.settled() == [
        *("tool.queued 0", "tool.started 0", "tool.queued 1", "tool.started 1"),
        *("tool.completed 0", "tool.completed 1"),
    ]


async def test_the_order_is_kept_where_something_was_said_or_written_between(store: Store) -> None:
    notes = Notes(store)
    notes.begin(0)
    notes.journal.notice(TURN, Notice(level="info", text="between"))
    notes.end(0)
    await notes.settled()
    kinds = [kind for kind, _ in notes.told]
    assert kinds == ["tool.queued", "tool.started", "notice", "tool.completed"]
    notes.begin(1)
    delta = MessageDelta(message_id=notes.message_id, index=0, kind="text", offset=0, text="x")
    notes.log.say("message.delta", Scope(notes.session_id, notes.session_id, TURN), delta)
    before = notes.units
    notes.end(1)
    await notes.settled()
    assert notes.units == before + 3  # the start, the end, and the unit that waits for them


async def test_a_start_that_is_written_already_is_followed_by_its_end(store: Store) -> None:
    notes = Notes(store)
    notes.begin(0, queued=True)
    assert await notes.settled() == ["tool.started 0"]
    notes.end(0)
    assert await notes.settled() == ["tool.started 0", "tool.completed 0"]


async def test_joined_or_apart_the_log_and_the_row_are_the_same(store: Store) -> None:
    joined, apart = Notes(store), Notes(store)
    joined.begin(0)
    joined.end(0)
    await joined.settled()
    apart.begin(0)
    await apart.settled()
    apart.end(0)
    await apart.settled()
    assert _without_ids(joined) == _without_ids(apart)
    for notes in (joined, apart):
        assert await notes.replayed() == notes.told
        row = await notes.row(0)
        assert row is not None
        assert (row.status, row.content) == ("completed", [{"type": "text", "text": "y"}])


def _without_ids(notes: Notes) -> str:
    text = orjson.dumps(notes.told).decode()
    return text.replace(notes.session_id, "s_1").replace(notes.message_id, "m_1")
