"""A question to the small model that goes with a session's own, without any history."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import orjson

from ostler.server.classifier.model import ChargeUsage
from ostler.server.classifier.model_choice import choose_small_model
from ostler.server.models.assembler import MessageAssembler
from ostler.server.models.provider import ModelRequest, Provider
from ostler.server.models.registry import REHEARSAL

_ANSWER_TOKENS: Final = 1_000


@dataclass(frozen=True, slots=True)
class SmallModel:
    """The small model of one session, which pays for it."""

    provider: Callable[[str], Provider]
    configured: Callable[[], str | None]
    charge: ChargeUsage

    def is_rehearsed(self, main_model: str) -> bool:
        """It is the embedded model, which knows its phrases and nothing else."""
        return choose_small_model(main_model, self.configured()) == REHEARSAL

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
        answer = MessageAssembler(())
        try:
            async with self.provider(model).stream(request) as events:
                async for event in events:
                    for _ in answer.feed(event):
                        pass
                    if answer.stopped:
                        break
        finally:
            if answer.started:
                self.charge(model, answer.usage)
        return answer.text
