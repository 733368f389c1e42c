"""The model requests of a turn, one after the other: each is prepared, attempted, and retried as the policy says."""

from dataclasses import dataclass, field
from typing import Any

import anyio

from ostler.protocol.events import Notice
from ostler.protocol.shapes import Message
from ostler.server.engine.calls.executor import CallRunner
from ostler.server.engine.discovery.references import replace_references
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.stop import StopSignal
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.engine.turn.limits import Limits
from ostler.server.engine.turn.model_attempt import (
    MessageStream,
    ModelAnswer,
    ModelAttempt,
    Streaming,
    create_assistant_message,
)
from ostler.server.engine.turn.options import TurnServices, TurnSettings
from ostler.server.engine.turn.prompt_prefix import Prefix
from ostler.server.engine.turn.retry_policy import OtherModel, Retry, RetryPolicy, SameAgain, WithoutExtras
from ostler.server.engine.turn.user_messages import UserMessages
from ostler.server.engine.turn.window import TurnWindow
from ostler.server.models.assembler import MessageAssembler
from ostler.server.models.provider import ModelFailure, ModelRequest
from ostler.tools.threads import change_in_thread


@dataclass(slots=True)
class ModelRequests:
    """All requests of one turn."""

    session: LiveSession
    services: TurnServices
    settings: TurnSettings
    prefix: Prefix
    state: TurnState
    user_messages: UserMessages
    limits: Limits
    window: TurnWindow
    started_message: Message | None
    """The message of the next attempt, where its start is already in the log."""
    model: str = field(init=False)
    """The model that requests go to: the turn's own, or the fallback."""
    _broken: ModelFailure | None = None
    """Why the last stream broke off, where its message was kept and the next one continues it."""
    _times_broken: int = 0
    """How many streams have broken off so, one after the other."""
    _streaming: Streaming = field(default_factory=Streaming)

    def __post_init__(self) -> None:
        self.model = self.settings.model

    async def fetch_answer(self, calls: CallRunner) -> ModelAnswer | None:
        """The model's next answer; None where it was stopped before any of it was kept. Raises ModelFailure."""
        # One answer counts as one request: a request that is replaced by another counts as little as an attempt that is
        # retried. What it has cost is in the usage all the same, and so counts against the budget.
        counted = self.state.turn.model_requests
        self.model, self.state.wanted_model = self.state.wanted_model or self.model, None
        stop = self._renew_stop()
        if not await self._wait_after_broken(counted):
            return None
        await self.window.make_room(self.model, self._build_extras(first=False))
        if stop.cancel_called:
            return self._note_end(None)
        request, attempt = await self._prepare(), 1
        while True:
            try:
                return self._note_end(await self._start_attempt(request, calls).fetch_answer())
            except ModelFailure as failure:
                again = not stop.cancel_called and await self.window.recover(self.model, request.extras, failure)
                if stop.cancel_called:
                    return self._note_end(None)
                if again:
                    self.state.change(model_requests=counted)
                    request, attempt = await self._prepare(), 1
                    continue
                retry = self._plan(failure, attempt, counted)
                if retry is None:
                    if attempt > 1 and failure.kind != "garbage":  # what it wrote is wrong, and not the connection
                        failure.message = f"{failure.message.rstrip('.')}. It was tried {attempt} times."
                    raise
            if isinstance(retry, SameAgain):
                await self._wait(retry)
                if stop.cancel_called:
                    return self._note_end(None)
                attempt += 1
            else:
                self._change_request(retry, counted)
                stop = self._renew_stop()
                request, attempt = await self._prepare(), 1

    def replace_prefix(self, prefix: Prefix) -> None:
        """Before the first request: tools of MCP servers came while it waited for them."""
        self.prefix = self.window.prefix = prefix

    def _note_end(self, answer: ModelAnswer | None) -> ModelAnswer | None:
        self._broken = answer.stream_failure if answer is not None else None
        self._times_broken = self._times_broken + 1 if self._broken is not None else 0
        if answer is not None:
            self.session.context.full = answer.stop_reason == "model_context_window_exceeded"
        return answer

    # Retries.

    async def _wait_after_broken(self, counted: int) -> bool:
        """Wait as before any other retry, where the last stream broke off; False where somebody stopped the wait."""
        failure, self._broken = self._broken, None
        if failure is None:
            return True
        retry = self._plan(failure, self._times_broken, counted)
        if isinstance(retry, SameAgain):
            await self._wait(retry)
            return not self.state.request_stop.cancel_called
        self._times_broken = 0
        if retry is None:
            raise failure
        self._change_request(retry, counted)
        return True

    def _plan(self, failure: ModelFailure, attempt: int, counted: int) -> Retry | None:
        policy = RetryPolicy(self.services.config().model)
        same = policy.plan_same(failure, attempt)
        if same is not None:
            return same
        sent_extras = self.services.provider(self.model).takes_extras(self.model)
        other = policy.plan_other(failure, self.model, sent_extras=sent_extras)
        if other is None:
            return None
        asked = other.model if isinstance(other, OtherModel) else self.model
        allowed = self.limits.check(self.state.turn.changed(model_requests=counted), asked) is None
        return other if allowed else None

    def _change_request(self, retry: WithoutExtras | OtherModel, counted: int) -> None:
        """The requests from now on go without the extras, or to the fallback."""
        match retry:
            case WithoutExtras():
                self.services.provider(self.model).forgo_extras(self.model)
                text = f"{self.model} does not take what tools say beside their schemas; it is asked without that."
            case OtherModel(model):
                text = f"{self.model} is overloaded; {model} goes on with this turn."
                self.model = model
        self.session.journal.add_notice(self.state.turn.id, Notice(level="warning", text=text))
        self.state.change(model_requests=counted)

    async def _wait(self, retry: SameAgain) -> None:
        """Tell clients why, and wait."""
        self.session.journal.messages.record_retry(self.state.turn.id, retry.retry)
        with self.state.request_stop.scope():
            await anyio.sleep(retry.seconds)

    def _renew_stop(self) -> StopSignal:
        """Each request has a signal of its own: input that has stopped one must not stop the next."""
        self.state.request_stop = StopSignal()
        return self.state.request_stop

    # The request, and its attempts.

    async def _prepare(self) -> ModelRequest:
        config, provider = self.services.config(), self.services.provider(self.model)
        first = self.state.turn.model_requests == 0
        self.state.change(model_requests=self.state.turn.model_requests + 1)
        if self.started_message is None:
            self.started_message = self._start_message(self.model)
        # The rest is prepared while the disk works.
        await self.session.journal.writes.reach_commit_gate()
        history, commit = self.session.history, self.user_messages.last_commit
        messages = await change_in_thread(history.encode_pieces) if history.is_long else history.encode_pieces()
        takes_extras = provider.takes_extras(self.model)
        prefix_tokens, extras = self.prefix.count_tokens(with_extras=takes_extras), self._build_extras(first)
        most = min(config.model.max_output_tokens, self.services.max_output(self.model))
        followed = self.state.followed = self.prefix.deferred if takes_extras else frozenset[str]()
        if not history.references <= followed:
            messages = await change_in_thread(replace_references, messages, followed)
        return ModelRequest(
            model=self.model,
            max_tokens=self.window.limit_output(self.model, prefix_tokens, most, extras),
            system=self.prefix.system,
            tools=self.prefix.tools_with_extras if takes_extras else self.prefix.tools,
            messages=messages,
            extras=extras,
            stored=commit.durable if commit is not None else None,
        )

    def _start_message(self, model: str) -> Message:
        message = create_assistant_message(self.session.record.id, self.state.turn.id, model)
        # Logged with the request and not with the answer, so that the first delta need not wait for a commit.
        self.session.journal.messages.start(message)
        return message

    def _start_attempt(self, request: ModelRequest, calls: CallRunner) -> ModelAttempt:
        message, self.started_message = self.started_message or self._start_message(request.model), None
        journal, assembly = self.session.journal, MessageAssembler(self.session.history.tool_use_ids)
        stream = MessageStream(message, assembly, journal.log, journal.writes.scope(message.turn_id))
        return ModelAttempt(
            session=self.session,
            state=self.state,
            provider=self.services.provider(request.model),
            request=request,
            stream=stream,
            executor=calls.open(stream.message.id, stream.draft),
            streaming=self._streaming,
            settings=self.services.config().model,
            cost=self.services.cost,
        )

    def _build_extras(self, first: bool) -> dict[str, Any]:
        extras: dict[str, Any] = {}
        thinking = self.settings.thinking or self.session.record.options.get("thinking")
        if thinking:
            extras["thinking"] = thinking
        if first and self.settings.tool_choice:
            extras["tool_choice"] = self.settings.tool_choice
        return extras
