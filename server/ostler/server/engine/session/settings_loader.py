"""Loads settings, trust and hooks into a session, and again when one of them changes.

It also builds what depends on them: the hook runner, with its questions to the small model, and the classifier.
"""

import contextlib
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

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
from ostler.server.engine.permissions.rule_match import is_spoken_of, needs_subject
from ostler.server.engine.session.effective_settings import build_single_rule
from ostler.server.engine.session.hooks import SessionHooks
from ostler.server.engine.session.live import LiveSession
from ostler.server.hooks import Hook, HookRunner
from ostler.server.models.provider import Provider
from ostler.server.models.registry import REHEARSAL
from ostler.server.settings import Settings
from ostler.server.settings.skills.files import SkillFiles, load_nested_skill_files
from ostler.server.settings.trust import is_trusted
from ostler.tools.call_subject import find_subject
from ostler.tools.permissions import parse_rule
from ostler.tools.permissions.subject import Subject, TextSubject
from ostler.tools.process.environment import build_command_environment
from ostler.tools.services import Processes
from ostler.tools.threads import read_in_thread

NESTED_SKILLS: Final = "nested_skills"
"""The key in the session's state: the folders below its own whose skills it has found."""


@dataclass(frozen=True, slots=True)
class SettingsLoader:
    provider: Callable[[str], Provider]
    config: Callable[[], Config]

    async def load(self, live: LiveSession) -> None:
        """Check the files; changes take effect now."""
        await self._load_settings(live)
        await load_nested_skills(live, live.state.get(NESTED_SKILLS) or ())

    async def _load_settings(self, live: LiveSession) -> None:
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

        async def matches_rule(text: str, tool: str, call_input: Mapping[str, Any]) -> bool:
            live = owner()
            assert live is not None, "a hook runs for a session that waits for it"
            return await matches_call(live, text, tool, call_input)

        cache, trusted = live.shared.settings, settings.project_effects.files

        async def is_unchanged() -> bool:
            """Whether the scripts of the project's hooks are what they were when the folder was last looked at."""
            return (await cache.get(settings.folder)).project_effects.files == trusted

        return HookRunner(
            hooks,
            matches_rule=matches_rule,
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


async def load_nested_skills(live: LiveSession, folders: Sequence[str]) -> None:
    """What the skills of these folders below the session's say now."""
    if not folders:
        return
    may_read = live.view.may_read

    def load() -> SkillFiles:
        found = load_nested_skill_files(folders, live.settings_folder)
        shown = (each for each in found.entries if may_read is None or may_read(os.path.realpath(each.file)))
        return replace(found, entries=tuple(shown))

    found = await read_in_thread(load)
    if found.entries != live.nested_skills:
        live.nested_skills = found.entries
    live.nested_skill_problems = found.problems


def build_empty_runner(processes: Processes) -> HookRunner:
    """A runner without hooks, for a session whose settings have not been loaded yet."""
    return HookRunner((), matches_rule=_match_nothing, environment={}, folder="/", processes=processes)


async def matches_call(live: LiveSession, text: str, name: str, call_input: Mapping[str, Any]) -> bool:
    """Whether a permission rule, as the `if` of a hook, speaks of a call. Raises BadRule."""
    rules = build_single_rule(live.settings, parse_rule(text), live.shared.aliases, live.worktree_above)
    tool = live.build_toolset().find(name)
    # Of a tool that only this turn has, and of an input that no tool takes, nothing is known but the name.
    subject: Subject = TextSubject("")
    if not isinstance(tool, str):
        with contextlib.suppress(ValidationError):
            given = tool.parse(dict(call_input))
            subject = await find_subject(tool, given, live.view) if needs_subject(rules, tool) else subject
            return is_spoken_of(rules, tool, subject)
    return any(rule.rule.content is None for rule in rules.find_ask_rules(name))


async def _match_nothing(*_: object) -> bool:
    return False
