"""The lock of a home: one daemon at a time, and a dead one does not count."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ostler.protocol.places import Places, find_places
from ostler.server.daemon.instance import AlreadyRunning, Instance, lock_home


@contextmanager
def hold_lock(places: Places) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that holds the lock until its input ends."""
    words = "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX)"
    words += "; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-I", "-c", words, str(places.lock_file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            yield holder
        finally:
            holder.communicate()


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return find_places(str(tmp_path))


def test_the_lock_that_a_process_of_a_dead_daemon_still_holds_is_waited_for(places: Places) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    places.lock_file.with_suffix(".pid").write_text(f"{ended.pid}\n")
    taken: list[Instance] = []
    with hold_lock(places) as holder:
        waiting = threading.Thread(target=lambda: taken.append(lock_home(places)))
        waiting.start()
        assert holder.poll() is None
        holder.communicate()
        waiting.join(10)
    (instance,) = taken
    instance.release()


def test_the_lock_of_a_daemon_that_lives_is_not_waited_for(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ostler.server.daemon.instance._PATIENCE_SECONDS", 1e9)
    places.lock_file.with_suffix(".pid").write_text(f"{os.getpid()}\n")
    with hold_lock(places), pytest.raises(AlreadyRunning, match=f"with pid {os.getpid()}"):
        lock_home(places)
