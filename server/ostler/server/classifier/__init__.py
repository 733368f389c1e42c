"""The classifier of mode `auto`: what may run unasked, what may not, and what a person should see."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import export_lazily

if TYPE_CHECKING:
    from ostler.server.classifier.model import ChargeUsage, ModelClassifier
    from ostler.server.classifier.model_choice import choose_small_model
    from ostler.server.classifier.rehearsal import RehearsalClassifier
    from ostler.server.classifier.risk import find_high_risk
    from ostler.server.classifier.session_classifier import SessionClassifier
    from ostler.server.classifier.small_model import SmallModel
    from ostler.server.classifier.types import Behavior, Classifier, Opinion, Question

__all__ = [
    "Behavior",
    "ChargeUsage",
    "Classifier",
    "ModelClassifier",
    "Opinion",
    "Question",
    "RehearsalClassifier",
    "SessionClassifier",
    "SmallModel",
    "choose_small_model",
    "find_high_risk",
]

__getattr__ = export_lazily(
    __name__,
    {
        "Behavior": "types",
        "Classifier": "types",
        "SessionClassifier": "session_classifier",
        "ModelClassifier": "model",
        "Opinion": "types",
        "ChargeUsage": "model",
        "Question": "types",
        "RehearsalClassifier": "rehearsal",
        "find_high_risk": "risk",
        "choose_small_model": "model_choice",
        "SmallModel": "small_model",
    },
)
