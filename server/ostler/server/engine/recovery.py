"""Recovers the stored state of a turn that a crash or a bug interrupted: one unit of work, case by case.

    message streaming, no call of it started     aborted, out of the history
    message streaming, a call of it started      cut after its last stored tool_use, kept
    call completed                               kept
    call started, no result                      `interrupted, outcome unknown`; never run again by itself
    the same, of a call that started an agent    its outcome; where that goes on, the call waits for it again
    the same, of what a person had answered      goes on: the answer is the result
    call queued                                  still queued
    ask open, message complete                   still open; the turn waits, and goes on when it is answered
    ask answered, call not started               goes on
    ask of a message that was cut                cancelled
    input that hooks had not let pass            withdrawn; the hooks run again where the turn goes on

A turn with an ask that is open, or answered and not acted upon, stays alive, and so does one with a call that waits for
an agent which goes on. Any other ends as interrupted, or goes on with the next request where `on_restart` says so, or
where it is an agent's in the background. One whose final answer is stored has nothing left to do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ostler.protocol import times
from ostler.protocol.events import MessageData, TurnData
from ostler.protocol.ids import CallId, SessionId, call_id, new_message_id
from ostler.protocol.session import SessionStatus
from ostler.protocol.shapes import Ask, Call, Message, Turn
from ostler.server.engine.agent_outcomes.takeover import INTERRUPTED_BEFORE, complete_call, find_started
from ostler.server.engine.calls.executor import OUTCOME_UNKNOWN
from ostler.server.engine.journal.session_view import store_session
from ostler.server.engine.loading import extract_message_text, read_paused_text
from ostler.server.engine.session.history import build_tool_result
from ostler.server.engine.turn.environment_updates import revert_input_state
from ostler.server.engine.turn.model_attempt import DISCARDED
from ostler.server.worktrees.worktree import WorktreeOutcome
from ostler.storage import Scope, Tx
from ostler.storage.repositories.sessions import SessionRecord
from ostler.storage.repositories.tasks import TaskReport
from ostler.storage.repositories.turns import HeldInput
from ostler.tools.agents.agent import Agent

NOT_STARTED: Final = "Interrupted before it started: the daemon stopped."
_FINAL_STOP_REASONS: Final = {"end_turn", "stop_sequence", "refusal"}


@dataclass(frozen=True, slots=True)
class RecoveryEnding:
    """How turns that cannot go on are ended."""

    reason: str = "interrupted"
    error: dict[str, Any] | None = None
    may_resume: bool = True


FitResults = Callable[[Sequence[Call]], Sequence[tuple[Call, str]]]
"""Picks the results of one message that are too long together: the calls with shortened results, and the full texts."""


def settle_session(
    tx: Tx,
    session_id: SessionId,
    ending: RecoveryEnding,
    fit: FitResults,
    worktrees: Mapping[SessionId, WorktreeOutcome],
) -> bool:
    """Recover a session's stored state; true where it has a turn or input to go on with.

    Its agents have been recovered; `worktrees`: what became of theirs.
    """
    record = tx.sessions.find(session_id)
    turn = tx.turns.find_current(session_id) if record else None
    if record is None:
        return False
    if turn is not None:
        case = _UnfinishedTurn(tx, record, turn, fit, worktrees)
        case.settle_draft()
        case.settle_calls()
        if ending.may_resume and case.can_resume():
            case.keep_alive()
            return True
        case.end(ending)
    return bool(tx.turns.list_queued(session_id) or tx.steers.list_by_session(session_id))


def _is_in_background(tx: Tx, record: SessionRecord) -> bool:
    """Whether it is an agent whose task is not over: it goes on by itself."""
    if record.parent_id is None:
        return False
    tasks = (each.task for each in tx.tasks.list_by_sessions([record.parent_id]))
    return any(task.agent_id == record.id and task.ended_at is None for task in tasks)


class _UnfinishedTurn:
    """One unfinished turn."""

    def __init__(
        self,
        tx: Tx,
        record: SessionRecord,
        turn: Turn,
        fit: FitResults,
        worktrees: Mapping[SessionId, WorktreeOutcome],
    ) -> None:
        self._tx = tx
        self._fit = fit
        self._worktrees = worktrees
        self._agent_asks = False
        """An agent that one of its calls waits for has an open ask."""
        self._record = record
        self._turn = turn
        self._scope = Scope(record.id, record.root_id, turn.id)
        self._last: Message | None = None
        """The model's last message, where it is the last of the history."""
        self._calls: dict[CallId, Call] = {}
        self._asks: dict[CallId, Ask] = {}
        self._trust_ask = tx.asks.find_open_without_call(record.id)
        self._pending_input = tx.turns.find_held_input(turn.id)

    # The message that was being streamed.

    def settle_draft(self) -> None:
        draft = self._tx.drafts.find(self._record.id)
        if draft is None:
            return
        self._tx.drafts.drop(self._record.id)
        stored = self._tx.calls.list_by_message(draft.id)
        if any(call.started_at or self._find_said(call) for call in stored):
            self._keep_draft(draft, stored)
        else:
            for call in stored:
                self._cancel_ask(call)
                if call.status != "completed":
                    self._complete(call, DISCARDED)
            aborted = draft.model_copy(update={"content": []})
            self._tx.append("message.aborted", self._scope, data=MessageData(message=aborted))

    def _keep_draft(self, draft: Message, stored: list[Call]) -> None:
        last = max(at for at, block in enumerate(draft.content) if block.type == "tool_use")
        kept = draft.model_copy(update={"content": draft.content[: last + 1]})
        self._tx.messages.add(kept)
        self._tx.append("message.completed", self._scope, reference=kept.id)
        for call in stored:
            # An ask that was answered counts; one that is open is cancelled, since half of its message is lost.
            if call.status == "waiting" and self._cancel_ask(call):
                self._complete(call, NOT_STARTED)

    # The calls of the last message.

    def settle_calls(self) -> None:
        self._last = self._find_last_message()
        if self._last is None:
            return
        self._calls = {call.call_id: call for call in self._tx.calls.list_by_message(self._last.id)}
        for call in list(self._calls.values()):
            if call.status == "running" and (ask := self._find_said(call)) is not None:
                # Its tool does nothing but hand on what was said, and may do so again.
                self._calls[call.call_id] = waiting = call.model_copy(update={"status": "waiting", "started_at": None})
                self._tx.calls.put(waiting)
                self._asks[call.call_id] = ask
            elif call.status == "running":
                self._calls[call.call_id] = self._settle_running(call)
            elif call.status == "waiting":
                self._note_ask(call)

    def _settle_running(self, call: Call) -> Call:
        """A call that was cut off: only one that has started an agent knows what became of it."""
        if call.tool != Agent.name:
            return self._complete(call, OUTCOME_UNKNOWN)
        agent = find_started(self._tx, self._record.id, call.call_id)
        if agent is None or agent.turn is None:
            return self._complete(call, INTERRUPTED_BEFORE)
        if agent.task is None and agent.at_work:
            self._agent_asks = self._agent_asks or agent.turn.status == "waiting"
            return call
        call = complete_call(call, agent, self._worktrees)
        self._tx.calls.put(call)
        self._tx.append("tool.completed", self._scope, reference=call.call_id)
        return call

    def _note_ask(self, call: Call) -> None:
        ask = self._tx.asks.find_by_call(call.call_id)
        if ask is not None and ask.status in {"open", "resolved", "expired"}:
            self._asks[call.call_id] = ask

    def _find_said(self, call: Call) -> Ask | None:
        """The question or plan of a call that is not over, where a person has answered it: their words are not lost."""
        ask = self._tx.asks.find_by_call(call.call_id) if call.status != "completed" else None
        return ask if ask is not None and ask.kind in {"question", "plan"} and ask.status == "resolved" else None

    def _find_last_message(self) -> Message | None:
        """The last message of the history, if it is the model's and of this turn."""
        last = self._tx.messages.find_last(self._record.id)
        ours = last is not None and last.role == "assistant" and last.turn_id == self._turn.id
        return last if ours else None

    def can_resume(self) -> bool:
        if self._asks or self._trust_ask is not None:
            return True
        if any(call.status == "running" for call in self._calls.values()):
            return True  # it waits for an agent that goes on
        if self._pending_input is not None and self._tx.messages.load_encoded(self._pending_input.message_id) is None:
            return False  # it was withdrawn already, and there is nothing else to do
        goes_on = self._record.options.get("on_restart") == "resume" or _is_in_background(self._tx, self._record)
        return goes_on and not self._has_final_answer()

    def _has_final_answer(self) -> bool:
        """The model had finished: no further request is needed."""
        last = self._last
        if last is None or any(block.type == "tool_use" for block in last.content):
            return False
        return last.stop_reason in _FINAL_STOP_REASONS and not self._tx.steers.list_by_session(self._record.id)

    def keep_alive(self) -> None:
        asks = any(ask.status == "open" for ask in self._asks.values())
        waiting = asks or self._trust_ask is not None or self._agent_asks
        status = "waiting" if waiting else "running"
        if self._turn.status != status:
            self._turn = self._turn.model_copy(update={"status": status})
            self._tx.turns.update(self._turn)
            self._tx.append("turn.updated", self._scope, data=TurnData(turn=self._turn))
        self._set_session_status("waiting" if waiting else "running")

    # The end.

    def end(self, ending: RecoveryEnding) -> None:
        for call in self._calls.values():
            self._cancel_ask(call)
        if self._trust_ask is not None:
            self._cancel(self._trust_ask)
        if self._pending_input is not None:
            self._withdraw_input(self._pending_input)
        if self._last is not None:
            self._answer_calls(self._last)
        done = self._has_final_answer() and self._last is not None and self._last.stop_reason != "refusal"
        reason, error = ("completed", None) if done and ending.error is None else (ending.reason, ending.error)
        changes = {"status": "ended", "reason": reason, "error": error, "ended_at": times.now()}
        changes["result_text"] = self._find_last_words() or self._turn.result_text
        self._tx.turns.update(self._turn.model_copy(update=changes))
        self._tx.append("turn.ended", self._scope, reference=self._turn.id)
        self._set_session_status("idle")

    def _find_last_words(self) -> str:
        """What the model has said last in the turn."""
        if text := read_paused_text(self._tx, self._turn):
            return text
        for message in self._tx.messages.iterate_backwards(self._record.id):
            if message.turn_id != self._turn.id:
                break
            if message.role == "assistant" and (text := extract_message_text(message)):
                return text
        return ""

    def _withdraw_input(self, pending_input: HeldInput) -> None:
        """Withdraw input that hooks have not let pass: the model is never sent it, nor the task ends it announces."""
        self._tx.messages.drop(pending_input.message_id)
        self._tx.tasks.mark_unreported(map(TaskReport, pending_input.ends))
        state = self._tx.states.find(self._record.id)
        self._tx.states.put(self._record.id, revert_input_state(state))

    def _answer_calls(self, last: Message) -> None:
        """Keep the history valid for the API: each tool_use has its result in the next message."""
        answered: dict[CallId, Call] = {}
        for index, block in enumerate(last.content):
            if block.type != "tool_use":
                continue
            call = self._calls.get(call_id(last.id, index)) or self._store_queued_call(last, index)
            if call.status != "completed":
                call = self._complete(call, OUTCOME_UNKNOWN if call.status == "running" else NOT_STARTED)
            answered[call.call_id] = call
        for call, whole in self._fit(list(answered.values())):
            answered[call.call_id] = self._store_shortened(call, whole)
        if answered:
            call_ids = {call.tool_use_id: call.call_id for call in answered.values()}
            self._add_user_message([build_tool_result(call) for call in answered.values()], call_ids)
        for answered_id in answered:
            for blocks in self._tx.calls.load_messages(answered_id):
                self._add_user_message(blocks, {}, source=answered_id)

    def _add_user_message(
        self, content: list[dict[str, Any]], call_ids: Mapping[str, CallId], source: CallId | None = None
    ) -> None:
        message = Message.model_validate(
            {
                "id": new_message_id(),
                "session_id": self._record.id,
                "turn_id": self._turn.id,
                "role": "user",
                "content": content,
                "source_call_id": source,
                "created_at": times.now(),
            }
        )
        self._tx.messages.add(message, call_ids)
        self._tx.append("message.completed", self._scope, reference=message.id)

    def _store_shortened(self, call: Call, whole: str) -> Call:
        """Store a call whose result was shortened for the model, and the full text."""
        assert call.result_id is not None
        self._tx.calls.put(call)
        self._tx.results.put(call.result_id, self._record.id, whole, tool=call.tool)
        self._tx.append("tool.completed", self._scope, reference=call.call_id)
        return call

    def _store_queued_call(self, last: Message, index: int) -> Call:
        """A tool_use that the model wrote and that has no call yet: store it as queued."""
        block: Any = last.content[index]
        call = Call(
            call_id=call_id(last.id, index),
            tool_use_id=block.id,
            session_id=self._record.id,
            turn_id=self._turn.id,
            tool=block.name,
            input=block.input,
            summary=block.name,
            status="queued",
        )
        self._tx.calls.put(call)
        self._tx.append("tool.queued", self._scope, reference=call.call_id)
        return call

    def _complete(self, call: Call, message: str) -> Call:
        content = [{"type": "text", "text": f"<tool_use_error>{message}</tool_use_error>"}]
        call = call.model_copy(update={"status": "completed", "is_error": True, "content": content})
        self._tx.calls.put(call)
        self._tx.append("tool.completed", self._scope, reference=call.call_id)
        return call

    def _cancel_ask(self, call: Call) -> bool:
        """True where there was an open one."""
        ask = self._tx.asks.find_by_call(call.call_id)
        if ask is None or ask.status != "open":
            return False
        self._cancel(ask)
        return True

    def _cancel(self, ask: Ask) -> None:
        self._tx.asks.settle(
            ask.model_copy(update={"status": "cancelled", "answered_by": "restart", "answered_at": times.now()}),
        )
        self._tx.append("ask.resolved", self._scope, reference=ask.id)

    def _set_session_status(self, status: SessionStatus) -> None:
        if self._record.status == status:
            return
        self._record = replace(self._record, status=status, updated_at=times.now())
        store_session(self._tx, self._record, self._tx.usage.sum_session(self._record.id))
