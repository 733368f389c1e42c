"""What a live session knows of its own conversation: nothing here is stored, all of it can be made again."""

from dataclasses import dataclass
from typing import Final

from ostler.protocol.shapes import Usage
from ostler.server.engine.context.repeats import ResultIndex

_RATIOS: Final = (0.5, 2.0)
"""The provider's count may differ so much from our estimate; more is a provider that does not count."""


@dataclass(frozen=True, slots=True)
class CountedTokens:
    """What the provider counted last."""

    tokens: int
    """Of the request, and of its answer."""
    history_tokens: int
    """Our estimate of the history then, the answer included."""


@dataclass(frozen=True, slots=True)
class WindowUse:
    """How full the window is."""

    tokens: int
    estimated: bool


@dataclass(slots=True)
class ContextState:
    """Of one live session."""

    results: ResultIndex | None = None
    """The long results of the conversation; made when one may repeat another, and anew after a compaction."""
    counted: CountedTokens | None = None
    """Null before the first answer, and after what was sent has changed."""
    full: bool = False
    """The provider has cut an answer, because the window was full: whatever was counted, the next one needs room."""
    _ratio: float = 1.0
    """The provider's count by our estimate, when it last counted."""

    def note_answer(self, used: Usage, prefix_tokens: int, history_tokens: int) -> None:
        """Note what the provider counted; `history_tokens` is our estimate with the answer in it."""
        tokens = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
        if not tokens:
            return  # some servers count nothing
        self.counted = CountedTokens(tokens + used.output_tokens, history_tokens)
        least, most = _RATIOS
        self._ratio = min(most, max(least, self.counted.tokens / max(1, prefix_tokens + history_tokens)))

    def forget(self) -> None:
        """What was sent has changed: it is counted anew, by the ratio that was seen before."""
        self.results = self.counted = None
        self.full = False

    def measure(self, prefix_tokens: int, history_tokens: int) -> WindowUse:
        """What the next request would take."""
        if self.counted is None:
            return WindowUse(self.scale(prefix_tokens + history_tokens), estimated=True)
        since = history_tokens - self.counted.history_tokens
        return WindowUse(max(0, self.counted.tokens + since), estimated=since != 0)

    def scale(self, tokens: int) -> int:
        """An estimate of ours as the provider would count it."""
        return round(tokens * self._ratio)
