"""Sessions whose model changes files, and what the daemon has stored of it afterwards."""

import sqlite3
from pathlib import Path
from typing import Any

from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.replies import Block, message, says


def open_editing_session(harness: Harness, folder: Path, *turns: list[Block], **session: Any) -> SessionDriver:
    """A session whose turns make these calls, one in each message."""
    steps = [step for blocks in turns for step in [*(message(block) for block in blocks), message(says("Done."))]]
    return harness.open_session(*steps, folder=folder, **{"mode": "acceptEdits", **session})


def run_editing_session(harness: Harness, folder: Path, *turns: list[Block], **session: Any) -> SessionDriver:
    """The same, when all turns have ended and no call has failed."""
    driver = open_editing_session(harness, folder, *turns, **session)
    for _ in turns:
        driver.run_turn()
    failed = [text for text in driver.fetch_result_texts() if "tool_use_error" in text]
    assert not failed, failed
    return driver


def diff_session(driver: SessionDriver) -> list[Json]:
    found: list[Json] = driver.daemon.call("session/diff", session_id=driver.id)["files"]
    return found


def list_kept_files(harness: Harness, session_id: str) -> list[tuple[str, int | None, str | None]]:
    """The rows of `file_history`: the path, the mode, and why there is no content."""
    database = sqlite3.connect(f"file:{harness.daemon.home / 'ostler.db'}?mode=ro", uri=True)
    try:
        query = "SELECT path, mode, left_out FROM file_history WHERE session_id = ? ORDER BY id"
        return database.execute(query, (session_id,)).fetchall()
    finally:
        database.close()


def count_contents(harness: Harness) -> int:
    database = sqlite3.connect(f"file:{harness.daemon.home / 'ostler.db'}?mode=ro", uri=True)
    try:
        return int(database.execute("SELECT count(*) FROM file_contents").fetchone()[0])
    finally:
        database.close()
