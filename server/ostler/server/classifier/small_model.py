"""A question to the small model that goes with a session's own, without any history."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ostler.server.classifier.model import ChargeUsage
from ostler.server.classifier.model_choice import choose_small_model
from ostler.server.models.assembler import MessageAssembler
from ostler.server.models.pricing import compute_search_cost, format_usd
from ostler.server.models.provider import ModelFailure, ModelRequest, Provider
from ostler.server.models.registry import REHEARSAL

_ANSWER_TOKENS: Final = 1_000
_SEARCH_TOKENS: Final = 4_000


@dataclass(frozen=True, slots=True)
class SmallModel:
    """The small model of one session, which pays for it."""

    provider: Callable[[str], Provider]
    configured: Callable[[], str | None]
    charge: ChargeUsage

    def is_rehearsed(self, main_model: str) -> bool:
        """It is the embedded model, which knows its phrases and nothing else."""
        return choose_small_model(main_model, self.configured()) == REHEARSAL

    def searches(self, main_model: str) -> bool:
        """Whether the API is known to search the web for it."""
        model = choose_small_model(main_model, self.configured())
        return self.provider(model).searches(model)

    async def ask(self, main_model: str, system: str, text: str, max_tokens: int = _ANSWER_TOKENS) -> str:
        """Its answer; raises what the provider raises. A request that was cancelled is paid for, too."""
        model = choose_small_model(main_model, self.configured())
        request = ModelRequest(
            model=model,
            max_tokens=max_tokens,
            system=orjson.dumps([{"type": "text", "text": system}]),
            tools=b"[]",
            messages=[orjson.dumps({"role": "user", "content": [{"type": "text", "text": text}]})],
        )
        return (await self._stream(request)).text

    async def search(
        self, main_model: str, system: str, messages: Sequence[Mapping[str, Any]], tool: Mapping[str, Any]
    ) -> MessageAssembler:
        """Its answer, with what a tool of the provider's own has found; raises what the provider raises."""
        model = choose_small_model(main_model, self.configured())
        request = ModelRequest(
            model=model,
            max_tokens=_SEARCH_TOKENS,
            system=orjson.dumps([{"type": "text", "text": system}]),
            tools=orjson.dumps([tool]),
            messages=[orjson.dumps(message) for message in messages],
        )
        try:
            answer = await self._stream(request)
        except ValueError as error:
            raise ModelFailure("garbage", f"The answer of the model {model} cannot be read: {error}.") from None
        if not answer.stopped:
            raise ModelFailure("connection", f"The answer of the model {model} broke off.")
        return answer

    async def _stream(self, request: ModelRequest) -> MessageAssembler:
        answer = MessageAssembler(())
        try:
            async with self.provider(request.model).stream(request) as events:
                async for event in events:
                    for _ in answer.feed(event):
                        pass
                    if answer.stopped:
                        break
        finally:
            if answer.started:
                extra = compute_search_cost(request.model, answer.searches)
                self.charge(request.model, answer.usage.changed(cost_usd=format_usd(extra)))
        return answer
