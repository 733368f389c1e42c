"""What every client says when the model is only a rehearsal."""

import os
from collections.abc import Container
from typing import Final

REHEARSAL: Final = (
    "The model is `rehearsal`: it needs no key and understands only plain requests. "
    "`ostler auth login` keeps a key for a real one."
)


_MAX_ENTRIES: Final = 1000
_TEXT_ENDINGS: Final = (".md", ".txt", ".py", ".js", ".ts", ".go", ".rs", ".java", ".c", ".toml", ".json")


def is_rehearsal(model: str) -> bool:
    return model == "rehearsal"


def suggest_requests(folder: str, tools: Container[str]) -> list[str]:
    """Requests that a new session can begin with: for the tools that it has, about files that are there."""
    file = _find_text_file(folder)
    wishes = [
        ("Read", f"read {file}" if file else None),
        ("Grep", "find TODO"),
        ("Bash", "run ls -l"),
        ("Write", 'write "hay\\n" to rehearsal.txt then replace hay with oats in rehearsal.txt'),
    ]
    return [words for tool, words in wishes if words is not None and tool in tools]


def _find_text_file(folder: str) -> str | None:
    """A file to read: the README, if there is one. None where the folder is not to be seen from here."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for _, entry in zip(range(_MAX_ENTRIES), entries, strict=False) if entry.is_file()]
    except OSError:
        return None
    plain = [name for name in names if name.lower().endswith(_TEXT_ENDINGS) and name.replace(".", "").isalnum()]
    return min(plain, key=lambda name: (not name.lower().startswith("readme"), name), default=None)
