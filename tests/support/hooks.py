"""Hooks for tests: small programs in a project's folder, declared in its settings."""

import json
import shlex
from pathlib import Path
from typing import Any

from tests.support.driver import Json, Stage, Talk
from tests.support.projects import OURS, project


def declared(event: str, command: str, matcher: str | None = None, **more: Any) -> Json:
    """Settings with one hook."""
    entry: Json = {"hooks": [{"type": "command", "command": command, **more}]}
    return {"hooks": {event: [{**entry, **({"matcher": matcher} if matcher else {})}]}}


def printing(answer: Json) -> str:
    """A command that answers so, and writes down what it was told."""
    return f"cat >> told; echo >> told; echo {shlex.quote(json.dumps(answer))}"


def deciding(event: str, **fields: Any) -> Json:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def hooked(stage: Stage, event: str, answer: Json | str, matcher: str | None = None, **more: Any) -> Path:
    """A folder with one hook, given as a command or as its answer."""
    command = answer if isinstance(answer, str) else printing(answer)
    return project(stage, {OURS: declared(event, command, matcher, **more)})


def told(folder: Path) -> list[Json]:
    """What the hooks of this folder were given."""
    return [json.loads(line) for line in (folder / "told").read_text().splitlines() if line]


def runs_of(talk: Talk) -> list[Json]:
    return [data["run"] for data in talk.all("hook.ran")]


def request_text(talk: Talk, number: int) -> str:
    """All that a request brought to the model."""
    return json.dumps(talk.requests[number].messages)
