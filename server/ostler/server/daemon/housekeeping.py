"""Background housekeeping: check the database after a crash, and delete rows whose retention time is over."""

import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import anyio
import anyio.to_thread

from ostler.protocol import times
from ostler.protocol.errors import ProtocolError
from ostler.protocol.events import Notice
from ostler.protocol.ids import first_result_id
from ostler.protocol.limits import IDEMPOTENCY_SECONDS
from ostler.server.config.configuration import Configuration
from ostler.server.engine.calls.stored_results import drop_pieces
from ostler.server.events.event_log import EventLog
from ostler.server.observability import logs
from ostler.storage import Scope, Store, Tx
from ostler.storage.sqlite.check import find_damage, mark_damaged, tidy

_HOUR: Final = 3600


def _format_ago(span: timedelta) -> str:
    return times.format_time(datetime.now(UTC) - span)


async def run_housekeeping(store: Store, log: EventLog, configuration: Configuration) -> None:
    """Run all housekeeping for as long as the daemon runs; a failure in it never ends the daemon."""
    async with anyio.create_task_group() as group:
        group.start_soon(_run_guarded, "report_moved_database", lambda: report_moved_database(store, log))
        group.start_soon(_run_guarded, "check_after_unclean_stop", lambda: check_after_unclean_stop(store))
        while True:
            await _run_guarded("tidy", lambda: tidy_database(log, configuration))
            await anyio.sleep(_HOUR)


async def _run_guarded(job: str, work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception as error:  # noqa: BLE001
        # A boundary: a full disk, too few file descriptors or a bug here is a line in the log, and the daemon goes on.
        logs.log.warning("upkeep_failed", job=job, reason=str(error), exc_info=not isinstance(error, ProtocolError))


async def report_moved_database(store: Store, log: EventLog) -> None:
    """Say in the log, and with a stored notice for clients, that an unreadable database was replaced by a new one."""
    if store.moved_aside is None:
        return
    text = (
        f"The database could not be read. It was moved to {store.moved_aside} and a new one was begun. "
        "Nothing was deleted: keep that file if you want the old sessions back."
    )
    logs.log.error("database_moved_aside", path=str(store.moved_aside))
    notice = Notice(level="error", text=text)

    def tell(tx: Tx) -> None:
        tx.append("notice", Scope(), data=notice)

    await log.write(tell)


async def check_after_unclean_stop(store: Store) -> None:
    """After an unclean stop, check the whole database; if it is damaged, nothing is written any more."""
    if not store.unclean:
        return
    stop = threading.Event()
    try:
        damage = await anyio.to_thread.run_sync(find_damage, store.path, stop, abandon_on_cancel=True)
    finally:
        stop.set()
    if damage is None:
        logs.log.info("database_checked", verdict="ok")
        return
    logs.log.error("database_damaged", damage=damage)
    store.writer.turn_read_only(damage)
    await anyio.to_thread.run_sync(mark_damaged, store.path, damage)


async def tidy_database(log: EventLog, configuration: Configuration) -> None:
    """Delete rows whose retention time is over, in bounded steps, so that no other write waits long."""
    keep = configuration.current.retention
    events_before = _format_ago(timedelta(days=keep.events_days))
    keys_before = _format_ago(timedelta(seconds=IDEMPOTENCY_SECONDS))
    clients_before = _format_ago(timedelta(days=keep.clients_days))

    def piece(tx: Tx) -> bool:
        return tidy(tx, events_before=events_before, keys_before=keys_before, clients_before=clients_before)

    while await log.write(piece):
        pass
    await drop_unfinished_results(log)
    while await log.write(lambda tx: tx.free_pages.give_back()):
        pass


async def drop_unfinished_results(log: EventLog) -> None:
    """Delete pieces of results that a crash left unfinished; those of the last hour may still be being written."""
    before = first_result_id(int((datetime.now(UTC).timestamp() - _HOUR) * 1000))
    await drop_pieces(log, await log.read(lambda snapshot: snapshot.results.list_unfinished(before)))
