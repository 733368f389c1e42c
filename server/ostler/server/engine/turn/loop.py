"""The turn loop: request, stream, calls, results, until the model is done or there is a reason to stop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from ostler.protocol import times
from ostler.protocol.events import Notice, PullRequest
from ostler.protocol.ids import CallId, MessageId
from ostler.protocol.shapes import Message, Turn
from ostler.server.engine.asks.asks import TurnAsks
from ostler.server.engine.asks.trust import settle_trust
from ostler.server.engine.calls.authorize import Authorizer
from ostler.server.engine.calls.executor import Executor
from ostler.server.engine.calls.pending_call import PendingCall
from ostler.server.engine.calls.pipeline import Pipeline
from ostler.server.engine.calls.stop_reasons import BY_TIME_LIMIT
from ostler.server.engine.journal.calls import CompletedCall, Draft
from ostler.server.engine.journal.journal import StoredUserMessage
from ostler.server.engine.session.history import build_tool_result
from ostler.server.engine.session.hooks import SessionHooks
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.settings_loader import SettingsLoader
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.engine.turn.endings import (
    TurnEnd,
    build_failure_end,
    build_hook_end,
    build_schema_end,
    check_stop_reason,
)
from ostler.server.engine.turn.input_hooks import SteerQueue, run_input_hooks, withdraw_input
from ostler.server.engine.turn.limits import Limits
from ostler.server.engine.turn.model_call import ModelAnswer
from ostler.server.engine.turn.model_requests import ModelRequests
from ostler.server.engine.turn.options import TurnServices, TurnSettings
from ostler.server.engine.turn.prompt_prefix import Prefix
from ostler.server.engine.turn.stale_files import describe_stale_files
from ostler.server.engine.turn.stop import StopSignal
from ostler.server.engine.turn.user_messages import UserMessages, shorten_results
from ostler.server.hooks import NO_OUTCOME
from ostler.server.models.provider import ModelFailure
from ostler.server.prompt.reminders import CALL_CUT, GO_ON, NUDGE, RESUMED, wrap_note
from ostler.storage.repositories.steers import Steer
from ostler.tools.interaction.structured_output import StructuredOutput
from ostler.tools.registry import ToolSet
from ostler.tools.tool import Change, FolderChanged, GitChanged

_MAX_CONTINUATIONS: Final = 3
"""How often the model is asked to continue a message that was cut at its length limit."""
_MAX_NUDGES: Final = 2
"""How often the model is reminded to give its answer in the schema asked for."""
_MAX_BLOCKED_ENDS: Final = 10
"""How often a Stop hook may keep the turn from ending."""


@dataclass(slots=True)
class TurnLoop:
    """One turn, from its input to its end."""

    session: LiveSession
    services: TurnServices
    settings_loader: SettingsLoader
    settings: TurnSettings
    prefix: Prefix
    toolset: ToolSet
    turn: Turn
    input_message: StoredUserMessage | None = None
    """The user message with the input that started it; null for a turn that is resumed after its hooks have run."""
    started_message: Message | None = None
    """The first assistant message, where its start is already in the log."""
    last_message: Message | None = None
    """The last assistant message, for a turn that is resumed before the results of its calls are stored."""
    paused_text: str = ""
    """The text so far of an answer that ends in `pause_turn`, for such a turn."""
    steers: list[Steer] = field(default_factory=list)
    """Input that waits for the next request; the list is changed in place, never replaced."""
    input_text: str = ""
    """The person's text, without notes of the daemon's."""
    state: TurnState = field(init=False)
    asks: TurnAsks = field(init=False)
    executor: Executor | None = None
    end: TurnEnd | None = None
    """Why the turn ends, once that is decided."""
    _input_stop: StopSignal = field(default_factory=StopSignal)
    """Cancels the trust ask and the hooks of the input; only the end of the turn does so, not further input."""
    _end_stop: StopSignal = field(default_factory=StopSignal)
    """Cancels the Stop hooks: when the turn is halted, or when input with `now` arrives."""
    _continuations: int = 0
    _nudges: int = 0
    _input_checked: bool = False
    """The hooks of the input have run to their end."""
    _blocked_ends: int = 0
    """How often a Stop hook has kept the turn from ending."""
    _continues_text: bool = False
    """The text of the next message continues that of the one before it."""
    _text: str | None = None
    _steer_queue: SteerQueue = field(init=False)
    _user_messages: UserMessages = field(init=False)
    _limits: Limits = field(init=False)
    _requests: ModelRequests = field(init=False)

    def __post_init__(self) -> None:
        self.state = TurnState(self.turn, self.halt, input_text=self.input_text)
        self.asks = TurnAsks(self.session.journal, self.state)
        self._steer_queue = SteerQueue(self._hooks, self.steers)
        self._user_messages = UserMessages(self.session, self.state)
        self._limits = Limits(self.session, self.services, self.settings)
        self._requests = ModelRequests(
            self.session,
            self.services,
            self.settings,
            self.prefix,
            self.state,
            self._user_messages,
            self._limits,
            self.started_message,
        )

    # Called from outside.

    def halt(self, reason: str, by: str, error: dict[str, Any] | None = None) -> None:
        """End the turn as soon as its calls allow; `by` says why, in the results of the calls that this stops."""
        if self.end is not None:
            return
        self.end = TurnEnd(reason, error)
        for stop in (self._input_stop, self._end_stop, self._steer_queue.stop):
            stop.cancel()
        self._requests.stop()
        if self.executor is not None:
            self.executor.interrupt(by)

    def steer(self, steer: Steer, *, now: bool) -> None:
        """Add input to the turn; with `now`, what runs is stopped so that the model gets it at once."""
        self.steers.append(steer)
        self.session.wake_signal.set("message")
        if now:
            self._end_stop.cancel()
            self._requests.stop()
            if self.executor is not None:
                self.executor.stop_for_steer()

    def release(self) -> None:
        """Break the reference cycles of a turn that is over: its memory is freed without a garbage collection."""
        self.executor = None
        self.state.halt = _ignore_halt

    # The loop.

    async def run(self, resume: Callable[["TurnLoop", TaskGroup], Executor | None] | None = None) -> Turn:
        """Run the turn to its end; `resume` restores the calls of a message from before a restart."""
        async with anyio.create_task_group() as group:
            timer = group.start_soon(self._enforce_timeout) if self.settings.timeout_ms is not None else None
            with self._input_stop.scope():
                await self._begin()
            if (
                self.input_message is not None
                and not self._input_checked
                and self.session.hooks.has_hooks_for("UserPromptSubmit")
            ):
                # Stopped before the hooks of its input were done: nothing has let the input pass.
                withdraw_input(self.session, self.input_message)
            self.executor = resume(self, group) if resume else None
            if self.last_message is not None:
                await self._resume_after(self.last_message)
            while self.end is None:
                await self._run_request(group)
            if timer is not None:
                # By itself and not with the group, whose exception would keep a reference to the whole turn.
                timer.cancel()
                await timer.wait()
            group.cancel_scope.cancel()
        return await self._finish()

    async def _resume_after(self, last: Message) -> None:
        """Continue a resumed turn after the last assistant message."""
        if self.executor is not None:
            await self._finish_calls(self.executor, end=check_stop_reason(last.stop_reason))
        elif last.stop_reason == "pause_turn":
            # The message is sent back as it is, and the next one continues it.
            self._continues_text, self._text = True, self.paused_text
        else:
            await self._add_user_message([], {}, RESUMED)

    async def _begin(self) -> None:
        """Do what comes before the first request: ask for trust, and run the hooks of the input."""
        expire_seconds = self.services.config().asks.expire_seconds
        if await settle_trust(self.session, self.asks, self.turn.id, expire_seconds):
            await self.settings_loader.load(self.session)
        if self.input_message is not None and self.end is None:
            await self._check_input(self.input_message)

    async def _check_input(self, input_message: StoredUserMessage) -> None:
        """Run the hooks of the input, and end the turn where one of them blocks it."""
        context, blocked = await run_input_hooks(self.session, self._hooks, self.state.input_text)
        self._input_checked = True
        if blocked:
            withdraw_input(self.session, input_message)
            self.end = build_hook_end(blocked)
        elif context and self.end is None:
            await self._add_user_message([], {}, *map(wrap_note, context))
        elif self.started_message is None:
            self._user_messages.mark_input_passed()

    @property
    def _hooks(self) -> SessionHooks:
        return SessionHooks(self.session, self.turn.id)

    async def _run_request(self, group: TaskGroup) -> None:
        """Send one request, and handle its answer."""
        self.end = self._check_limits()
        if self.end is not None:
            return
        try:
            answer = await self._ask_model(group)
        except ModelFailure as failure:
            self.end = build_failure_end(failure)
            return
        if answer is None:
            return
        self._text = (self._text or "") + answer.text if self._continues_text else answer.text or self._text
        self._continues_text = False
        if answer.stop_reason != "max_tokens":
            self._continuations = 0
        if answer.executor.calls:
            await self._handle_calls(answer)
        elif self.end is None:
            await self._handle_text(answer)

    def _check_limits(self) -> TurnEnd | None:
        return self._limits.check(self.state.turn, self._requests.model)

    async def _ask_model(self, group: TaskGroup) -> ModelAnswer | None:
        if await self._check_steers():
            await self._add_user_message([], {})
        if self.end is not None:  # decided while hooks ran, or while the user message was being stored
            return None

        def make_executor(message_id: MessageId, draft: Callable[[], Draft]) -> Executor:
            self.executor = self.build_executor(group, message_id, draft)
            return self.executor

        return await self._requests.fetch_answer(make_executor)

    def build_executor(self, group: TaskGroup, message_id: MessageId, draft: Callable[[], Draft]) -> Executor:
        config = self.services.config()
        authorizer = Authorizer(self.session, self.asks, self.state, draft, config.asks.expire_seconds)
        pipeline = Pipeline(
            session=self.session,
            toolset=self.toolset,
            authorizer=authorizer,
            state=self.state,
            draft=draft,
            results=config.results,
            counts=self.services.tool_counts,
        )
        return Executor(
            group=group,
            pipeline=pipeline,
            message_id=message_id,
            session_id=self.session.record.id,
            turn_id=self.turn.id,
            limit=config.turns.tool_concurrency,
            apply=self._apply_change,
        )

    async def _handle_calls(self, answer: ModelAnswer) -> None:
        """Finish the calls of an answer, and tell the model where its last call was cut at the length limit."""
        cut = answer.call_cut or answer.executor.calls[-1].use.input_error is not None
        if answer.stop_reason != "max_tokens" or not cut:
            await self._finish_calls(answer.executor, end=check_stop_reason(answer.stop_reason))
            return
        self._continuations += 1
        await self._finish_calls(answer.executor, CALL_CUT)
        if self._continuations > _MAX_CONTINUATIONS and self.end is None:
            self._end_truncated()

    async def _finish_calls(self, executor: Executor, *reminders: str, end: TurnEnd | None = None) -> None:
        """Wait for every call, then store all results in the order of the blocks; `end` ends the turn then."""
        await executor.wait_for_calls()
        await self.asks.cancel_unclaimed()
        self.executor = None
        shortened = shorten_results(executor.calls, self.toolset, self.services.config().results)
        results = [build_tool_result(pending.call) for pending in executor.calls]
        call_ids = {pending.use.id: pending.call.call_id for pending in executor.calls}
        answer = next((pending for pending in executor.calls if _gives_answer(pending)), None)
        if answer is not None and self.end is None:
            self.state.change(structured_output=answer.call.input)
            self.end = TurnEnd("completed")
        stop = next((pending.hook_stop for pending in executor.calls if pending.hook_stop), None)
        if stop is not None and self.end is None:
            self.end = build_hook_end(stop)
        # Only now: until every call has its result, somebody may want to stop the turn for another reason.
        self.end = self.end or end
        notes = [wrap_note(text) for pending in executor.calls for text in pending.notes]
        if executor.changed_something and (hint := await describe_stale_files(self.session)) is not None:
            notes.append(wrap_note(hint))
        if executor.changed_something:
            await self._user_messages.refresh_git()
        self.session.tasks.notifications.mark_shown(
            self.session.record.id, (pending.call for pending in executor.calls)
        )
        given = [(pending.call.call_id, list(blocks)) for pending in executor.calls for blocks in pending.messages]
        await self._add_user_message(results, call_ids, *reminders, *notes, shortened=shortened, given=given)

    async def _add_user_message(
        self,
        results: list[dict[str, Any]],
        call_ids: dict[str, CallId],
        *notes: str,
        shortened: Sequence[CompletedCall] = (),
        given: Sequence[tuple[CallId, list[dict[str, Any]]]] = (),
    ) -> None:
        """Add tool results, further input and notes of the daemon's, as one message; then what the calls have given."""
        await self._check_steers()
        # Input that no request of this turn would carry starts the next turn.
        continues = self.end is None and self._check_limits() is None
        taken, context = self._steer_queue.take() if continues else ([], [])
        all_notes = (*notes, *map(wrap_note, context))
        await self._user_messages.add(
            results, call_ids, all_notes, steers=taken, shortened=shortened, continues=continues, given=given
        )

    async def _check_steers(self) -> bool:
        """Run the hooks of further input; returns whether there is some that they let pass."""
        if self.end is None and (stop := await self._steer_queue.run_hooks()) is not None:
            self.end = self.end or build_hook_end(stop)
        return bool(self.steers) and self.end is None

    async def _handle_text(self, answer: ModelAnswer) -> None:
        """Handle an answer without calls: the turn ends, or the model is asked to go on."""
        match answer.stop_reason:
            case "pause_turn" if not answer.empty:
                self._continues_text = True
            case "refusal" | "model_context_window_exceeded":
                self.end = check_stop_reason(answer.stop_reason)
            case "max_tokens" if self._continuations < _MAX_CONTINUATIONS:
                self._continuations += 1
                self._continues_text = not (answer.empty or answer.call_cut)
                await self._add_user_message([], {}, GO_ON if self._continues_text else CALL_CUT)
            case "max_tokens":
                self._end_truncated()
            case _:
                if await self._check_steers() or self.end is not None:
                    return
                if self.settings.output_schema is not None:
                    await self._nudge_for_output()
                    return
                if answer.empty:
                    self._send_notice("warning", "The model answered with nothing.")
                await self._run_stop_hooks()

    async def _run_stop_hooks(self) -> None:
        """Run the Stop hooks: the turn ends, unless one of them blocks that or further input has arrived."""
        outcome, self._end_stop = NO_OUTCOME, StopSignal()
        with self._end_stop.scope():
            outcome = await self._hooks.fire("Stop", stop_hook_active=self._blocked_ends > 0)
        if await self._check_steers() or self.end is not None:
            return
        if self._end_stop.cancel_called:  # by input that another hook then blocked: the Stop hooks have to run again
            await self._run_stop_hooks()
            return
        if outcome.stop:
            self.end = build_hook_end(outcome.stop)
            return
        if outcome.block and self._blocked_ends < _MAX_BLOCKED_ENDS:
            self._blocked_ends += 1
            await self._add_user_message([], {}, wrap_note(outcome.block))
            return
        self.end = TurnEnd("completed")

    async def _nudge_for_output(self) -> None:
        """Remind the model of the answer that the schema asks for: two reminders, then the turn has failed."""
        if self._nudges == _MAX_NUDGES:
            self.end = build_schema_end()
            return
        self._nudges += 1
        await self._add_user_message([], {}, NUDGE)

    def _end_truncated(self) -> None:
        self._send_notice("warning", "The model's answer was cut: it reached its length limit again and again.")
        self.end = TurnEnd("completed") if self.settings.output_schema is None else build_schema_end()

    def _apply_change(self, change: Change) -> None:
        if isinstance(change, FolderChanged):
            self.session.remember(shell_folder=change.path)
        elif isinstance(change, GitChanged) and (pull := change.facts.get("pr")) and pull["action"] == "created":
            self.session.link_pull(PullRequest.model_validate(pull))

    def _send_notice(self, level: Any, text: str) -> None:
        self.session.journal.add_notice(self.turn.id, Notice(level=level, text=text))

    async def _enforce_timeout(self) -> None:
        assert self.settings.timeout_ms is not None
        began = datetime.fromisoformat(self.turn.started_at or times.now())
        passed = (datetime.now(UTC) - began).total_seconds()
        await anyio.sleep(max(0.0, self.settings.timeout_ms / 1000 - passed))
        self.halt("timeout", BY_TIME_LIMIT)

    async def _finish(self) -> Turn:
        if self._requests.started_message is not None:  # the turn ended before its first request
            self.session.journal.abort_message(self._requests.started_message)
        end = self.end or TurnEnd("completed")
        ended = self.state.change(
            status="ended", reason=end.reason, error=end.error, result_text=self._text, ended_at=times.now()
        )
        await self.session.journal.end_turn(ended)
        return ended


def _ignore_halt(reason: str, by: str, error: dict[str, Any] | None = None) -> None:
    """The `halt` of a turn that is over: does nothing."""


def _gives_answer(pending: PendingCall) -> bool:
    return isinstance(pending.tool, StructuredOutput) and not pending.call.is_error
