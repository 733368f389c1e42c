"""Hooks as the engine runs them, in a folder of their own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ostler.server.hooks import Hook, HookCall, HookRunner, Outcome, parse_hooks
from ostler.server.hooks.prompt import AskModel
from ostler.server.hooks.types import Source
from ostler.tools.process.environment import command_environment
from tests.support.tool_calls import Processes

BASH_CALL: dict[str, Any] = {
    "session_id": "s_1",
    "cwd": "/",
    "permission_mode": "default",
    "tool_name": "Bash",
    "tool_input": {"command": "ls", "timeout": 5},
    "tool_use_id": "toolu_1",
}


def command(text: str, **further: Any) -> dict[str, Any]:
    return {"type": "command", "command": text, **further}


def declared(event: str, *hooks: dict[str, Any], source: Source = "user", matcher: str = "") -> tuple[Hook, ...]:
    """As a settings file has them; all of them can be used."""
    found, problems = parse_hooks([({event: [{"matcher": matcher, "hooks": list(hooks)}]}, source, None)])
    assert problems == ()
    return found


class Project:
    """A folder with hooks, and what was started there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes = Processes()
        self.rules: list[tuple[str, str, Mapping[str, Any]]] = []
        self.variables: dict[str, str] = {}

    def matches_rule(self, rule: str, tool: str, given: Mapping[str, Any]) -> bool:
        self.rules.append((rule, tool, given))
        if rule == "(":
            raise ValueError("no rule")
        return rule == tool

    def runner(self, *hooks: Hook, ask_model: AskModel | None = None) -> HookRunner:
        return HookRunner(
            hooks,
            matches_rule=self.matches_rule,
            environment=command_environment(self.variables, "none"),
            folder=str(self.folder),
            processes=self.processes,
            ask_model=ask_model,
        )

    async def run(self, event: str, *hooks: dict[str, Any], source: Source = "user", **payload: Any) -> Outcome:
        """Runs hooks, declared for all tools."""
        runner = self.runner(*declared(event, *hooks, source=source))
        return await runner.run(HookCall(event, {**BASH_CALL, **payload}))

    def pids(self, *names: str) -> list[int]:
        """What processes wrote about themselves; those that did not come to it yet are missing."""
        texts = [path.read_text().strip() for name in names if (path := self.folder / name).exists()]
        return [int(text) for text in texts if text]
