"""Chooses the small model: for the classifier, and for hooks that are questions to a model."""

from fnmatch import fnmatchcase

from ostler.server.classifier.tables import load_table
from ostler.server.models.registry import REHEARSAL


def choose_small_model(main_model: str, configured: str | None) -> str:
    """The small model beside a session's own. For `rehearsal` it is itself: free, and without network."""
    if configured is not None and main_model != REHEARSAL:
        return configured
    for row in load_table("model_choice.toml")["models"]:
        if fnmatchcase(main_model, row["pattern"]):
            small: str = row.get("small", main_model)
            return small
    return main_model
