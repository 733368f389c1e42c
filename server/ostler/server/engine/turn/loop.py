"""The turn loop: request, stream, calls, results, until the model is done or there is a reason to stop."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio
import orjson
from anyio.abc import TaskGroup

from ostler.protocol import times
from ostler.protocol.events import Notice
from ostler.protocol.ids import CallId
from ostler.protocol.shapes import Message, Turn
from ostler.server.engine.asks.asks import TurnAsks
from ostler.server.engine.asks.trust import settle_trust
from ostler.server.engine.calls.call_run import CallRun
from ostler.server.engine.calls.call_writer import MessageDraft
from ostler.server.engine.calls.executor import CallRunner, Executor
from ostler.server.engine.calls.stages import Ended
from ostler.server.engine.discovery.nested import describe_nested
from ostler.server.engine.discovery.skills import build_skill_state, describe_skill_changes
from ostler.server.engine.journal.calls import CompletedCall
from ostler.server.engine.journal.messages import StoredUserMessage
from ostler.server.engine.loading import StoredCall
from ostler.server.engine.servers.turn_servers import describe_servers, start_servers
from ostler.server.engine.session.history import build_tool_result
from ostler.server.engine.session.hooks import SessionHooks
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.settings_loader import SettingsLoader
from ostler.server.engine.session.stop import StopSignal
from ostler.server.engine.session.turn_state import BY_TIME_LIMIT, TurnEnd, TurnState, never
from ostler.server.engine.turn.endings import (
    CUT_REASONS,
    Continuations,
    GoOn,
    build_failure_end,
    build_hook_end,
    build_silent_end,
    check_stop_reason,
)
from ostler.server.engine.turn.input_hooks import SteerQueue, run_input_hooks, withdraw_input
from ostler.server.engine.turn.limits import Limits
from ostler.server.engine.turn.model_attempt import ModelAnswer
from ostler.server.engine.turn.model_requests import ModelRequests
from ostler.server.engine.turn.options import TurnServices, TurnSettings
from ostler.server.engine.turn.prompt_prefix import Prefix
from ostler.server.engine.turn.stale_files import describe_stale_files
from ostler.server.engine.turn.user_messages import UserMessages, find_repeats, shorten_results
from ostler.server.engine.turn.window import TurnWindow
from ostler.server.hooks import NO_OUTCOME
from ostler.server.models.provider import ModelFailure
from ostler.server.prompt.reminders import CALL_CUT, RESUMED, ask_for_form, wrap_note
from ostler.storage.repositories.steers import Steer
from ostler.tools.interaction.structured_output import StructuredOutput
from ostler.tools.registry import ToolSet


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
    last_calls: Sequence[StoredCall] = ()
    """Its calls, each as it was stored."""
    steers: list[Steer] = field(default_factory=list)
    """Input that waits for the next request; the list is changed in place, never replaced."""
    input_text: str = ""
    """The person's text, without notes of the daemon's."""
    rebuild: "Callable[[], Awaitable[tuple[ToolSet, Prefix, dict[str, Any]]]] | None" = None
    """Tools and prompt once more, where MCP servers were started meanwhile."""
    over: anyio.Event = field(default_factory=anyio.Event)
    """Set when it has ended, or was abandoned."""
    state: TurnState = field(init=False)
    asks: TurnAsks = field(init=False)
    calls: CallRunner | None = None
    """Runs the calls, while the turn runs."""
    _input_checked: bool = False
    """The hooks of the input have run to their end."""
    _continues_text: bool = False
    """The text of the next message continues that of the one before it."""
    _text: str | None = None
    _waits_for_agents: bool = False
    """The model has finished, and agents of the turn are at work in the background."""
    _continuations: Continuations = field(init=False)
    _steer_queue: SteerQueue = field(init=False)
    _user_messages: UserMessages = field(init=False)
    _limits: Limits = field(init=False)
    _requests: ModelRequests = field(init=False)

    def __post_init__(self) -> None:
        self.state = TurnState(self.turn, self.input_text)
        self.asks = TurnAsks(self.session.journal, self.state, self.session.refresh_above)
        self.state.waits_for_agents_ask = self.session.waits_for_agents_ask
        self._continuations = Continuations(self.settings.output_schema is not None)
        self._steer_queue = SteerQueue(self._hooks, self.steers, self.state.steer_stop)
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
            TurnWindow(self.session, self.services, self.prefix, self.state, self._list_lasting_notes()),
            self.started_message,
        )

    def _list_lasting_notes(self) -> list[str]:
        """What the input said beside the person's words, and must not be lost with it."""
        schema = self.settings.output_schema
        return [] if schema is None else [ask_for_form(orjson.dumps(schema).decode())]

    # Called from outside.

    def steer(self, steer: Steer, *, now: bool) -> None:
        """Add input to the turn; with `now`, what runs is stopped so that the model gets it at once."""
        self.steers.append(steer)
        self.session.wake_signal.set("message")
        if now or self._waits_for_agents:
            self.state.end_stop.cancel()
        if now:
            self.state.request_stop.cancel()
            if self.calls is not None:
                self.calls.stop_for_steer()

    @property
    def last_text(self) -> str:
        """What the model has said last in it."""
        return self._text or ""

    def describe_call(self) -> str | None:
        """The call that runs, in one line."""
        executor = self.calls.executor if self.calls is not None else None
        running = (run.call.summary for run in executor.calls if run.call.status == "running") if executor else ()
        return next(iter(running), None)

    def release(self) -> None:
        """Break the reference cycles of a turn that is over: its memory is freed without a garbage collection."""
        self.calls = self.state.calls = None
        self.state.has_open_asks = self.state.waits_for_agents_ask = never

    # The loop.

    async def run(self) -> Turn:
        """Run the turn to its end."""
        async with anyio.create_task_group() as group:
            calls = self._open_calls(group)
            timer = group.start_soon(self._enforce_timeout) if self.settings.timeout_ms is not None else None
            with self.state.input_stop.scope():
                await self._begin(calls)
            if (
                self.input_message is not None
                and not self._input_checked
                and self.session.hooks.has_hooks_for("UserPromptSubmit")
            ):
                # Stopped before the hooks of its input were done: nothing has let the input pass.
                withdraw_input(self.session, self.input_message)
            if self.last_message is not None:
                await self._resume_after(self.last_message, calls)
            while self.state.end is None:
                await self._run_request(calls)
            await self._stop_agents()
            if timer is not None:
                # By itself and not with the group, whose exception would keep a reference to the whole turn.
                timer.cancel()
                await timer.wait()
            group.cancel_scope.cancel()
        return await self._finish()

    def _open_calls(self, group: TaskGroup) -> CallRunner:
        self.calls = self.state.calls = CallRunner(
            group, self.session, self.state, self.asks, self.toolset, self.services.config, self.services.tool_counts
        )
        return self.calls

    async def _resume_after(self, last: Message, calls: CallRunner) -> None:
        """Continue a resumed turn after the last assistant message."""
        if self.last_calls:
            executor = calls.open(last.id, MessageDraft(()))
            executor.restore(self.last_calls)
            await self._finish_calls(executor, end=check_stop_reason(last.stop_reason))
        elif last.stop_reason == "pause_turn":
            # The message is sent back as it is, and the next one continues it.
            self._continues_text, self._text = True, self.paused_text
        else:
            await self._add_user_message([], {}, RESUMED)

    async def _begin(self, calls: CallRunner) -> None:
        """Do what comes before the first request: ask for trust, and run the hooks of the input."""
        expire_seconds = self.services.config().asks.expire_seconds
        if await settle_trust(self.session, self.asks, self.turn.id, expire_seconds):
            await self.settings_loader.load(self.session)
            # Skills that came into effect with the trust: the list in the prompt is from before.
            if (told := describe_skill_changes(self.session)) and self.state.end is None:
                self.session.remember(**build_skill_state(self.session, 0))
                await self._add_user_message([], {}, *told)
        if self.state.end is None:
            await self._start_servers(calls)
        if self.input_message is not None and self.state.end is None:
            await self._check_input(self.input_message)

    async def _start_servers(self, calls: CallRunner) -> None:
        """Start the MCP servers; those that answer soon have their tools in this turn, the others in a later one."""
        await start_servers(self.session, self.services.config().mcp.start_wait_ms)
        # Those of the turn alone stand behind all others.
        now = self.session.build_toolset().tools
        if self.toolset.tools[: len(now)] != now or any(tool.on_server for tool in self.toolset.tools[len(now) :]):
            assert self.rebuild is not None
            self.toolset, self.prefix, state = await self.rebuild()
            calls.toolset = self.toolset
            self._requests.replace_prefix(self.prefix)
            if state != self.session.state:
                self.session.remember(**state)
        if self.last_message is not None:
            return  # a turn that goes on: the results of its calls come next
        notes, told = describe_servers(self.session, self.session.deferral.hidden)
        if told:
            self.session.remember(**told)
        if notes and self.state.end is None:
            await self._add_user_message([], {}, *notes)

    async def _check_input(self, input_message: StoredUserMessage) -> None:
        """Run the hooks of the input, and end the turn where one of them blocks it."""
        context, blocked = await run_input_hooks(self.session, self._hooks, self.state.input_text)
        self._input_checked = True
        if blocked:
            withdraw_input(self.session, input_message)
            self.state.end = build_hook_end(blocked)
        elif context and self.state.end is None:
            await self._add_user_message([], {}, *map(wrap_note, context))
        elif self.started_message is None:
            self._user_messages.mark_input_passed()

    @property
    def _hooks(self) -> SessionHooks:
        return SessionHooks(self.session, self.turn.id)

    async def _run_request(self, calls: CallRunner) -> None:
        """Send one request, and handle its answer."""
        self.state.end = self._check_limits()
        if self.state.end is not None:
            return
        try:
            answer = await self._ask_model(calls)
        except ModelFailure as failure:
            self.state.end = build_failure_end(failure)
            return
        if answer is None:
            return
        self._text = (self._text or "") + answer.text if self._continues_text else answer.text or self._text
        self._continues_text = False
        self._continuations.note_answer(answer)
        if answer.executor.calls:
            await self._handle_calls(answer)
        elif self.state.end is None:
            await self._handle_text(answer)

    def _check_limits(self) -> TurnEnd | None:
        return self._limits.check(self.state.turn, self._requests.model)

    async def _ask_model(self, calls: CallRunner) -> ModelAnswer | None:
        if await self._check_steers():
            await self._add_user_message([], {})
        if self.state.end is not None:  # decided while hooks ran, or while the user message was being stored
            return None
        return await self._requests.fetch_answer(calls)

    async def _handle_calls(self, answer: ModelAnswer) -> None:
        """Finish the calls of an answer, and tell the model where its last call was cut at the length limit."""
        cut = answer.call_cut or answer.executor.calls[-1].use.input_error is not None
        if answer.stop_reason not in CUT_REASONS or not cut:
            await self._finish_calls(answer.executor, end=check_stop_reason(answer.stop_reason))
            return
        end = self._continuations.judge_cut_call()
        await self._finish_calls(answer.executor, CALL_CUT)
        if end is not None and self.state.end is None:
            self._end_truncated(end)

    async def _finish_calls(self, executor: Executor, *reminders: str, end: TurnEnd | None = None) -> None:
        """Wait for every call, then store all results in the order of the blocks; `end` ends the turn then."""
        await executor.wait_for_calls()
        await self.asks.cancel_unclaimed()
        if self.calls is not None:
            self.calls.executor = None
        runs = executor.calls
        calls, shortened = shorten_results(runs, self.toolset, self.services.config().results)
        answer = next((run.call for run in runs if _gives_answer(run)), None)
        if answer is not None and self.state.end is None:
            await self._wait_until_agents_end()
        if answer is not None and self.state.end is None:
            self.state.change(structured_output=answer.input)
            self.state.end = TurnEnd("completed")
        stop = next((run.notes.stop for run in runs if run.notes.stop), None)
        if stop is not None and self.state.end is None:
            self.state.end = build_hook_end(stop)
        # Only now: until every call has its result, somebody may want to stop the turn for another reason.
        self.state.end = self.state.end or end
        notes = [wrap_note(text) for run in runs for text in run.notes.texts]
        if executor.changed_something and (hint := await describe_stale_files(self.session)) is not None:
            notes.append(wrap_note(hint))
        notes += await describe_nested(self.session, _list_read_paths(runs))
        if executor.changed_something:
            await self._user_messages.refresh_git()
        self.session.tasks.notifications.mark_shown(self.session.record.id, calls)
        repeats = await find_repeats(self.session, runs, calls)
        results = [build_tool_result(repeats.get(call.call_id, call)) for call in calls]
        # What stands in the place of a repeated result is the message's own: the call keeps the whole.
        call_ids = {call.tool_use_id: call.call_id for call in calls if call.call_id not in repeats}
        given = [
            (run.call.call_id, list(blocks))
            for run in runs
            if isinstance(run.stage, Ended)
            for blocks in run.stage.messages
        ]
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
        continues = self.state.end is None and self._check_limits() is None
        taken, context = self._steer_queue.take() if continues else ([], [])
        all_notes = (*notes, *map(wrap_note, context))
        await self._user_messages.add(
            results, call_ids, all_notes, steers=taken, shortened=shortened, continues=continues, given=given
        )

    async def _check_steers(self) -> bool:
        """Run the hooks of further input; returns whether there is some that they let pass."""
        if self.state.end is None and (stop := await self._steer_queue.run_hooks()) is not None:
            self.state.end = self.state.end or build_hook_end(stop)
        return bool(self.steers) and self.state.end is None

    async def _handle_text(self, answer: ModelAnswer) -> None:
        """Handle an answer without calls: the turn ends, or the model is asked to go on."""
        following = self._continuations.judge_text(answer)
        if following is None:
            await self._handle_finished(answer)
        elif isinstance(following, TurnEnd) and answer.stop_reason in CUT_REASONS:
            self._end_truncated(following)
        else:
            await self._follow(following)

    async def _handle_finished(self, answer: ModelAnswer) -> None:
        """The model has finished: the turn ends, unless there is further input, or something else is missing."""
        if await self._check_steers() or self.state.end is not None:
            return
        if self.settings.output_schema is not None:
            await self._follow(self._continuations.judge_missing_output())
            return
        if answer.empty:
            self._send_notice("warning", "The model answered with nothing.")
        if self.session.agent is not None and not answer.text.strip():
            self.state.end = build_silent_end()
            return
        await self._run_stop_hooks()

    async def _run_stop_hooks(self) -> None:
        """Run the Stop hooks: the turn ends, unless one of them blocks that or further input has arrived."""
        outcome, self.state.end_stop = NO_OUTCOME, StopSignal()
        with self.state.end_stop.scope():
            outcome = await self._hooks.fire_end(again=self._continuations.blocked_ends > 0)
        if await self._check_steers() or self.state.end is not None:
            return
        if self.state.end_stop.cancel_called:
            # By input that another hook then blocked: the Stop hooks have to run again.
            await self._run_stop_hooks()
            return
        following = self._continuations.judge_stop_hooks(outcome)
        if following == TurnEnd("completed") and await self._wait_for_agents():
            return
        await self._follow(following)

    async def _wait_for_agents(self) -> bool:
        """Wait for the agents of a turn that ends after them; true where there is something to go on with."""
        tasks, record = self.session.tasks, self.session.record
        if not self.settings.wait_for_agents or not tasks.list_running_agents(self.turn.id):
            return False
        await self._wait_until_agents_end()
        if await self._check_steers() or self.state.end is not None:
            return True
        if tasks.notifications.has_waiting(record.id):
            await self._add_user_message([], {})
            return True
        return bool(tasks.list_running_agents(self.turn.id)) and await self._wait_for_agents()

    async def _wait_until_agents_end(self) -> None:
        """Or until there is further input, or the turn is stopped."""
        if not self.settings.wait_for_agents:
            return
        self.state.end_stop, self._waits_for_agents = StopSignal(), True
        with self.state.end_stop.scope():
            await self.session.tasks.wait_for_agents(self.turn.id)
        self._waits_for_agents = False

    async def _stop_agents(self) -> None:
        """The turn ends, and those that it would have waited for end with it."""
        if self.settings.wait_for_agents:
            await self.session.tasks.stop_agents(self.turn.id)

    async def _follow(self, following: GoOn | TurnEnd) -> None:
        match following:
            case TurnEnd():
                self.state.end = following
            case GoOn(reminder, continues_text):
                self._continues_text = continues_text
                if reminder is not None:
                    await self._add_user_message([], {}, reminder)

    def _end_truncated(self, end: TurnEnd) -> None:
        self._send_notice("warning", "The model's answer was cut: it reached its length limit again and again.")
        self.state.end = end

    def _send_notice(self, level: Any, text: str) -> None:
        self.session.journal.add_notice(self.turn.id, Notice(level=level, text=text))

    async def _enforce_timeout(self) -> None:
        assert self.settings.timeout_ms is not None
        began = datetime.fromisoformat(self.turn.started_at or times.now())
        passed = (datetime.now(UTC) - began).total_seconds()
        await anyio.sleep(max(0.0, self.settings.timeout_ms / 1000 - passed))
        self.state.halt("timeout", BY_TIME_LIMIT)

    async def _finish(self) -> Turn:
        if self._requests.started_message is not None:  # the turn ended before its first request
            self.session.journal.messages.abort(self._requests.started_message)
        end = self.state.end or TurnEnd("completed")
        ended = self.state.change(
            status="ended", reason=end.reason, error=end.error, result_text=self._text, ended_at=times.now()
        )
        await self.session.journal.turns.end(ended)
        return ended


def _gives_answer(run: CallRun) -> bool:
    return isinstance(run.tool, StructuredOutput) and not run.call.is_error


def _list_read_paths(runs: Sequence[CallRun]) -> list[str]:
    """The files that calls have shown to the model, by the parameter that names them."""
    named = ((run, run.tool.permissions.path) for run in runs if run.tool is not None and not run.call.is_error)
    found = (run.call.input.get(name) for run, name in named if isinstance(name, str))
    return [path for path in found if isinstance(path, str)]
