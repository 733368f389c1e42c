"""A person's machine with a home, a project and a policy, all in one temporary folder."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ostler.server.settings import RuleSet, Settings, SettingsPlaces, load_settings, resolve_rules

TOOLS = ("Bash", "Read", "Edit", "Write", "NotebookEdit", "Grep", "Glob", "LSP", "WebFetch", "Agent", "Task", "Skill")
FILES = {
    "policy": "etc/policy.json",
    "local": "project/.ostler/settings.local.json",
    "claude local": "project/.claude/settings.local.json",
    "project": "project/.ostler/settings.json",
    "claude project": "project/.claude/settings.json",
    "user": "ostler/settings.json",
    "claude user": "me/.claude/settings.json",
}


class PersonMachine:
    """A machine whose settings files are written and loaded by tests."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.folder = self.root / "project"
        for name in ("project", "ostler", "me", "etc"):
            (self.root / name).mkdir(exist_ok=True)
        self.places = SettingsPlaces(
            str(self.root / "ostler"), str(self.root / "me"), str(self.root / "etc" / "policy.json")
        )

    def file(self, name: str) -> Path:
        path = self.root / FILES[name]
        path.parent.mkdir(exist_ok=True)
        return path

    def write(self, name: str, content: Any) -> Path:
        """As JSON, or as it is where it is a text."""
        path = self.file(name)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
        return path

    def write_permissions(self, name: str, **lists: Sequence[str]) -> Path:
        return self.write(name, {"permissions": lists})

    def load(self) -> Settings:
        return load_settings(str(self.folder), self.places, known_tools=TOOLS)

    def load_rules(self, *, trusted: bool = False) -> RuleSet:
        return resolve_rules(self.load(), trusted, aliases={"Task": "Agent"})

    def git(self, *words: str) -> str:
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        done = subprocess.run(
            ["git", "-C", self.folder, *words], check=True, capture_output=True, text=True, env=environment
        )
        return done.stdout


def format_rules(rules: Sequence[Any]) -> list[str]:
    return [f"{each.behavior} {each.rule.text} ({each.source})" for each in rules]
