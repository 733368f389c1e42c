"""The classifier's part in one call: asked once, beside hooks and people, for whoever needs its opinion."""

from dataclasses import dataclass, field, replace

import anyio

from ostler.server.classifier import Opinion, Question, SessionClassifier
from ostler.server.engine.permissions.decide import Case, PermissionContext, decide


@dataclass(slots=True)
class Classification:
    """The opinion about one call. Who asks while it is under way waits for the same."""

    question: Question
    classifier: SessionClassifier
    left_to_people: anyio.Event = field(default_factory=anyio.Event)
    """Set where it does not settle the ask."""
    _opinion: Opinion | None = None
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    def is_there(self) -> bool:
        """Whether `classify` answers without asking a model."""
        return self._opinion is not None or self.classifier.remembers(self.question)

    async def consider(self) -> Opinion:
        """The opinion, without its consequences: something else may decide."""
        async with self._lock:
            # A classifier that was unsure is not asked again about the same call. Any other opinion it remembers, and
            # only looks again where the paths lead.
            if self._opinion is None or self._opinion.behavior != "ask":
                self._opinion = await self.classifier.consider(self.question)
            return self._opinion

    async def classify(self) -> Opinion:
        """The opinion that decides."""
        return self.classifier.apply_denial_limit(await self.consider())


@dataclass(frozen=True, slots=True)
class EarlyClassification:
    """The classifier asked while hooks still run, which may make it superfluous."""

    classification: Classification
    case: Case
    permission: PermissionContext

    async def run(self) -> None:
        """Ask the classifier, where the chain without the hooks would: a call that a rule settles costs nothing."""
        verdict = await decide(replace(self.case, classify=self.classification.consider), self.permission)
        if verdict.classifies:
            await self.classification.consider()
