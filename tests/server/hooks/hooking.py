"""A project folder with hooks, and a runner that runs them as the engine does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ostler.server.hooks import Hook, HookCall, HookRunner, Outcome, parse_hooks
from ostler.server.hooks.prompt import AskModel
from ostler.server.hooks.types import Source
from ostler.tools.process.environment import build_command_environment
from tests.support.tool_calls import RecordedProcesses

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


def parse_declared(event: str, *hooks: dict[str, Any], source: Source = "user", matcher: str = "") -> tuple[Hook, ...]:
    """Parse hooks as a settings file declares them; none of them may have a problem."""
    found, problems = parse_hooks([({event: [{"matcher": matcher, "hooks": list(hooks)}]}, source, None)])
    assert problems == ()
    return found


class Project:
    """A folder with hooks, and what was started there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes = RecordedProcesses()
        self.rules: list[tuple[str, str, Mapping[str, Any]]] = []
        self.variables: dict[str, str] = {}

    async def matches_rule(self, rule: str, tool: str, given: Mapping[str, Any]) -> bool:
        self.rules.append((rule, tool, given))
        if rule == "(":
            raise ValueError("no rule")
        return rule == tool

    def make_runner(self, *hooks: Hook, ask_model: AskModel | None = None) -> HookRunner:
        return HookRunner(
            hooks,
            matches_rule=self.matches_rule,
            environment=build_command_environment(self.variables, "none"),
            folder=str(self.folder),
            processes=self.processes,
            ask_model=ask_model,
        )

    async def run(self, event: str, *hooks: dict[str, Any], source: Source = "user", **payload: Any) -> Outcome:
        """Runs hooks, declared for all tools."""
        runner = self.make_runner(*parse_declared(event, *hooks, source=source))
        return await runner.run(HookCall(event, {**BASH_CALL, **payload}))

    def read_pids(self, *names: str) -> list[int]:
        """What processes wrote about themselves; those that did not come to it yet are missing."""
        texts = [path.read_text().strip() for name in names if (path := self.folder / name).exists()]
        return [int(text) for text in texts if text]
