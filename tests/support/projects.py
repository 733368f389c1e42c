"""Folders with settings in them, and calls that rules, modes and hooks decide about."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.support.daemon import Daemon
from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.replies import Block, message
from tests.support.model_replies import DONE

OURS: Final = ".ostler/settings.json"
OUR_LOCAL: Final = ".ostler/settings.local.json"
CLAUDES: Final = ".claude/settings.json"
CLAUDES_LOCAL: Final = ".claude/settings.local.json"

_numbers = itertools.count(1)


def rules(**lists: Any) -> Json:
    """Settings with these lists of rules."""
    return {"permissions": lists}


def write(folder: Path, name: str, settings: Json | str) -> Path:
    """A settings file, as an editor leaves it."""
    file = folder / name
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.write_text(settings if isinstance(settings, str) else json.dumps(settings, indent=2))
    return file


def project(stage: Stage, files: Mapping[str, Json | str] | None = None) -> Path:
    """A new folder with these settings files."""
    folder = stage.folder / f"project-{next(_numbers)}"
    folder.mkdir()
    for name, settings in (files or {}).items():
        write(folder, name, settings)
    return folder


def talk_of(stage: Stage, *blocks: Block, **session: Any) -> Talk:
    """A talk whose model makes these calls, one in each message."""
    return stage.talk(*(message(block) for block in blocks), otherwise=DONE, **session)


def runs(stage: Stage, *blocks: Block, **session: Any) -> Talk:
    """A talk that has made these calls, whatever became of them; nobody is asked."""
    talk = talk_of(stage, *blocks, **{"on_ask": "deny", **session})
    talk.turn()
    return talk


def decisions(talk: Talk) -> list[tuple[str, str]]:
    """What was decided about each call, and by what."""
    found = [data["call"]["decision"] for data in talk.all("tool.completed")]
    return [(each["behavior"], each["by"]) for each in found]


def decision(talk: Talk) -> Json:
    """What was decided about the last call."""
    found: Json = talk.all("tool.completed")[-1]["call"]["decision"]
    return found


def output(talk: Talk) -> Json:
    found: Json = talk.all("tool.completed")[-1]["call"]["output"]
    return found


def notices(talk: Talk) -> list[str]:
    return [str(data["text"]) for data in talk.all("notice")]


def explained(daemon: Daemon, session_id: str, tool: str, **given: Any) -> Json:
    found: Json = daemon.call("rule/explain", session_id=session_id, tool=tool, input=given)
    return found


def explained_command(talk: Talk, command: str) -> Json:
    return explained(talk.daemon, talk.id, "Bash", command=command)
