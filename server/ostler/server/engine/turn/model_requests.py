"""Asks the model for its next message: with what the provider takes, and another model where the first one cannot."""

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
from ostler.server.engine.turn.model_call import Answered, ModelCall, next_message, pause
from ostler.server.engine.turn.options import Services, TurnSettings
from ostler.server.engine.turn.prompt_prefix import Prefix
from ostler.server.engine.turn.stop import Stop
from ostler.server.engine.turn.user_messages import UserMessages
from ostler.server.models.provider import ModelFailure, ModelRequest
from ostler.tools.threads import change_in_thread

MakeExecutor = Callable[[MessageId, Callable[[], Draft]], Executor]


@dataclass(slots=True)
class ModelRequests:
    """All requests of one turn, one after the other."""

    session: LiveSession
    services: Services
    settings: TurnSettings
    prefix: Prefix
    state: TurnState
    said: UserMessages
    limits: Limits
    begun: Message | None
    """The first message of the model's, where the log has its start already."""
    model: str = field(init=False)
    """Who is asked: the turn's own model, or the one that has taken over."""
    _stop: Stop = field(default_factory=Stop)
    _broke: ModelFailure | None = None
    """Why the last answer broke off, where it stays and the next one goes on from there."""
    _breaks: int = 0
    """How many have done so, one after the other."""

    def __post_init__(self) -> None:
        self.model = self.settings.model

    def stop(self) -> None:
        """End at once what is under way: a stream, or a wait before a retry."""
        self._stop.cancel()

    async def answer(self, make_executor: MakeExecutor) -> Answered | None:
        """The next message; None where it was stopped before anything of it was kept. Raises ModelFailure."""
        counted = self.state.turn.model_requests
        try:
            return await self._request(make_executor)
        except ModelFailure as failure:
            # One message is asked for, however often: a request that another takes the place of counts as little as
            # a try that is made again. Where it has cost something, the budget knows of it.
            asked = self.state.turn.model_requests
            self.state.change(model_requests=counted)
            if not self._can_go_on(failure):
                self.state.change(model_requests=asked)
                raise
            return await self.answer(make_executor)

    def _can_go_on(self, failure: ModelFailure) -> bool:
        """Whether another request may do better; it is another one then."""
        provider = self.services.provider(self.model)
        if failure.kind == "extras" and provider.takes_extras(self.model) and self._may_ask(self.model):
            provider.forgo_extras(self.model)
            self._notice(f"{self.model} does not take what tools say beside their schemas; it is asked without that.")
            return True
        fallback = self.services.config().model.fallback
        if failure.kind != "overloaded" or fallback is None or fallback == self.model:
            return False
        if not self._may_ask(fallback):
            return False
        self._notice(f"{self.model} is overloaded; {fallback} goes on with this turn.")
        self.model = fallback
        return True

    def _may_ask(self, model: str) -> bool:
        return self.limits.reached(self.state.turn, model) is None

    async def _request(self, make_executor: MakeExecutor) -> Answered | None:
        config, provider = self.services.config(), self.services.provider(self.model)
        self._stop = Stop()
        if self._broke is not None and not await self._wait(self._broke, config.model):
            return None
        first = self.state.turn.model_requests == 0
        self.state.change(model_requests=self.state.turn.model_requests + 1)
        begun, self.begun = self.begun, None
        if begun is None:
            begun = next_message(self.session.record.id, self.state.turn.id, self.model)
            # With the request and not with the answer: the first words need not wait for a commit.
            self.session.journal.message_started(begun)
        # The rest is made ready while the disk works.
        await self.session.journal.with_the_disk()
        history = self.session.history
        messages = await change_in_thread(history.encoded) if history.is_long else history.encoded()
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
                extras=self._extras(first),
                stored=self.said.stored,
            ),
            settings=config.model,
            make_executor=make_executor,
            cost=self.services.cost,
            stop=self._stop,
            begun=begun,
        )
        answered = await call.answer()
        self._broke = answered.broke if answered is not None else None
        self._breaks = self._breaks + 1 if self._broke is not None else 0
        return answered

    async def _wait(self, broke: ModelFailure, settings: Model) -> bool:
        """As before any other try: it is the same provider that broke off. False where somebody stopped the wait."""
        self._broke = None
        if self._breaks > broke.retries(settings.max_retries):
            self._breaks = 0
            raise broke
        await pause(self.session, self.state, settings, self._stop, self._breaks, broke)
        return not self._stop.called

    def _extras(self, first: bool) -> dict[str, Any]:
        extras: dict[str, Any] = {}
        thinking = self.settings.thinking or self.session.record.options.get("thinking")
        if thinking:
            extras["thinking"] = thinking
        if first and self.settings.tool_choice:
            extras["tool_choice"] = self.settings.tool_choice
        return extras

    def _notice(self, text: str) -> None:
        self.session.journal.notice(self.state.turn.id, Notice(level="warning", text=text))
