"""Hooks for tests: small programs in a project's folder, declared in its settings."""

import json
import shlex
from pathlib import Path
from typing import Any

from tests.support.driver import Harness, Json, SessionDriver
from tests.support.projects import OSTLER_SETTINGS, make_project


def declare_hook(event: str, command: str, matcher: str | None = None, **more: Any) -> Json:
    """Settings with one hook."""
    group: Json = {"hooks": [{"type": "command", "command": command, **more}]}
    return {"hooks": {event: [{**group, **({"matcher": matcher} if matcher else {})}]}}


def build_hook_command(answer: Json) -> str:
    """A hook command that prints this answer, and appends its input to the file `told`."""
    return f"cat >> told; echo >> told; echo {shlex.quote(json.dumps(answer))}"


def build_decision(event: str, **fields: Any) -> Json:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def make_project_with_hook(
    harness: Harness, event: str, answer: Json | str, matcher: str | None = None, **more: Any
) -> Path:
    """A folder with one hook, given as a command or as its answer."""
    command = answer if isinstance(answer, str) else build_hook_command(answer)
    return make_project(harness, {OSTLER_SETTINGS: declare_hook(event, command, matcher, **more)})


def read_hook_inputs(folder: Path) -> list[Json]:
    """The inputs of the hooks of this folder."""
    return [json.loads(line) for line in (folder / "told").read_text().splitlines() if line]


def list_hook_runs(driver: SessionDriver) -> list[Json]:
    return [data["run"] for data in driver.list_event_data("hook.ran")]


def dump_request(driver: SessionDriver, number: int) -> str:
    """All that a request brought to the model."""
    return json.dumps(driver.requests[number].messages)
