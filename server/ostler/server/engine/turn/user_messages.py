"""What the model is told next: results, further input and words of ours, as one message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from ostler.protocol import times
from ostler.protocol.config import Results
from ostler.protocol.ids import CallId, new_message_id
from ostler.protocol.shapes import Call, Message
from ostler.server.engine.calls.pending_call import Entry
from ostler.server.engine.calls.result_limits import fitted
from ostler.server.engine.journal.calls import Ended
from ostler.server.engine.journal.journal import Said
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.engine.turn.environment_updates import facts_meanwhile, told_facts, with_message
from ostler.server.prompt.environment import GitState, look_at_git
from ostler.server.prompt.reminders import changes
from ostler.storage import Ahead
from ostler.storage.repositories.steers import Steer
from ostler.storage.sqlite.long_json import dumped, is_long
from ostler.tools.registry import ToolSet
from ostler.tools.threads import change_in_thread
from ostler.tools.tool import AnyTool


@dataclass(slots=True)
class UserMessages:
    """Of one turn. Each is in the history at once, and on the disk before a request brings it to the model."""

    session: LiveSession
    state: TurnState
    _last: Ahead | None = None
    """How far the last one is on its way to the disk."""
    _git: GitState | None = None
    """As it was when something of this turn's had changed something."""

    async def look_around(self) -> None:
        """Calls have changed something: perhaps the branch."""
        self._git = await look_at_git(self.session.record.cwd)

    async def add(
        self,
        results: Sequence[dict[str, Any]],
        brought: Mapping[str, CallId],
        words: Sequence[str],
        *,
        steers: Sequence[Steer],
        shortened: Sequence[Ended],
        goes_on: bool,
    ) -> None:
        """In that order. Where the turn goes on, the model is told what became of tasks, too."""
        news = self.session.tasks.news.take(self.session.record.id) if goes_on else []
        if goes_on:
            self.session.stir.told()
        message = Message(
            id=new_message_id(),
            session_id=self.session.record.id,
            turn_id=self.state.turn.id,
            role="user",
            content=[],
            created_at=times.now(),
        )
        changed, remembered = self._what_changed() if goes_on else ([], {})
        further = [block for steer in steers for block in steer.blocks]
        said_by_us = (*changed, *(each.text for each in news), *words)
        blocks = [*results, *further, *({"type": "text", "text": each} for each in said_by_us)]
        said = Said(message, blocks, await self._remembered(blocks), brought)
        taken = [steer.id for steer in steers]
        told = [*self.session.tasks.news.take_shown(self.session.record.id), *(each.told for each in news)]
        state = {**self.session.state, **remembered} if remembered else None
        self.session.state = state or self.session.state
        self._last = self.session.journal.add_user_message(said, taken, self.state.turn, shortened, told, state)

    def _what_changed(self) -> tuple[list[str], dict[str, Any]]:
        """Notes of what is not as the model was told, and what is to be remembered of them."""
        told = told_facts(self.session)
        if told is None:
            return [], {}
        now = facts_meanwhile(self.session, told, self._git)
        return (changes(told, now), with_message(now)) if now != told else ([], {})

    async def _remembered(self, blocks: list[dict[str, Any]]) -> bytes:
        """The blocks as JSON, which the history has then."""

        def remember() -> bytes:
            encoded = dumped(blocks)
            self.session.history.add_encoded("user", encoded)
            return encoded

        if not is_long(blocks):
            return remember()
        # Several inputs of megabytes may have come meanwhile. What the history has is stored, whoever stops the turn.
        with anyio.CancelScope(shield=True):
            return await change_in_thread(remember)
        raise AssertionError("a shielded scope is never left early")

    def heard(self) -> None:
        """Hooks have let the input pass: the disk knows of it before a request brings it to the model."""
        self._last = self.session.journal.heard(self.state.turn.id)

    async def stored(self) -> None:
        """Wait until the last one is on the disk; raises what the disk said."""
        if self._last is not None:
            await self._last.written()


def shorten(entries: Sequence[Entry], toolset: ToolSet, settings: Results) -> list[Ended]:
    """Results that are too long together: the largest are kept elsewhere, and shown in part."""
    by_call = {entry.call.call_id: entry for entry in entries}

    def tool_of(call: Call) -> AnyTool | None:
        # A call from before a restart has not been looked up.
        return by_call[call.call_id].tool or toolset.by_name.get(call.tool)

    shortened: list[Ended] = []
    for call, whole in fitted([entry.call for entry in entries], tool_of, settings):
        by_call[call.call_id].call = call
        shortened.append(Ended(call, whole_result=whole))
    return shortened
