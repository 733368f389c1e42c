"""The classifier of mode `auto`: what may run unasked, what may not, and what a person should see."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import lazily

if TYPE_CHECKING:
    from ostler.server.classifier.desk import ClassifierDesk
    from ostler.server.classifier.model import ModelClassifier, Pay
    from ostler.server.classifier.question import Behavior, Classifier, Opinion, Question
    from ostler.server.classifier.rehearsal import RehearsalClassifier
    from ostler.server.classifier.risk import is_high_risk
    from ostler.server.classifier.small import small_model

__all__ = [
    "Behavior",
    "Classifier",
    "ClassifierDesk",
    "ModelClassifier",
    "Opinion",
    "Pay",
    "Question",
    "RehearsalClassifier",
    "is_high_risk",
    "small_model",
]

__getattr__ = lazily(
    __name__,
    {
        "Behavior": "question",
        "Classifier": "question",
        "ClassifierDesk": "desk",
        "ModelClassifier": "model",
        "Opinion": "question",
        "Pay": "model",
        "Question": "question",
        "RehearsalClassifier": "rehearsal",
        "is_high_risk": "risk",
        "small_model": "small",
    },
)
