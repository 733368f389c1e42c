"""Folders with settings in them, and calls that rules, modes and hooks decide about."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.support.daemon import Daemon
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.replies import Block, message
from tests.support.model_replies import DONE

OSTLER_SETTINGS: Final = ".ostler/settings.json"
OSTLER_LOCAL_SETTINGS: Final = ".ostler/settings.local.json"
CLAUDE_SETTINGS: Final = ".claude/settings.json"
CLAUDE_LOCAL_SETTINGS: Final = ".claude/settings.local.json"

_numbers = itertools.count(1)


def build_rules(**lists: Any) -> Json:
    """Settings with these lists of rules."""
    return {"permissions": lists}


def write_settings(folder: Path, name: str, settings: Json | str) -> Path:
    """A settings file, as an editor leaves it."""
    file = folder / name
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.write_text(settings if isinstance(settings, str) else json.dumps(settings, indent=2))
    return file


def make_project(harness: Harness, files: Mapping[str, Json | str] | None = None) -> Path:
    """A new folder with these settings files."""
    folder = harness.folder / f"project-{next(_numbers)}"
    folder.mkdir()
    for name, settings in (files or {}).items():
        write_settings(folder, name, settings)
    return folder


def open_session_with_calls(harness: Harness, *blocks: Block, **session: Any) -> SessionDriver:
    """A session whose model makes these calls, one in each message."""
    return harness.open_session(*(message(block) for block in blocks), otherwise=DONE, **session)


def run_calls(harness: Harness, *blocks: Block, **session: Any) -> SessionDriver:
    """A session that has made these calls, whatever became of them; nobody is asked."""
    driver = open_session_with_calls(harness, *blocks, **{"on_ask": "deny", **session})
    driver.run_turn()
    return driver


def list_decisions(driver: SessionDriver) -> list[tuple[str, str]]:
    """What was decided about each call, and by what."""
    found = [data["call"]["decision"] for data in driver.list_event_data("tool.completed")]
    return [(each["behavior"], each["by"]) for each in found]


def get_last_decision(driver: SessionDriver) -> Json:
    """What was decided about the last call."""
    found: Json = driver.list_event_data("tool.completed")[-1]["call"]["decision"]
    return found


def get_last_output(driver: SessionDriver) -> Json:
    found: Json = driver.list_event_data("tool.completed")[-1]["call"]["output"]
    return found


def list_notices(driver: SessionDriver) -> list[str]:
    return [str(data["text"]) for data in driver.list_event_data("notice")]


def explain_rule(daemon: Daemon, session_id: str, tool: str, **given: Any) -> Json:
    found: Json = daemon.call("rule/explain", session_id=session_id, tool=tool, input=given)
    return found


def explain_command(driver: SessionDriver, command: str) -> Json:
    return explain_rule(driver.daemon, driver.id, "Bash", command=command)
