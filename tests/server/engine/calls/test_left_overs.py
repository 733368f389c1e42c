"""Drafts that a daemon left beside files when it died while it wrote: removed where nobody else can own them."""

import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from ostler.protocol.ids import SessionId, new_session_id
from ostler.server.engine.session.file_history import clear_left_overs
from ostler.server.events.event_log import EventLog
from ostler.storage import Store, Tx, open_store
from ostler.storage.repositories.file_history import FileSnapshot
from tests.storage.records import build_turn

pytestmark = pytest.mark.anyio

_DYING_WRITE: Final = """
import os, sys
from ostler.tools.fs import atomic_write
sys.addaudithook(lambda event, given: os._exit(9) if event == "os.rename" else None)
atomic_write.save(sys.argv[1], b"new", 0o022)
"""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = open_store(tmp_path / "ostler.db", pending_limit=1000)
    yield opened
    await opened.close()


async def store_unfinished_turn(log: EventLog, *changed: Path, status: str = "running") -> SessionId:
    """A session whose turn has changed these files."""
    session_id = new_session_id()
    current = build_turn(session_id, status)

    def work(tx: Tx) -> None:
        tx.turns.put(current, "Go on.")
        for path in changed:
            tx.file_history.keep(FileSnapshot(session_id, current.id, str(path), None), None, 1000)

    await log.write(work, session_id)
    return session_id


def run_dying_write(path: Path) -> Path:
    """Run a real write that dies before its rename; the draft that it leaves."""
    before = set(path.parent.iterdir())
    assert subprocess.run([sys.executable, "-c", _DYING_WRITE, str(path)], check=False).returncode == 9
    (left,) = set(path.parent.iterdir()) - before
    return left


@pytest.mark.parametrize("name", ["a.txt", "日" * 85, "[x]*?.{a,b}", "line\nend", "-"])
async def test_what_a_write_left_is_removed_and_nothing_else(store: Store, tmp_path: Path, name: str) -> None:
    path = tmp_path / "work" / name
    path.parent.mkdir()
    left = run_dying_write(path)
    others = [path, path.parent / ".b.txt.0123456789ab.tmp", path.parent / f"{left.name[:20]}.txt"]
    for each in others:
        each.write_text("mine")
    log = EventLog(store)
    await clear_left_overs(log, await store_unfinished_turn(log, path), time.time() + 1)
    assert sorted(path.parent.iterdir()) == sorted(others)


async def test_what_is_younger_than_the_daemon_or_no_file_stays(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    left = run_dying_write(path)
    link, folder = (tmp_path / f".a.txt.{digit * 12}.tmp" for digit in "12")
    link.symlink_to(path)
    folder.mkdir()
    log = EventLog(store)
    session_id = await store_unfinished_turn(log, path)
    await clear_left_overs(log, session_id, left.stat().st_mtime)
    assert left.exists()
    await clear_left_overs(log, session_id, time.time() + 1)
    assert not left.exists()
    assert link.is_symlink()
    assert folder.is_dir()


async def test_only_the_files_of_the_unfinished_turn_are_looked_at(store: Store, tmp_path: Path) -> None:
    left = run_dying_write(tmp_path / "a.txt")
    log = EventLog(store)
    await clear_left_overs(log, await store_unfinished_turn(log, tmp_path / "a.txt", status="ended"), time.time() + 1)
    await clear_left_overs(log, await store_unfinished_turn(log, tmp_path / "b.txt"), time.time() + 1)
    assert left.exists()


async def test_a_folder_that_is_gone_or_closed_is_no_trouble(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    left = run_dying_write(tmp_path / "a.txt")
    log = EventLog(store)
    places = [file / "b", tmp_path / "gone" / "a.txt", tmp_path / "a.txt"]
    await clear_left_overs(log, await store_unfinished_turn(log, *places), time.time() + 1)
    assert not left.exists()
