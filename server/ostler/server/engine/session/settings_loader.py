"""Loads settings, trust and hooks into a session, and again when one of them changes.

It also builds what depends on them: the hook runner, with its questions to the small model, and the classifier.
"""

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ostler.protocol.config import Config
from ostler.protocol.events import Notice
from ostler.server.classifier import (
    ChargeUsage,
    ModelClassifier,
    RehearsalClassifier,
    SessionClassifier,
    SmallModel,
    choose_small_model,
)
from ostler.server.engine.session.hooks import SessionHooks
from ostler.server.engine.session.live import LiveSession
from ostler.server.hooks import Hook, HookRunner
from ostler.server.models.provider import Provider
from ostler.server.models.registry import REHEARSAL
from ostler.server.settings import Origin, Settings
from ostler.server.settings.rule_lists import compile_rule
from ostler.server.settings.trust import is_trusted
from ostler.tools import commands
from ostler.tools.call_subject import PATH_PARAMETERS
from ostler.tools.fs import paths
from ostler.tools.permissions import find_content_kind, matches_text, parse_rule
from ostler.tools.process.environment import build_command_environment
from ostler.tools.services import Processes
from ostler.tools.shell.bash_policy import parse_command


@dataclass(frozen=True, slots=True)
class SettingsLoader:
    provider: Callable[[str], Provider]
    config: Callable[[], Config]

    async def load(self, live: LiveSession) -> None:
        """Check the files; changes take effect now."""
        settings = await live.shared.settings.get(live.settings_folder)
        trusted = await live.journal.log.read(lambda snapshot: is_trusted(snapshot, settings))
        if live.settings_loaded and settings is live.settings and trusted == live.trusted:
            return
        if live.settings_loaded and settings is not live.settings and await self._is_refused(live, settings):
            return
        live.settings, live.trusted = settings, trusted
        if trusted != live.record.trusted:
            live.record = await live.journal.change_session(trusted=trusted)
        hooks, problems = await live.shared.settings.load_hooks(settings, trusted)
        live.hooks = self.build_hook_runner(live, hooks)
        live.settings_loaded = True
        self._report_problems(live, (*map(str, settings.problems), *problems))

    async def _is_refused(self, live: LiveSession, settings: Settings) -> bool:
        """Whether a ConfigChange hook refuses the new settings; it runs once for each change."""
        if live.refused_settings is settings:
            return True
        outcome = await SessionHooks(live, None).fire("ConfigChange", source="settings", file_path=settings.folder)
        if outcome.block is None:
            return False
        live.refused_settings = settings
        text = f"A hook keeps the settings of {settings.folder} as they were: {outcome.block}"
        live.journal.add_notice(None, Notice(level="warning", text=text))
        return True

    def _report_problems(self, live: LiveSession, problems: tuple[str, ...]) -> None:
        """Send a notice of each problem, once."""
        for problem in problems:
            if problem not in live.reported_problems:
                live.reported_problems.add(problem)
                live.journal.add_notice(None, Notice(level="warning", text=problem))

    def build_hook_runner(self, live: LiveSession, hooks: tuple[Hook, ...]) -> HookRunner:
        view, settings = live.view, live.settings
        # A weak reference: the session refers to the runner, and a cycle would keep its history until a collection.
        owner = weakref.ref(live)

        async def ask_model(system: str, text: str) -> str:
            live = owner()
            assert live is not None, "a hook runs for a session that waits for it"
            return await live.small_model.ask(live.record.model, system, text)

        cache, trusted = live.shared.settings, settings.project_effects.files

        async def is_unchanged() -> bool:
            """Whether the scripts of the project's hooks are what they were when the folder was last looked at."""
            return (await cache.get(settings.folder)).project_effects.files == trusted

        return HookRunner(
            hooks,
            matches_rule=lambda rule, tool, call_input: matches_call(settings, rule, tool, call_input),
            environment=build_command_environment(view.environment, ""),
            folder=live.record.cwd,
            processes=live.processes,
            ask_model=ask_model,
            umask=view.config.umask,
            is_unchanged=is_unchanged,
        )

    def build_small_model(self, charge: ChargeUsage) -> SmallModel:
        return SmallModel(self.provider, lambda: self.config().model.small, charge)

    def build_classifier(self, model: str, charge: ChargeUsage) -> SessionClassifier:
        small = choose_small_model(model, self.config().model.small)
        if small == REHEARSAL:
            return SessionClassifier(RehearsalClassifier())
        return SessionClassifier(ModelClassifier(self.provider, small, pay=charge))


def build_empty_runner(processes: Processes) -> HookRunner:
    """A runner without hooks, for a session whose settings have not been loaded yet."""
    return HookRunner((), matches_rule=lambda *_: False, environment={}, folder="/", processes=processes)


def matches_call(settings: Settings, text: str, tool: str, call_input: Mapping[str, Any]) -> bool:
    """Whether a permission rule, as the `if` of a hook, matches a call. Reads the file system. Raises BadRule."""
    rule = parse_rule(text)
    if rule.tool != tool:
        return False
    if rule.content is None:
        return True
    if find_content_kind(tool) == "command":
        return (
            commands.find_forbidding_rule(parse_command(str(call_input.get("command", ""))), [rule.content]) is not None
        )
    path = next((path for name in PATH_PARAMETERS if (path := call_input.get(name))), None)
    if not isinstance(path, str):
        return matches_text(tool, rule.content, str(call_input.get("url") or call_input.get("skill") or ""))
    origin = Origin("session", None, settings.folder, settings.folder, settings.home)
    return compile_rule(rule, "ask", origin).matches_path(paths.normalize_path(path), paths.resolve_path(path))
