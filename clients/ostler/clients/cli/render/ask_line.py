"""Renders an ask as one line of a list, and the folder of one that is elsewhere."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ostler.clients.cli.output import fit, sanitize

if TYPE_CHECKING:
    from ostler.clients import Ostler

_SUBJECT_WIDTH: Final = 60
_TRUST_WIDTH: Final = 400


def describe_subject(ask: Mapping[str, Any]) -> str:
    """What it is about: the tool and its command, or the words of the question."""
    call = ask.get("call")
    if call:
        return fit(sanitize(f"{call['tool']} {_summarize_call(call)}"), _SUBJECT_WIDTH)
    # Nobody can trust what they do not see, so that is longer.
    brought = "; ".join(str(one.get("text", "")) for one in ask.get("what") or [])
    words = sanitize(f"{ask.get('message', '')} {brought}")
    return fit(words, _TRUST_WIDTH if brought else _SUBJECT_WIDTH)


def _summarize_call(call: Mapping[str, Any]) -> str:
    """A summary is one line of what may be several: where a line ends is shown."""
    command = call["input"].get("command")
    return command.strip().replace("\n", " ⏎ ") if isinstance(command, str) else call.get("summary", "")


def describe_folder(folder: str | None) -> str | None:
    """The folder that an ask is about, for people; None where it is the one that they are in."""
    if folder is None or os.path.realpath(folder) == os.path.realpath(os.getcwd()):
        return None
    return abbreviate_home(folder)


def abbreviate_home(path: str) -> str:
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path


async def fetch_folders(ostler: "Ostler", asks: list[dict[str, Any]]) -> dict[str, str]:
    """The folders of their sessions, by the session's id."""
    ids = dict.fromkeys(str(ask["session_id"]) for ask in asks)
    return {one: str((await ostler.request("session/get", {"session_id": one}))["cwd"]) for one in ids}
