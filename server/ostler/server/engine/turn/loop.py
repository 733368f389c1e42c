"""The turn loop: request, stream, calls, results, until there is nothing left to do or a reason to stop."""

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
from ostler.server.engine.asks.asks import AskDesk
from ostler.server.engine.asks.trust import settle_trust
from ostler.server.engine.calls.authorize import Permitting
from ostler.server.engine.calls.executor import Executor
from ostler.server.engine.calls.pending_call import Entry
from ostler.server.engine.calls.pipeline import Pipeline
from ostler.server.engine.calls.stop_reasons import BY_TIME_LIMIT
from ostler.server.engine.journal.calls import Draft, Ended
from ostler.server.engine.journal.journal import Said
from ostler.server.engine.session.history import tool_result
from ostler.server.engine.session.hooks import Hooking
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.settings_loader import Arranger
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.engine.turn.endings import End, ended_by_model, failed, no_form, stopped_by_hook
from ostler.server.engine.turn.input_hooks import Steering, heard, take_back
from ostler.server.engine.turn.limits import Limits
from ostler.server.engine.turn.model_call import Answered
from ostler.server.engine.turn.model_requests import ModelRequests
from ostler.server.engine.turn.options import Services, TurnSettings
from ostler.server.engine.turn.prompt_prefix import Prefix
from ostler.server.engine.turn.stale_files import stale_hint
from ostler.server.engine.turn.stop import Stop
from ostler.server.engine.turn.user_messages import UserMessages, shorten
from ostler.server.hooks import NOTHING
from ostler.server.models.provider import ModelFailure
from ostler.server.prompt.reminders import CALL_CUT, GO_ON, NUDGE, RESUMED, note
from ostler.storage.repositories.steers import Steer
from ostler.tools.interaction.structured_output import StructuredOutput
from ostler.tools.registry import ToolSet
from ostler.tools.tool import Change, FolderChanged, GitChanged

_CONTINUATIONS: Final = 3
"""How often a message that was cut by its length is asked to go on."""
_NUDGES: Final = 2
_HELD_BACK: Final = 10


@dataclass(slots=True)
class TurnRun:
    session: LiveSession
    services: Services
    arranger: Arranger
    settings: TurnSettings
    prefix: Prefix
    toolset: ToolSet
    turn: Turn
    opening: Said | None = None
    """The input that it began with; null for one that comes back."""
    begun: Message | None = None
    """The first message of the model's, where the log has its start already."""
    last: Message | None = None
    """The model's last message, for a turn that comes back where its results are not stored yet."""
    paused: str = ""
    """What it has said of an answer in which it pauses, for such a turn."""
    steers: list[Steer] = field(default_factory=list)
    """Input that waits for the next request: changed in place, never replaced."""
    task: str = ""
    """The person's words."""
    state: TurnState = field(init=False)
    asks: AskDesk = field(init=False)
    executor: Executor | None = None
    end: End | None = None
    """Why the turn ends, once that is decided."""
    _before: Stop = field(default_factory=Stop)
    """Ends the question of trust and the hooks of the input; further input does not, only the turn's own end."""
    _after: Stop = field(default_factory=Stop)
    """Ends the hooks of the turn's end; input that is to be heard at once does so, too."""
    _continuations: int = 0
    _nudges: int = 0
    _heard: bool = False
    """The hooks of the input have let it pass."""
    _held_back: int = 0
    """How often a hook has kept the turn from its end."""
    _goes_on: bool = False
    """The next message says the rest of what the one before it began."""
    _text: str | None = None
    _steering: Steering = field(init=False)
    _said: UserMessages = field(init=False)
    _limits: Limits = field(init=False)
    _requests: ModelRequests = field(init=False)

    def __post_init__(self) -> None:
        self.state = TurnState(self.turn, self.halt, task=self.task)
        self.asks = AskDesk(self.session.journal, self.state)
        self._steering = Steering(self._hooking, self.steers)
        self._said = UserMessages(self.session, self.state)
        self._limits = Limits(self.session, self.services, self.settings)
        self._requests = ModelRequests(
            self.session,
            self.services,
            self.settings,
            self.prefix,
            self.state,
            self._said,
            self._limits,
            self.begun,
        )

    # What others do to it.

    def halt(self, reason: str, by: str, error: dict[str, Any] | None = None) -> None:
        """End the turn as soon as its calls allow; `by` is what their results say of it."""
        if self.end is not None:
            return
        self.end = End(reason, error)
        for stop in (self._before, self._after, self._steering.stop):
            stop.cancel()
        self._requests.stop()
        if self.executor is not None:
            self.executor.interrupt(by)

    def steer(self, steer: Steer, *, now: bool) -> None:
        self.steers.append(steer)
        self.session.stir.set("message")
        if now:
            self._after.cancel()
            self._requests.stop()
            if self.executor is not None:
                self.executor.make_room()

    def let_go(self) -> None:
        """It is over: what it has made leads back to it no longer, so that all of it goes without a collection."""
        self.executor = None
        self.state.halt = _over

    # The loop.

    async def run(self, resume: Callable[["TurnRun", TaskGroup], Executor | None] | None = None) -> Turn:
        """The whole of it; `resume` brings back the calls of a message from before a restart."""
        async with anyio.create_task_group() as group:
            watch = group.start_soon(self._watch_time) if self.settings.timeout_ms is not None else None
            with self._before.obeyed():
                await self._begin()
            if self.opening is not None and not self._heard and self.session.hooks.any_for("UserPromptSubmit"):
                # Stopped before its hooks had heard it all: nobody has let it pass.
                take_back(self.session, self.opening)
            self.executor = resume(self, group) if resume else None
            if self.last is not None:
                await self._take_up(self.last)
            while self.end is None:
                await self._step(group)
            if watch is not None:
                # By itself and not with the group, which would keep its exception, and with that the whole turn.
                watch.cancel()
                await watch.wait()
            group.cancel_scope.cancel()
        return await self._finish()

    async def _take_up(self, last: Message) -> None:
        """Go on where the model's last message ends."""
        if self.executor is not None:
            await self._finish_calls(self.executor, end=ended_by_model(last.stop_reason))
        elif last.stop_reason == "pause_turn":
            # It is sent back as it is, and the next message says the rest.
            self._goes_on, self._text = True, self.paused
        else:
            await self._add_user_message([], {}, RESUMED)

    async def _begin(self) -> None:
        """What comes before the first request: the question of trust, and the hooks of the input."""
        expire = self.services.config().asks.expire_seconds
        if await settle_trust(self.session, self.asks, self.turn.id, expire):
            await self.arranger.arrange(self.session)
        if self.opening is not None and self.end is None:
            await self._open(self.opening)

    async def _open(self, opening: Said) -> None:
        context, blocked = await heard(self.session, self._hooking, self.state.task)
        self._heard = True
        if blocked:
            take_back(self.session, opening)
            self.end = stopped_by_hook(blocked)
        elif context and self.end is None:
            await self._add_user_message([], {}, *map(note, context))
        elif self.begun is None:
            self._said.heard()

    @property
    def _hooking(self) -> Hooking:
        return Hooking(self.session, self.turn.id)

    async def _step(self, group: TaskGroup) -> None:
        """One request and what follows from it."""
        self.end = self._limit()
        if self.end is not None:
            return
        try:
            answered = await self._ask_model(group)
        except ModelFailure as failure:
            self.end = failed(failure)
            return
        if answered is None:
            return
        self._text = (self._text or "") + answered.text if self._goes_on else answered.text or self._text
        self._goes_on = False
        if answered.stop_reason != "max_tokens":
            self._continuations = 0
        if answered.executor.entries:
            await self._after_calls(answered)
        elif self.end is None:
            await self._after_words(answered)

    def _limit(self) -> End | None:
        return self._limits.reached(self.state.turn, self._requests.model)

    async def _ask_model(self, group: TaskGroup) -> Answered | None:
        if await self._hear():
            await self._add_user_message([], {})
        if self.end is not None:  # while hooks heard it, or the user message was being stored
            return None

        def make_executor(message_id: MessageId, draft: Callable[[], Draft]) -> Executor:
            self.executor = self.new_executor(group, message_id, draft)
            return self.executor

        return await self._requests.answer(make_executor)

    def new_executor(self, group: TaskGroup, message_id: MessageId, draft: Callable[[], Draft]) -> Executor:
        config = self.services.config()
        permitting = Permitting(self.session, self.asks, self.state, draft, config.asks.expire_seconds)
        pipeline = Pipeline(
            session=self.session,
            toolset=self.toolset,
            permitting=permitting,
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
            apply=self._apply,
        )

    async def _after_calls(self, answered: Answered) -> None:
        """The model called something: does it know what became of its last call?"""
        cut = answered.call_cut or answered.executor.entries[-1].use.unusable is not None
        if answered.stop_reason != "max_tokens" or not cut:
            await self._finish_calls(answered.executor, end=ended_by_model(answered.stop_reason))
            return
        self._continuations += 1
        await self._finish_calls(answered.executor, CALL_CUT)
        if self._continuations > _CONTINUATIONS and self.end is None:
            self._end_cut()

    async def _finish_calls(self, executor: Executor, *words: str, end: End | None = None) -> None:
        """Wait for every call, then store all results in the order of its blocks: the model gets them, or it ends."""
        await executor.finished()
        await self.asks.cancel_unheard()
        self.executor = None
        shortened = shorten(executor.entries, self.toolset, self.services.config().results)
        results = [tool_result(entry.call) for entry in executor.entries]
        brought = {entry.use.id: entry.call.call_id for entry in executor.entries}
        answer = next((entry for entry in executor.entries if _gives_answer(entry)), None)
        if answer is not None and self.end is None:
            self.state.change(structured_output=answer.call.input)
            self.end = End("completed")
        stop = next((entry.stop for entry in executor.entries if entry.stop), None)
        if stop is not None and self.end is None:
            self.end = stopped_by_hook(stop)
        # Not before: until every call has its result, somebody may want to stop them.
        self.end = self.end or end
        notes = [note(words) for entry in executor.entries for words in entry.notes]
        if executor.changed_something and (hint := await stale_hint(self.session)) is not None:
            notes.append(note(hint))
        if executor.changed_something:
            await self._said.look_around()
        self.session.tasks.news.show(self.session.record.id, (entry.call for entry in executor.entries))
        await self._add_user_message(results, brought, *words, *notes, shortened=shortened)

    async def _add_user_message(
        self,
        results: list[dict[str, Any]],
        brought: dict[str, CallId],
        *words: str,
        shortened: Sequence[Ended] = (),
    ) -> None:
        """Results, further input and words of ours, as one message."""
        await self._hear()
        # Input that no request of this turn would carry starts the next turn.
        goes_on = self.end is None and self._limit() is None
        taken, context = self._steering.take() if goes_on else ([], [])
        said = (*words, *map(note, context))
        await self._said.add(results, brought, said, steers=taken, shortened=shortened, goes_on=goes_on)

    async def _hear(self) -> bool:
        """Whether there is further input that joins: hooks have heard it then."""
        if self.end is None and (stop := await self._steering.hear()) is not None:
            self.end = self.end or stopped_by_hook(stop)
        return bool(self.steers) and self.end is None

    async def _after_words(self, answered: Answered) -> None:
        """The model called nothing: is it done?"""
        match answered.stop_reason:
            case "pause_turn" if not answered.empty:
                self._goes_on = True
            case "refusal" | "model_context_window_exceeded":
                self.end = ended_by_model(answered.stop_reason)
            case "max_tokens" if self._continuations < _CONTINUATIONS:
                self._continuations += 1
                self._goes_on = not (answered.empty or answered.call_cut)
                await self._add_user_message([], {}, GO_ON if self._goes_on else CALL_CUT)
            case "max_tokens":
                self._end_cut()
            case _:
                if await self._hear() or self.end is not None:
                    return
                if self.settings.output_schema is not None:
                    await self._ask_for_the_form()
                    return
                if answered.empty:
                    self._notice("warning", "The model answered with nothing.")
                await self._end_or_go_on()

    async def _end_or_go_on(self) -> None:
        """The model is done; a hook may think otherwise."""
        outcome, self._after = NOTHING, Stop()
        with self._after.obeyed():
            outcome = await self._hooking.moment("Stop", stop_hook_active=self._held_back > 0)
        if await self._hear() or self.end is not None:
            return
        if self._after.called:  # by input that another hook has kept from the model: they have not said all
            await self._end_or_go_on()
            return
        if outcome.stop:
            self.end = stopped_by_hook(outcome.stop)
            return
        if outcome.block and self._held_back < _HELD_BACK:
            self._held_back += 1
            await self._add_user_message([], {}, note(outcome.block))
            return
        self.end = End("completed")

    async def _ask_for_the_form(self) -> None:
        """A turn with a schema ends only with a valid call: two nudges, then it has failed."""
        if self._nudges == _NUDGES:
            self.end = no_form()
            return
        self._nudges += 1
        await self._add_user_message([], {}, NUDGE)

    def _end_cut(self) -> None:
        self._notice("warning", "The model's answer was cut: it reached its length limit again and again.")
        self.end = End("completed") if self.settings.output_schema is None else no_form()

    def _apply(self, change: Change) -> None:
        if isinstance(change, FolderChanged):
            self.session.remember(shell_folder=change.path)
        elif isinstance(change, GitChanged) and (pull := change.facts.get("pr")) and pull["action"] == "created":
            self.session.link_pull(PullRequest.model_validate(pull))

    def _notice(self, level: Any, text: str) -> None:
        self.session.journal.notice(self.turn.id, Notice(level=level, text=text))

    async def _watch_time(self) -> None:
        assert self.settings.timeout_ms is not None
        began = datetime.fromisoformat(self.turn.started_at or times.now())
        passed = (datetime.now(UTC) - began).total_seconds()
        await anyio.sleep(max(0.0, self.settings.timeout_ms / 1000 - passed))
        self.halt("timeout", BY_TIME_LIMIT)

    async def _finish(self) -> Turn:
        if self._requests.begun is not None:  # it ended before its first request
            self.session.journal.message_aborted(self._requests.begun)
        end = self.end or End("completed")
        ended = self.state.change(
            status="ended", reason=end.reason, error=end.error, result_text=self._text, ended_at=times.now()
        )
        await self.session.journal.end_turn(ended)
        return ended


def _over(reason: str, by: str, error: dict[str, Any] | None = None) -> None:
    """A turn that is over needs no end."""


def _gives_answer(entry: Entry) -> bool:
    return isinstance(entry.tool, StructuredOutput) and not entry.call.is_error
