"""A key was pressed here, and somebody else had answered a moment before."""

import asyncio
import io
import math
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from ostler.clients import connect
from ostler.clients.cli.chat.session import Attached
from ostler.clients.cli.render.sink import Paper, StreamPaper
from ostler.clients.cli.terminal.line_editor import Line, Typed
from ostler.protocol.session import Session
from tests.clients.sdk.scripted_daemon import NOW, scripted, turn_event

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {
    "id": "k_1",
    "session_id": "s_1",
    "root_id": "s_1",
    "kind": "permission",
    "status": "open",
    "choices": ["allow", "deny"],
    "call": {"call_id": "m_1#0", "tool": "Bash", "input": {"command": "ls"}, "summary": "ls"},
    "opened_at": NOW,
}
SETTLED = {
    **ASK,
    "status": "resolved",
    "answer": {"choice": "deny"},
    "answered_by": "c_2",
    "answered_by_name": "Zed (ide)",
}
SESSION: dict[str, Any] = {
    "id": "s_1",
    "root_id": "s_1",
    "cwd": "/",
    "model": "rehearsal",
    "provider": "rehearsal",
    "mode": "default",
    "status": "waiting",
    "on_ask": "ask",
    "created_at": NOW,
    "updated_at": NOW,
    "cursor": 1,
}


class OneKey:
    """Somebody who presses `y` and waits."""

    is_terminal = False
    pressed = -math.inf

    def __init__(self) -> None:
        self.told = io.StringIO()
        self.paper: Paper = StreamPaper(self.told, self.told)

    async def typed(self) -> AsyncGenerator[Typed, None]:
        yield Line("y")
        await anyio.sleep_forever()

    def ask_for(self, prompt: str, single_keys: str = "") -> None:
        return

    def fill(self, text: str) -> None:
        return

    def put_aside(self) -> str:
        return ""

    def remember(self, line: str) -> None:
        return

    def echo(self, text: str) -> None:
        return

    def resume(self) -> None:
        return

    def resized(self) -> None:
        return


async def test_who_was_too_late_is_told_what_was_decided_and_by_whom() -> None:
    script = turn_event("ask.resolved", 2, ask=SETTLED) + turn_event("session.deleted", 3, session=SESSION)
    gate, console = asyncio.Event(), OneKey()

    async def resolve(params: dict[str, Any]) -> dict[str, Any]:
        assert params["answer"] == {"choice": "allow"}
        gate.set()
        return {"code": -32001, "message": "Somebody was faster.", "data": {"code": "ask_resolved", "ask": SETTLED}}

    async with (
        scripted((200, script), **{"ask/resolve": resolve}) as daemon,
        connect(url=daemon.url) as ostler,
    ):
        daemon.gate = gate
        session = Session.model_validate({**SESSION, "asks": [ASK]})
        await Attached(ostler, session, console).stay()
    assert "  Too late: deny, answered by Zed (ide)\n" in console.told.getvalue()
