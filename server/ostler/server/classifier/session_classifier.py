"""A session's classifier: a cache of opinions, and a circuit breaker after several denials in a row."""

import hashlib
from collections import OrderedDict
from dataclasses import replace
from typing import Final

from ostler.server.classifier.risk import find_high_risk
from ostler.server.classifier.types import Classifier, Opinion, Question
from ostler.tools.threads import read_in_thread

CACHE_SIZE: Final = 256
MAX_DENIALS: Final = 3


class SessionClassifier:
    """One per session. `consider` may run while hooks run; `apply_denial_limit` is for an opinion that decides."""

    def __init__(self, classifier: Classifier, *, remembered: int = CACHE_SIZE) -> None:
        self._classifier = classifier
        self._cache_size = remembered
        self._cache: OrderedDict[bytes, Opinion] = OrderedDict()
        self._denials = 0

    async def classify(self, question: Question) -> Opinion:
        """`consider` and `apply_denial_limit` at once. See `Classifier`."""
        return self.apply_denial_limit(await self.consider(question))

    async def consider(self, question: Question) -> Opinion:
        """The opinion about a call, perhaps from the cache; no denial is counted, since something else may decide."""
        key = _compute_key(question)
        known = self._cache.get(key)
        if known is None:
            return self._cache_opinion(key, await self._classifier.classify(question))
        if known.behavior == "allow" and (risk := await _recheck_risk(question)) is not None:
            return replace(known, behavior="ask", reason=f"High risk: {risk}.")
        if key in self._cache:
            self._cache.move_to_end(key)
        return known

    def remembers(self, question: Question) -> bool:
        """Whether `consider` need not ask a model."""
        return _compute_key(question) in self._cache

    def apply_denial_limit(self, opinion: Opinion) -> Opinion:
        """The opinion that counts: after three denials in a row a person is asked, until one has answered."""
        if opinion.behavior == "allow":
            self._denials = 0
        elif opinion.behavior == "deny" and self._denials >= MAX_DENIALS:
            reason = f"{MAX_DENIALS} calls in a row were denied, so a person decides. {opinion.reason}"
            opinion = replace(opinion, behavior="ask", reason=reason)
        elif opinion.behavior == "deny":
            self._denials += 1
        return opinion

    def reset_denials(self) -> None:
        """A person has looked at what goes on: denials are counted anew."""
        self._denials = 0

    def _cache_opinion(self, key: bytes, opinion: Opinion) -> Opinion:
        # `ask` is not cached: the classifier was unsure or out of reach, and may know better next time.
        if opinion.behavior != "ask":
            self._cache[key] = replace(opinion, cached=True, duration_ms=0)
            self._cache.move_to_end(key)
            while len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        return opinion


async def _recheck_risk(question: Question) -> str | None:
    """Checks a cached call again: its text is the same, but where its paths lead may have changed."""
    try:
        return await read_in_thread(find_high_risk, question)
    except (OSError, ValueError) as error:
        return f"it cannot be looked at again ({error})"


def _compute_key(question: Question) -> bytes:
    return hashlib.sha256(repr(question).encode("utf-8", "backslashreplace")).digest()
