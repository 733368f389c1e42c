"""The model requests of a turn: fallback to another model, extras that a provider rejects, and broken streams."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ostler.protocol.config import Model
from ostler.protocol.events import Notice
from ostler.protocol.ids import MessageId
from ostler.protocol.shapes import Message
from ostler.server.engine.calls.executor import Executor
from ostler.server.engine.journal.calls import Draft
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import TurnState
from ostler.server.engine.turn.limits import Limits
from ostler.server.engine.turn.model_call import (
    ModelAnswer,
    ModelCall,
    Streaming,
    create_assistant_message,
    wait_for_retry,
)
from ostler.server.engine.turn.options import TurnServices, TurnSettings
from ostler.server.engine.turn.prompt_prefix import Prefix
from ostler.server.engine.turn.stop import StopSignal
from ostler.server.engine.turn.user_messages import UserMessages
from ostler.server.models.provider import ModelFailure, ModelRequest
from ostler.tools.threads import change_in_thread

MakeExecutor = Callable[[MessageId, Callable[[], Draft]], Executor]


@dataclass(slots=True)
class ModelRequests:
    """All requests of one turn, one after the other."""

    session: LiveSession
    services: TurnServices
    settings: TurnSettings
    prefix: Prefix
    state: TurnState
    user_messages: UserMessages
    limits: Limits
    started_message: Message | None
    """The first assistant message, where its start is already in the log."""
    model: str = field(init=False)
    """The model that requests go to: the turn's own, or the fallback."""
    _stop: StopSignal = field(default_factory=StopSignal)
    _stream_failure: ModelFailure | None = None
    """Why the last stream broke off, where its message was kept and the next one continues it."""
    _failure_count: int = 0
    """How many streams have broken off so, one after the other."""

    _streaming: Streaming = field(default_factory=Streaming)

    def __post_init__(self) -> None:
        self.model = self.settings.model

    def stop(self) -> None:
        """Stop at once what is under way: a stream, or the wait before a retry."""
        self._stop.cancel()

    async def fetch_answer(self, make_executor: MakeExecutor) -> ModelAnswer | None:
        """The model's next answer; None where it was stopped before any of it was kept. Raises ModelFailure."""
        counted = self.state.turn.model_requests
        try:
            return await self._send_request(make_executor)
        except ModelFailure as failure:
            # One answer counts as one request: a request that is replaced by another counts as little as an attempt
            # that is retried. What it has cost is in the usage all the same, and so counts against the budget.
            requests = self.state.turn.model_requests
            self.state.change(model_requests=counted)
            if not self._recover_from(failure):
                self.state.change(model_requests=requests)
                raise
            return await self.fetch_answer(make_executor)

    def _recover_from(self, failure: ModelFailure) -> bool:
        """Prepare another request after a failure, without the extras or to the fallback; False where there is none."""
        provider = self.services.provider(self.model)
        if failure.kind == "extras" and provider.takes_extras(self.model) and self._may_ask(self.model):
            provider.forgo_extras(self.model)
            self._send_notice(
                f"{self.model} does not take what tools say beside their schemas; it is asked without that."
            )
            return True
        fallback = self.services.config().model.fallback
        if failure.kind != "overloaded" or fallback is None or fallback == self.model:
            return False
        if not self._may_ask(fallback):
            return False
        self._send_notice(f"{self.model} is overloaded; {fallback} goes on with this turn.")
        self.model = fallback
        return True

    def _may_ask(self, model: str) -> bool:
        return self.limits.check(self.state.turn, model) is None

    async def _send_request(self, make_executor: MakeExecutor) -> ModelAnswer | None:
        config, provider = self.services.config(), self.services.provider(self.model)
        self._stop = StopSignal()
        if self._stream_failure is not None and not await self._wait_for_retry(self._stream_failure, config.model):
            return None
        first = self.state.turn.model_requests == 0
        self.state.change(model_requests=self.state.turn.model_requests + 1)
        message, self.started_message = self.started_message, None
        if message is None:
            message = create_assistant_message(self.session.record.id, self.state.turn.id, self.model)
            # Logged with the request and not with the answer, so that the first delta need not wait for a commit.
            self.session.journal.start_message(message)
        # The rest is prepared while the disk works.
        await self.session.journal.reach_commit_gate()
        history = self.session.history
        messages = await change_in_thread(history.encode_pieces) if history.is_long else history.encode_pieces()
        call = ModelCall(
            session=self.session,
            state=self.state,
            provider=provider,
            request=ModelRequest(
                model=self.model,
                max_tokens=min(config.model.max_output_tokens, self.services.max_output(self.model)),
                system=self.prefix.system,
                tools=self.prefix.tools_with_extras if provider.takes_extras(self.model) else self.prefix.tools,
                messages=messages,
                extras=self._build_extras(first),
                stored=self.user_messages.wait_until_stored,
            ),
            settings=config.model,
            make_executor=make_executor,
            cost=self.services.cost,
            stop=self._stop,
            streaming=self._streaming,
            started_message=message,
        )
        answer = await call.fetch_answer()
        self._stream_failure = answer.stream_failure if answer is not None else None
        self._failure_count = self._failure_count + 1 if self._stream_failure is not None else 0
        return answer

    async def _wait_for_retry(self, failure: ModelFailure, settings: Model) -> bool:
        """Wait as before any other retry, since the stream broke off; False where somebody stopped the wait."""
        self._stream_failure = None
        if self._failure_count > failure.count_retries(settings.max_retries):
            self._failure_count = 0
            raise failure
        await wait_for_retry(self.session, self.state, settings, self._stop, self._failure_count, failure)
        return not self._stop.cancel_called

    def _build_extras(self, first: bool) -> dict[str, Any]:
        extras: dict[str, Any] = {}
        thinking = self.settings.thinking or self.session.record.options.get("thinking")
        if thinking:
            extras["thinking"] = thinking
        if first and self.settings.tool_choice:
            extras["tool_choice"] = self.settings.tool_choice
        return extras

    def _send_notice(self, text: str) -> None:
        self.session.journal.add_notice(self.state.turn.id, Notice(level="warning", text=text))
