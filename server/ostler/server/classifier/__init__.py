"""The classifier of mode `auto`: what may run unasked, what may not, and what a person should see."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import lazily

if TYPE_CHECKING:
    from ostler.server.classifier.model import ModelClassifier, Pay
    from ostler.server.classifier.model_choice import small_model
    from ostler.server.classifier.rehearsal import RehearsalClassifier
    from ostler.server.classifier.risk import is_high_risk
    from ostler.server.classifier.session_classifier import ClassifierDesk
    from ostler.server.classifier.types import Behavior, Classifier, Opinion, Question

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
        "Behavior": "types",
        "Classifier": "types",
        "ClassifierDesk": "session_classifier",
        "ModelClassifier": "model",
        "Opinion": "types",
        "Pay": "model",
        "Question": "types",
        "RehearsalClassifier": "rehearsal",
        "is_high_risk": "risk",
        "small_model": "model_choice",
    },
)
