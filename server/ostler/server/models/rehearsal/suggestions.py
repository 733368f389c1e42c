"""Requests that the rehearsal model suggests: about files that the folder has, for tools that the session has."""

import itertools
import os
from collections.abc import Iterator
from typing import Final

_MAX_ENTRIES: Final = 1000
_TEXT_ENDINGS: Final = (
    ".md",
    ".txt",
    ".py",
    ".js",
    ".ts",
    ".go",
    ".rs",
    ".java",
    ".c",
    ".rb",
    ".toml",
    ".json",
)


def suggest_requests(tools: frozenset[str], folder: str | None) -> list[str]:
    """Requests that can be done with these tools in this folder, and are understood."""
    files, folders = _list_folder(folder)
    found = _build_requests(next(iter(files), None), next(iter(folders), None))
    return [request for needed, request in found if tools.issuperset(needed) and request is not None]


def _build_requests(file: str | None, folder: str | None) -> Iterator[tuple[set[str], str | None]]:
    """Each with the tools that it takes; none where no file fits."""
    ending = os.path.splitext(file)[1] if file else ""
    yield {"Read"}, f"read {file}" if file else None
    yield {"Glob"}, f"list *{ending} in {folder}" if folder else f"list *{ending}"
    yield {"Grep"}, f"find TODO in {folder}" if folder else "find TODO"
    yield {"Write", "Read", "Edit"}, 'write "hay\\n" to rehearsal.txt then replace hay with oats in rehearsal.txt'
    yield {"Bash"}, "run ls -l"
    yield {"Bash", "TaskOutput"}, "run `sleep 20; echo done` in the background"
    yield {"WebFetch"}, "fetch https://docs.python.org/3/"
    yield {"WebSearch"}, "search for feeding horses"
    yield {"AskUserQuestion"}, "ask me which one: tea, coffee or water"
    yield {"Read", "Bash"}, f"plan read {file} then run ls -l" if file else None
    yield {"Agent"}, f"ask two agents to read {file} and run ls -l" if file else None
    yield set(), "think about horses then say done"


def _list_folder(folder: str | None) -> tuple[list[str], list[str]]:
    """Text files and folders that can be named without quotes, the one to begin with first."""
    try:
        with os.scandir(folder or "") as entries:
            found = sorted(itertools.islice(entries, _MAX_ENTRIES), key=lambda entry: entry.name)
    except OSError:
        return [], []
    named = [entry for entry in found if _is_plain(entry.name)]
    files = [entry.name for entry in named if entry.name.lower().endswith(_TEXT_ENDINGS) and entry.is_file()]
    folders = [entry.name for entry in named if entry.is_dir()]
    return sorted(files, key=lambda name: not name.lower().startswith("readme")), folders


def _is_plain(name: str) -> bool:
    return name[0] not in "._-" and name.isprintable() and all(char.isalnum() or char in "._-" for char in name)
