"""Whether the settings files can be read: those of the person, and those of the project in this folder."""

import json
import os
from collections.abc import Iterator
from typing import Any, Final

from ostler.clients.cli import quick_rpc
from ostler.clients.cli.checks.base import Finding
from ostler.protocol.places import Places

_IGNORED: Final = "Until then nothing in it counts, neither what it allows nor what it denies."
_NAMES: Final = ("settings.local.json", "settings.json")


def check_settings(places: Places) -> Iterator[Finding]:
    """What cannot be read is a failure: its rules do not hold. What is only strange, the daemon knows."""
    broken = {file: why for file in _list_files(places) if (why := _find_problem(file)) is not None}
    told = _fetch_problems(places)
    for file, why in broken.items():
        yield Finding("fail", "settings", f"{file}:{why}", f"Mend that place of {file}. {_IGNORED}")
    for problem in told:
        if problem["file"] not in broken:
            place = f"{problem['file']}:{problem['line']}:{problem['column']}: " if problem["file"] else ""
            mend = f"Mend it in {problem['file'] or 'the settings'}."
            yield Finding("warn", "settings", f"{place}{problem['message']}", mend)
    if not broken and not told:
        found = [file for file in _list_files(places) if os.path.lexists(file)]
        yield Finding("ok", "settings", ", ".join(found) or "no settings.json; nothing is allowed or denied beforehand")


def _list_files(places: Places) -> list[str]:
    """As the daemon looks for them from this folder."""
    own = [str(places.config / "settings.json"), os.path.expanduser("~/.claude/settings.json")]
    brought = [
        os.path.join(root, folder, name)
        for root in _find_roots()
        for folder in (".ostler", ".claude")
        for name in _NAMES
    ]
    return list(dict.fromkeys([*own, *brought, *(os.path.join(root, ".mcp.json") for root in _find_roots())]))


def _find_roots() -> list[str]:
    """This folder, and the repository around it."""
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:
        return []
    root = here
    while not os.path.lexists(os.path.join(root, ".git")):
        above = os.path.dirname(root)
        if above == root:
            return [here]
        root = above
    return [here] if root == here else [here, root]


def _find_problem(file: str) -> str | None:
    """The place in the file and what is wrong there; nothing where it can be read, or is not there."""
    try:
        with open(file, encoding="utf-8") as opened:
            found = json.load(opened)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except json.JSONDecodeError as error:
        return f"{error.lineno}:{error.colno}: it is not JSON: {error.msg}"
    except UnicodeDecodeError:
        return " it is not UTF-8"
    except RecursionError:
        return " it is nested too deep"
    except OSError as error:
        return f" it cannot be read: {error.strerror}"
    return None if isinstance(found, dict) else "1:1: it is not a JSON object"


def _fetch_problems(places: Places) -> list[dict[str, Any]]:
    """The problems that a running daemon reports for the newest session here: it reads the files as they are now."""
    roots = _find_roots()
    listed = quick_rpc.call(places, "session/list", {"cwd": roots[0], "limit": 1}) if roots else {}
    ids = [session["id"] for session in listed.get("sessions", [])]
    problems = (
        quick_rpc.call(places, "rule/list", {"session_id": ids[0], "limit": 1}).get("problems", []) if ids else []
    )
    return list(problems)
