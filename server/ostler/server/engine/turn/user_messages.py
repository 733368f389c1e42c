"""The user messages of a turn after its first: tool results, further input and the daemon's notes, as one message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from ostler.protocol import times
from ostler.protocol.config import Results
from ostler.protocol.ids import CallId, new_message_id
from ostler.protocol.shapes import Call, Message
from ostler.server.engine.calls.call_run import CallRun
from ostler.server.engine.calls.result_limits import fit_message
from ostler.server.engine.context.repeats import ResultIndex, may_repeat
from ostler.server.engine.journal.calls import CompletedCall
from ostler.server.engine.journal.messages import StoredUserMessage
from ostler.server.engine.session.history import build_tool_result
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.engine.todos.reminders import build_told_state, describe_edits, remind_of_todos
from ostler.server.engine.turn.environment_updates import build_message_state, load_sent_facts, update_session_facts
from ostler.server.prompt.environment import GitState, read_git_state
from ostler.server.prompt.reminders import describe_changes
from ostler.storage import CommitProgress
from ostler.storage.repositories.steers import Steer
from ostler.storage.sqlite.long_json import encode_plain, is_long
from ostler.tools.registry import ToolSet
from ostler.tools.threads import change_in_thread, read_in_thread
from ostler.tools.tool import AnyTool, text_block


@dataclass(slots=True)
class UserMessages:
    """Those of one turn. Each is in the history at once, and on the disk before a request sends it to the model."""

    session: LiveSession
    state: TurnState
    last_commit: CommitProgress | None = None
    """Of the last one: a request waits for it before it sends the message."""
    _git: GitState | None = None
    """As it was after the last calls that changed something."""

    async def refresh_git(self) -> None:
        """Read the state of git again: calls have changed something, perhaps the branch."""
        self._git = await read_git_state(self.session.view.folder)

    async def add(
        self,
        results: Sequence[dict[str, Any]],
        call_ids: Mapping[str, CallId],
        notes: Sequence[str],
        *,
        steers: Sequence[Steer],
        shortened: Sequence[CompletedCall],
        continues: bool,
        given: Sequence[tuple[CallId, list[dict[str, Any]]]] = (),
    ) -> None:
        """Add one message: results, further input, notes. Where the turn continues, it also tells of ended tasks.

        What the calls have `given` comes after it, each as a message of its own.
        """
        notifications = self.session.tasks.notifications.take(self.session.record.id) if continues else []
        if continues:
            self.session.wake_signal.clear()
        message = self._create_message()
        changed, sent = self._describe_changes() if continues else ([], {})
        further = [block for steer in steers for block in steer.blocks]
        reminders = await remind_of_todos(self.session) if continues else []
        all_notes = (*changed, *reminders, *(each.text for each in notifications), *notes)
        blocks = [*results, *further, *({"type": "text", "text": each} for each in all_notes)]
        user_message = StoredUserMessage(message, blocks, await self._add_to_history(blocks), call_ids)
        from_calls = [
            (self._create_message(call_id), await self._add_to_history(blocks_given)) for call_id, blocks_given in given
        ]
        taken = [steer.id for steer in steers]
        told = [
            *self.session.tasks.notifications.take_shown(self.session.record.id),
            *(each.report for each in notifications),
        ]
        state = {**self.session.state, **sent} if sent else None
        self.session.state = state or self.session.state
        self.last_commit = self.session.journal.messages.add_user_message(
            user_message, taken, self.state.turn, shortened, told, state, from_calls
        )

    def _create_message(self, source_call_id: CallId | None = None) -> Message:
        return Message(
            id=new_message_id(),
            session_id=self.session.record.id,
            turn_id=self.state.turn.id,
            role="user",
            content=[],
            source_call_id=source_call_id,
            created_at=times.now(),
        )

    def _describe_changes(self) -> tuple[list[str], dict[str, Any]]:
        """Notes on the environment facts that differ from those last sent, and the session state to store with them."""
        sent = load_sent_facts(self.session)
        if sent is None:
            return [], {}
        now = update_session_facts(self.session, sent, self._git)
        notes, state = (describe_changes(sent, now), build_message_state(now)) if now != sent else ([], {})
        if edits := describe_edits(self.session):
            notes, state = [*notes, *edits], {**state, **build_told_state(self.session)}
        return notes, state

    async def _add_to_history(self, blocks: list[dict[str, Any]]) -> bytes:
        """Add the blocks to the history; returns them as JSON."""

        def encode_and_add() -> bytes:
            encoded = encode_plain(blocks)
            self.session.history.add_encoded("user", encoded)
            return encoded

        if not is_long(blocks):
            return encode_and_add()
        # Several inputs of megabytes may have arrived meanwhile. Shielded: what is in the history must be stored, too.
        with anyio.CancelScope(shield=True):
            return await change_in_thread(encode_and_add)
        raise AssertionError("a shielded scope is never left early")

    def mark_input_passed(self) -> None:
        """Store that hooks have let the input pass; a request waits for this before it sends the input."""
        self.last_commit = self.session.journal.turns.accept_input(self.state.turn.id)


async def find_repeats(session: LiveSession, runs: Sequence[CallRun], calls: Sequence[Call]) -> dict[CallId, Call]:
    """The calls whose results repeat an earlier one: each with a line in its place that says so, for the model."""
    uses = {run.call.call_id: run.use for run in runs}
    long = [call for call in calls if may_repeat(call.content or "")]
    if not long:
        return {}
    if session.context.results is None:
        session.context.results = await read_in_thread(lambda: ResultIndex.of(session.history.decode()))
    found: dict[CallId, Call] = {}
    for call in long:
        use = uses[call.call_id]
        line = session.context.results.find_repeat(use.name, use.input, build_tool_result(call))
        if line is not None:
            found[call.call_id] = call.changed(content=[text_block(line)])
    return found


def shorten_results(
    runs: Sequence[CallRun], toolset: ToolSet, settings: Results
) -> tuple[list[Call], list[CompletedCall]]:
    """The calls as the model gets them, and those of them that are stored again.

    Results that are too long together are shortened: the largest are persisted, and the model gets a preview of them.
    """
    by_call = {run.call.call_id: run for run in runs}

    def tool_of(call: Call) -> AnyTool | None:
        # A call from before a restart has not been looked up.
        return by_call[call.call_id].tool or toolset.by_name.get(call.tool)

    calls = {call_id: run.call for call_id, run in by_call.items()}
    shortened: list[CompletedCall] = []
    for call, whole in fit_message(list(calls.values()), tool_of, settings):
        calls[call.call_id] = call
        shortened.append(CompletedCall(call, whole_result=whole))
    return list(calls.values()), shortened
