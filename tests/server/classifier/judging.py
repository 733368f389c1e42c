"""Questions to the classifier, replies of its model, and a classifier that answers from a table."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from ostler.server.classifier import Behavior, ChargeUsage, ModelClassifier, Opinion, Question
from tests.server.models.provider_requests import open_provider
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.replies import message, says

MODEL = "claude-haiku-4-5"


def make_question(text: str = "make test", folder: Path | str = "/", **changed: Any) -> Question:
    """A call of Bash in a folder that is its only root."""
    given: dict[str, Any] = {
        "tool": "Bash",
        "text": text,
        "folder": str(folder),
        "roots": (str(folder),),
        "last_input": "Make the tests pass.",
        "read_only": False,
        "destructive": False,
    }
    return Question(**{**given, **changed})


def make_verdict_reply(behavior: str, reason: str = "because") -> Reply:
    return message(says(orjson.dumps({"verdict": behavior, "reason": reason}).decode()))


@asynccontextmanager
async def open_classifier(
    url: str, *, pay: ChargeUsage = lambda *_: None, seconds: float = 20
) -> AsyncIterator[ModelClassifier]:
    async with open_provider(url) as provider:
        yield ModelClassifier(lambda _: provider, MODEL, pay=pay, seconds=seconds)


class TableClassifier:
    """Answers by the question's text, and remembers what it was asked."""

    def __init__(self, **behaviors: Behavior) -> None:
        self.behaviors = behaviors
        self.asked_texts: list[str] = []

    async def classify(self, question: Question) -> Opinion:
        self.asked_texts.append(question.text)
        return Opinion(self.behaviors[question.text.partition(" ")[0]], "as told", "table", duration_ms=5)
