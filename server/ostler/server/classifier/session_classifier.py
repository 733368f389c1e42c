"""A session's classifier: it remembers what was judged, and stops a model that only says no."""

import hashlib
from collections import OrderedDict
from dataclasses import replace
from typing import Final

from ostler.server.classifier.risk import is_high_risk
from ostler.server.classifier.types import Classifier, Opinion, Question
from ostler.tools.threads import read_in_thread

REMEMBERED: Final = 256
MAX_DENIALS: Final = 3


class ClassifierDesk:
    """One per session. `consider` may run beside the hooks; `settle` is for an opinion that decides."""

    def __init__(self, classifier: Classifier, *, remembered: int = REMEMBERED) -> None:
        self._classifier = classifier
        self._remembered = remembered
        self._known: OrderedDict[bytes, Opinion] = OrderedDict()
        self._denials = 0

    async def classify(self, question: Question) -> Opinion:
        """Both at once. See `Classifier`."""
        return self.settle(await self.consider(question))

    async def consider(self, question: Question) -> Opinion:
        """What is thought of a call; nothing is counted, since something else may decide about it."""
        key = _key(question)
        known = self._known.get(key)
        if known is None:
            return self._remember(key, await self._classifier.classify(question))
        if known.behavior == "allow" and (risk := await _risk_now(question)) is not None:
            return replace(known, behavior="ask", reason=f"High risk: {risk}.")
        if key in self._known:
            self._known.move_to_end(key)
        return known

    def settle(self, opinion: Opinion) -> Opinion:
        """The opinion that counts: after three denials in a row a person is asked, until one has answered."""
        if opinion.behavior == "allow":
            self._denials = 0
        elif opinion.behavior == "deny" and self._denials >= MAX_DENIALS:
            reason = f"{MAX_DENIALS} calls in a row were denied, so a person decides. {opinion.reason}"
            opinion = replace(opinion, behavior="ask", reason=reason)
        elif opinion.behavior == "deny":
            self._denials += 1
        return opinion

    def person_answered(self) -> None:
        """A person has looked at what goes on: denials are counted anew."""
        self._denials = 0

    def _remember(self, key: bytes, opinion: Opinion) -> Opinion:
        # Whoever asks was unsure or out of reach, and may know better next time.
        if opinion.behavior != "ask":
            self._known[key] = replace(opinion, cached=True, duration_ms=0)
            self._known.move_to_end(key)
            while len(self._known) > self._remembered:
                self._known.popitem(last=False)
        return opinion


async def _risk_now(question: Question) -> str | None:
    """The words are the same; where their paths lead may have changed."""
    try:
        return await read_in_thread(is_high_risk, question)
    except (OSError, ValueError) as error:
        return f"it cannot be looked at again ({error})"


def _key(question: Question) -> bytes:
    return hashlib.sha256(repr(question).encode("utf-8", "backslashreplace")).digest()
