"""An answer from the keyboard that comes after somebody else has answered the ask."""

import asyncio
import io
import math
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import anyio
import pytest

from ostler.clients import connect
from ostler.clients.cli.chat.session import ChatSession
from ostler.clients.cli.render.sink import OutputSink, StreamSink
from ostler.clients.cli.terminal.input_events import InputEvent, Line
from ostler.protocol.session import Session
from tests.clients.sdk.scripted_daemon import NOW, encode_turn_event, run_scripted_daemon

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


class OneKeyConsole:
    """A console on which `y` is pressed once."""

    is_terminal = False
    pressed_at = -math.inf

    def __init__(self) -> None:
        self.output = io.StringIO()
        self.sink: OutputSink = StreamSink(self.output, self.output)

    async def read_input(self) -> AsyncGenerator[InputEvent, None]:
        yield Line("y")
        await anyio.sleep_forever()

    def set_prompt(self, prompt: str, single_keys: str = "", openers: str = "") -> None:
        return

    def fill(self, text: str) -> None:
        return

    def take_draft(self) -> str:
        return ""

    def add_to_history(self, line: str) -> None:
        return

    def echo(self, text: str) -> None:
        return

    def suspend(self) -> None:
        return

    def resume(self) -> None:
        return

    async def keep_painting(self) -> None:
        return

    def on_resize(self) -> None:
        return

    @property
    def is_lent(self) -> bool:
        return False

    async def run_program(self, command: Sequence[str]) -> int:
        raise OSError("there is no terminal")


async def test_who_was_too_late_is_told_what_was_decided_and_by_whom() -> None:
    script = encode_turn_event("ask.resolved", 2, ask=SETTLED) + encode_turn_event(
        "session.deleted", 3, session=SESSION
    )
    gate, console = asyncio.Event(), OneKeyConsole()

    async def resolve(params: dict[str, Any]) -> dict[str, Any]:
        assert params["answer"] == {"choice": "allow"}
        gate.set()
        return {"code": -32001, "message": "Somebody was faster.", "data": {"code": "ask_resolved", "ask": SETTLED}}

    async with (
        run_scripted_daemon((200, script), **{"ask/resolve": resolve}) as daemon,
        connect(url=daemon.url) as ostler,
    ):
        daemon.gate = gate
        session = Session.model_validate({**SESSION, "asks": [ASK]})
        await ChatSession(ostler, session, console).run()
    assert "  Too late: deny, answered by Zed (ide)\n" in console.output.getvalue()
