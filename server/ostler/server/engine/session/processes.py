"""The child processes of a session's calls, stored before they begin."""

from dataclasses import dataclass, field

from ostler.protocol.ids import CallId
from ostler.server.engine.journal.journal import Journal
from ostler.storage import Tx
from ostler.storage.repositories.processes import ProcessRecord


@dataclass(frozen=True, slots=True)
class StoredProcesses:
    """Records the child processes of a session's calls: each is stored before its command begins."""

    journal: Journal
    _started: dict[int, str] = field(default_factory=dict)

    async def record_start(self, call_id: CallId, pid: int, start_time: str) -> None:
        record = ProcessRecord(pid, start_time, self.journal.session_id, call_id)
        self._started[pid] = start_time

        def work(tx: Tx) -> None:
            tx.processes.add(record)

        await self.journal.writes.submit_gated(work).durable()

    def record_end(self, call_id: CallId, pid: int) -> None:
        start_time = self._started.pop(pid, None)
        if start_time is not None:
            self.journal.writes.post(lambda tx: tx.processes.drop(pid, start_time))
