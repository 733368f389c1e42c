"""A process that one thread starts and reads, and that any other may stop, also before it was started."""

import subprocess
import threading
from collections.abc import Callable


class StoppableProcess:
    """`start` and what reads it block and belong on a thread; `stop` may be called from any thread."""

    def __init__(self) -> None:
        self.out_of_time = False
        """It was stopped because it took too long."""
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def start_once(self, start: "Callable[[], subprocess.Popen[bytes]]") -> "subprocess.Popen[bytes] | None":
        """Start the process, unless it was stopped already."""
        with self._lock:
            self._running = None if self._stopped else start()
            return self._running

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._running is not None:
                self._running.kill()

    def stop_on_timeout(self) -> None:
        self.out_of_time = True
        self.stop()
