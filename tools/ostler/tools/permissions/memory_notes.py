"""Memory notes: those of a project, which others read, and the person's own in the daemon's folder."""

import os
from pathlib import PurePath
from typing import Final

from ostler.tools.context import SessionView
from ostler.tools.permissions.secrets import find_secret

PROJECT_FOLDER: Final = os.path.join(".ostler", "memory")
"""Below the project's root."""
OWN_FOLDER: Final = "memory"
"""Below the daemon's own folder."""
INDEX: Final = "MEMORY.md"
"""The note whose beginning is part of the prompt."""
_ENDING: Final = ".md"


def is_project_note(place: str) -> bool:
    """Whether a real path is a note that comes with a project."""
    path = PurePath(place)
    return path.suffix.lower() == _ENDING and path.parts[-3:-1] == PurePath(PROJECT_FOLDER).parts


def is_own_note(place: str, session: SessionView) -> bool:
    """Whether a real path is a note of the person's: the one thing besides the plan that tools may touch there."""
    home = session.real_home or (os.path.realpath(session.home) if session.home else None)
    if home is None:
        return False
    return os.path.dirname(place) == os.path.join(home, OWN_FOLDER) and place.lower().endswith(_ENDING)


def refuse_secret(place: str, text: str) -> str | None:
    """Why this text must not be written there; None where it may."""
    found = find_secret(text) if is_project_note(place) else None
    if found is None:
        return None
    return (
        f"{place} comes with the project, and others read it: the text holds what looks like {found}. "
        "Leave it out, or say where it is kept."
    )
