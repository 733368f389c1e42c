"""Talks whose model changes files, and what the daemon knows of it afterwards."""

import sqlite3
from pathlib import Path
from typing import Any

from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.replies import Block, message, says


def talk_in(stage: Stage, folder: Path, *turns: list[Block], **session: Any) -> Talk:
    """A talk whose turns make these calls, one in each message."""
    steps = [step for blocks in turns for step in [*(message(block) for block in blocks), message(says("Done."))]]
    return stage.talk(*steps, folder=folder, **{"mode": "acceptEdits", **session})


def done(stage: Stage, folder: Path, *turns: list[Block], **session: Any) -> Talk:
    """The same, when all of it has been done."""
    talk = talk_in(stage, folder, *turns, **session)
    for _ in turns:
        talk.turn()
    failed = [text for text in talk.result_texts() if "tool_use_error" in text]
    assert not failed, failed
    return talk


def diff(talk: Talk) -> list[Json]:
    found: list[Json] = talk.daemon.call("session/diff", session_id=talk.id)["files"]
    return found


def kept(stage: Stage, session_id: str) -> list[tuple[str, int | None, str | None]]:
    """What the database holds: the path, the mode, and why there is no content."""
    database = sqlite3.connect(f"file:{stage.daemon.home / 'ostler.db'}?mode=ro", uri=True)
    try:
        query = "SELECT path, mode, left_out FROM file_history WHERE session_id = ? ORDER BY id"
        return database.execute(query, (session_id,)).fetchall()
    finally:
        database.close()


def contents(stage: Stage) -> int:
    database = sqlite3.connect(f"file:{stage.daemon.home / 'ostler.db'}?mode=ro", uri=True)
    try:
        return int(database.execute("SELECT count(*) FROM file_contents").fetchone()[0])
    finally:
        database.close()
