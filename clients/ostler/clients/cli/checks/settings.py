"""Whether the settings files can be read: those of the person, and those of the project in this folder."""

import json
import os
from collections.abc import Iterator
from typing import Any, Final

from ostler.clients.cli import quick_rpc
from ostler.clients.cli.checks.base import Finding
from ostler.protocol.places import POLICY_FILE, Places

_IGNORED: Final = "Until then nothing in it counts, neither what it allows nor what it denies."
_NAMES: Final = ("settings.local.json", "settings.json")


def check_settings(places: Places) -> Iterator[Finding]:
    """What cannot be read is a failure: its rules do not hold. What is only strange, the daemon knows."""
    yield from _check_policy()
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


def _check_policy() -> Iterator[Finding]:
    """What the machine forbids to everybody; without a policy, nothing is said."""
    if not os.path.lexists(POLICY_FILE):
        return
    if (why := _find_problem(POLICY_FILE)) is not None:
        mend = "Mend it, or ask who looks after this machine: no daemon starts without knowing what it forbids."
        yield Finding("fail", "policy", f"{POLICY_FILE}:{why}", mend)
        return
    with open(POLICY_FILE, encoding="utf-8") as opened:
        found = json.load(opened)
    words = {
        "sandbox": "commands run only in the sandbox",
        "forbid_modes": f"no mode {_join(found.get('forbid_modes'))}",
        "forbid_tools": f"no tool {_join(found.get('forbid_tools'))}",
        "forbid_remote": "nothing listens but on loopback",
    }
    said = [text for key, text in words.items() if found.get(key)]
    yield Finding("ok", "policy", f"{POLICY_FILE}: {'; '.join(said) or 'rules and settings for everybody'}")


def _join(names: object) -> str:
    return ", ".join(map(str, names)) if isinstance(names, list) else "?"


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
