"""Messages as people read them."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ostler.protocol.content import TextBlock
from ostler.protocol.ids import SessionId, new_message_id
from ostler.protocol.shapes import Message
from ostler.storage import Snapshot
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon

NOW = "2026-01-01T00:00:00.000Z"


def add_messages(home: Path, session_id: str, contents: list[list[Any]]) -> None:
    """Into the database of a daemon that does not run: nothing of this version makes messages yet."""
    connection = sqlite3.connect(home / "ostler.db", isolation_level=None)
    try:
        for number, content in enumerate(contents):
            role = "assistant" if number % 2 else "user"
            fields = {"id": new_message_id(), "session_id": SessionId(session_id), "role": role, "content": content}
            Snapshot(connection).messages.add(Message.model_validate({**fields, "created_at": NOW}))
    finally:
        connection.close()


@pytest.fixture
def session_id(daemon: Daemon) -> str:
    found = str(daemon.call("session/create", cwd=str(daemon.home.parent), title="a driver")["id"])
    daemon.stop()
    return found


def test_messages_are_shown_block_by_block(daemon: Daemon, session_id: str) -> None:
    contents: list[list[Any]] = [
        [{"type": "text", "text": "run the tests"}, {"type": "image", "source": {}}],
        [
            {"type": "thinking", "thinking": "hm\nwell"},
            {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "pytest"}},
            {"type": "tool_use", "id": "2", "name": "SendUserMessage", "input": {"message": "Nearly\nthere."}},
        ],
        [
            {"type": "tool_result", "tool_use_id": "1", "content": "2 passed\n\x1b[31mred"},
            {"type": "tool_result", "tool_use_id": "2", "content": [{"type": "text", "text": "x"}, {"type": "image"}]},
        ],
        [{"type": "text", "text": "done \x1b]0;title\x07"}, {"type": "new_kind", "more": 1}],
    ]
    add_messages(daemon.home, session_id, contents)
    daemon.start()
    shown = Cli(daemon.home).run("show", session_id).out.partition("\n\n")[2]
    assert shown == (
        f"user  {NOW}\nrun the tests\n[image]\n"
        f'\nassistant  {NOW}\n  thinking: hm\n  well\nBash {{"command": "pytest"}}\n✉ Nearly\nthere.\n'
        f"\nuser  {NOW}\n  2 passed\n  \\x1b[31mred\n  x\n  [image]\n"
        f"\nassistant  {NOW}\ndone \\x1b]0;title\\x07\n[new_kind]\n"
    )


def test_a_history_longer_than_a_page_is_shown_whole(daemon: Daemon, session_id: str) -> None:
    add_messages(daemon.home, session_id, [[TextBlock(text=f"number {number}")] for number in range(1100)])
    daemon.start()
    shown = Cli(daemon.home).run("show", session_id, "--format", "json").json["messages"]
    assert [message["content"][0]["text"] for message in shown] == [f"number {number}" for number in range(1100)]
