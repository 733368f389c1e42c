"""Which model judges."""

from fnmatch import fnmatchcase

from ostler.server.classifier.tables import table
from ostler.server.models.registry import REHEARSAL


def small_model(main_model: str, configured: str | None) -> str:
    """The small model beside a session's own. A rehearsal stays one: it costs nothing and leaves the machine never."""
    if configured is not None and main_model != REHEARSAL:
        return configured
    for row in table("model_choice.toml")["models"]:
        if fnmatchcase(main_model, row["pattern"]):
            small: str = row.get("small", main_model)
            return small
    return main_model
