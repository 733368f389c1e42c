"""A failure of the daemon's own periodic work never ends the daemon."""

from pathlib import Path

import anyio
import pytest

from ostler.server.config.configuration import load_configuration
from ostler.server.daemon.housekeeping import run_housekeeping
from ostler.server.events.event_log import EventLog
from ostler.storage import open_store

pytestmark = pytest.mark.anyio


async def test_upkeep_that_cannot_write_is_a_line_in_the_log_and_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "ostler.db"
    path.write_bytes(b"no database at all" * 500)
    store = open_store(path, pending_limit=100)
    assert store.moved_aside is not None
    store.writer.turn_read_only("for this test")
    with anyio.move_on_after(0.5) as waited:
        await run_housekeeping(store, EventLog(store), load_configuration(tmp_path / "config.toml", {}, {}))
    assert waited.cancelled_caught
    await store.close()
