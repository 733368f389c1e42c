"""Fires hook events in a session: builds the payload, runs the hooks, and records their runs and messages."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ostler.protocol.events import Notice
from ostler.protocol.hook import HookRun
from ostler.protocol.ids import CallId, TurnId
from ostler.protocol.shapes import Call
from ostler.server.hooks import NO_OUTCOME, HookCall, Outcome

if TYPE_CHECKING:
    from ostler.server.engine.session.live import LiveSession

_MAX_RESPONSE_CHARS: Final = 100_000


@dataclass(frozen=True, slots=True)
class SessionHooks:
    """The hooks of a session, fired from one turn or from none."""

    session: "LiveSession"
    turn_id: TurnId | None

    async def fire_for_call(self, event: str, call: Call, **more: Any) -> Outcome:
        """Fire an event about a call."""
        if not self.session.hooks.has_hooks_for(event, call.tool):
            return NO_OUTCOME
        payload = {"tool_name": call.tool, "tool_input": call.input, "tool_use_id": call.tool_use_id}
        return await self._run(event, {**payload, **more}, call.call_id)

    async def fire(self, event: str, **more: Any) -> Outcome:
        """Fire an event about the turn or the session."""
        if not self.session.hooks.has_hooks_for(event):
            return NO_OUTCOME
        return await self._run(event, more, None)

    async def fire_end(self, *, again: bool) -> Outcome:
        """Fire Stop, or SubagentStop in an agent; `again`: such a hook has kept the turn from ending before."""
        if (agent := self.session.agent) is None:
            return await self.fire("Stop", stop_hook_active=again)
        return await self.fire(
            "SubagentStop", agent_id=self.session.record.id, agent_type=agent.kind, stop_hook_active=again
        )

    async def fire_file_changed(self, path: str) -> None:
        """Fire the event about a file that a call of the session changed, or that was read and changed since."""
        await self.fire("FileChanged", file_path=path, file_name=os.path.basename(path))

    async def _run(self, event: str, more: Mapping[str, Any], call_id: CallId | None) -> Outcome:
        session = self.session
        payload = {
            "session_id": session.record.id,
            "cwd": session.view.shell_folder,
            "permission_mode": session.mode,
            **more,
        }
        outcome = await session.hooks.run(HookCall(event, payload))
        for run in outcome.runs:
            session.journal.record_hook_run(self.turn_id, HookRun(**run.as_json(), call_id=call_id))
        for text in outcome.messages:
            session.journal.add_notice(self.turn_id, Notice(level="info", text=text))
        for text in outcome.warnings:
            session.journal.add_notice(self.turn_id, Notice(level="warning", text=text))
        return outcome


def build_tool_response(call: Call) -> Any:
    """The `tool_response` of a hook's payload."""
    if call.output is not None:
        return call.output
    texts = [block.get("text", "") for block in call.content or () if block.get("type") == "text"]
    return "\n".join(texts)[:_MAX_RESPONSE_CHARS]
