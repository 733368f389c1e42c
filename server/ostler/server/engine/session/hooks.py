"""Hooks in a session: what each moment tells them, and what is kept of their runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ostler.protocol.events import Notice
from ostler.protocol.hook import HookRun
from ostler.protocol.ids import CallId, TurnId
from ostler.protocol.shapes import Call
from ostler.server.hooks import NOTHING, HookCall, Outcome

if TYPE_CHECKING:
    from ostler.server.engine.session.live import LiveSession

_SHOWN_RESPONSE_CHARS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Hooking:
    """The hooks of a session, from one turn."""

    session: "LiveSession"
    turn_id: TurnId | None

    async def tool(self, event: str, call: Call, **more: Any) -> Outcome:
        """A moment of a call."""
        if not self.session.hooks.any_for(event, call.tool):
            return NOTHING
        told = {"tool_name": call.tool, "tool_input": call.input, "tool_use_id": call.tool_use_id}
        return await self._run(event, {**told, **more}, call.call_id)

    async def moment(self, event: str, **more: Any) -> Outcome:
        """A moment of the turn or the session."""
        if not self.session.hooks.any_for(event):
            return NOTHING
        return await self._run(event, more, None)

    async def _run(self, event: str, more: Mapping[str, Any], call_id: CallId | None) -> Outcome:
        session = self.session
        payload = {
            "session_id": session.record.id,
            "cwd": session.surroundings.shell_folder,
            "permission_mode": session.mode,
            **more,
        }
        outcome = await session.hooks.run(HookCall(event, payload))
        for run in outcome.runs:
            session.journal.hook_ran(self.turn_id, HookRun(**run.as_json(), call_id=call_id))
        for words in outcome.messages:
            session.journal.notice(self.turn_id, Notice(level="info", text=words))
        for words in outcome.warnings:
            session.journal.notice(self.turn_id, Notice(level="warning", text=words))
        return outcome


def response_of(call: Call) -> Any:
    """What a hook is told about how a call ended."""
    if call.output is not None:
        return call.output
    texts = [block.get("text", "") for block in call.content or () if block.get("type") == "text"]
    return "\n".join(texts)[:_SHOWN_RESPONSE_CHARS]
