"""Brings the settings files, the trust in them and the hooks to a session, and again when one of them changes."""

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ostler.protocol.config import Config
from ostler.protocol.events import Notice
from ostler.server.classifier import ClassifierDesk, ModelClassifier, Pay, RehearsalClassifier, small_model
from ostler.server.engine.session.hooks import Hooking
from ostler.server.engine.session.live import LiveSession
from ostler.server.hooks import Hook, HookRunner
from ostler.server.models.assembler import Assembly
from ostler.server.models.provider import ModelRequest, Provider
from ostler.server.models.registry import REHEARSAL
from ostler.server.settings import Origin, Settings
from ostler.server.settings.rule_lists import sourced
from ostler.server.settings.trust import is_trusted
from ostler.tools import commands
from ostler.tools.fs import paths
from ostler.tools.permissions import matches_text, parse_rule
from ostler.tools.process.environment import command_environment
from ostler.tools.services import Processes
from ostler.tools.shell.bash_policy import reading

_ANSWER_TOKENS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Arranger:
    provider: Callable[[str], Provider]
    config: Callable[[], Config]

    async def arrange(self, live: LiveSession) -> None:
        """Look at the files; what has changed counts from now on."""
        settings = await live.rooms.settings.of(live.record.cwd)
        trusted = await live.journal.log.read(lambda connection: is_trusted(connection, settings))
        if live.arranged and settings is live.settings and trusted == live.trusted:
            return
        if live.arranged and settings is not live.settings and await self._refused(live, settings):
            return
        live.settings, live.trusted = settings, trusted
        if trusted != live.record.trusted:
            live.record = await live.journal.change(trusted=trusted)
        hooks, problems = await live.rooms.settings.hooks(settings, trusted)
        live.hooks = self.runner(live, hooks)
        live.arranged = True
        self._report(live, (*map(str, settings.problems), *problems))

    async def _refused(self, live: LiveSession, settings: Settings) -> bool:
        """Whether a hook does not want the change; it is asked once."""
        if live.refused is settings:
            return True
        outcome = await Hooking(live, None).moment("ConfigChange", source="settings", file_path=settings.folder)
        if outcome.block is None:
            return False
        live.refused = settings
        words = f"A hook keeps the settings of {settings.folder} as they were: {outcome.block}"
        live.journal.notice(None, Notice(level="warning", text=words))
        return True

    def _report(self, live: LiveSession, problems: tuple[str, ...]) -> None:
        """Once each, to whoever watches the session."""
        for problem in problems:
            if problem not in live.told_problems:
                live.told_problems.add(problem)
                live.journal.notice(None, Notice(level="warning", text=problem))

    def runner(self, live: LiveSession, hooks: tuple[Hook, ...]) -> HookRunner:
        surroundings, settings = live.surroundings, live.settings
        # The session has the runner: one that had the session too would keep its whole history until a collection.
        owner = weakref.ref(live)

        async def ask_model(system: str, words: str) -> str:
            live = owner()
            assert live is not None, "a hook runs for a session that waits for it"
            return await self._ask(live, system, words)

        return HookRunner(
            hooks,
            matches_rule=lambda rule, tool, given: speaks_of(settings, rule, tool, given),
            environment=command_environment(surroundings.environment, ""),
            folder=live.record.cwd,
            processes=live.processes,
            ask_model=ask_model,
            umask=surroundings.umask,
        )

    def classifier(self, model: str, pay: Pay) -> ClassifierDesk:
        small = small_model(model, self.config().model.small)
        if small == REHEARSAL:
            return ClassifierDesk(RehearsalClassifier())
        return ClassifierDesk(ModelClassifier(self.provider, small, pay=pay))

    async def _ask(self, live: LiveSession, system: str, words: str) -> str:
        """A short question to the small model that goes with the session's, without any history."""
        model = small_model(live.record.model, self.config().model.small)
        request = ModelRequest(
            model=model,
            max_tokens=_ANSWER_TOKENS,
            system=orjson.dumps([{"type": "text", "text": system}]),
            tools=b"[]",
            messages=[orjson.dumps({"role": "user", "content": [{"type": "text", "text": words}]})],
        )
        answer = Assembly(())
        try:
            async with self.provider(model).stream(request) as events:
                async for event in events:
                    for _ in answer.feed(event):
                        pass
                    if answer.stopped:
                        break
        finally:
            if answer.started:
                live.purse.pay(model, answer.usage)
        return answer.text


def no_hooks(processes: Processes) -> HookRunner:
    """For a session whose settings have not been looked at yet."""
    return HookRunner((), matches_rule=lambda *_: False, environment={}, folder="/", processes=processes)


def speaks_of(settings: Settings, text: str, tool: str, given: Mapping[str, Any]) -> bool:
    """Whether a permission rule, as the `if` of a hook, speaks of a call. Looks at the file system. Raises BadRule."""
    rule = parse_rule(text)
    if rule.tool != tool:
        return False
    if rule.content is None:
        return True
    if tool in {"Bash", "PowerShell"}:
        return commands.judge_match(reading(str(given.get("command", ""))), [rule.content]) is not None
    path = given.get("file_path") or given.get("path") or given.get("notebook_path")
    if not isinstance(path, str):
        return matches_text(tool, rule.content, str(given.get("url") or given.get("skill") or ""))
    origin = Origin("session", None, settings.folder, settings.folder, settings.home)
    return sourced(rule, "ask", origin).speaks_of_path(paths.written(path), paths.real(path))
