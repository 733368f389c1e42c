"""Cache of the settings of each folder: read when they are first needed, and again when a file has changed."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Any, Final

from ostler.protocol.errors import Conflict
from ostler.server.hooks import Hook, load_plugin_hooks, parse_hooks
from ostler.server.observability import logs
from ostler.server.settings import (
    BadPolicy,
    HookEntry,
    Problem,
    Settings,
    SettingsPlaces,
    check_policy,
    is_stale,
    load_settings,
    resolve_hooks,
)
from ostler.tools.threads import read_in_thread

_MAX_FOLDERS: Final = 256


class SettingsCache:
    """Shared by all sessions: those of one folder see the same object until one of its files changes."""

    def __init__(self, places: SettingsPlaces, known_tools: Callable[[], Collection[str]]) -> None:
        self.places = places
        self.limits = check_policy(places)
        """What the policy forbids, as it was last read: with the settings of any session."""
        self._known_tools = known_tools
        self._by_folder: OrderedDict[str, Settings] = OrderedDict()
        self._checked_at: dict[str, float] = {}
        self._reported: set[Problem] = set()
        self._plugins: tuple[Hook, ...] | None = None

    async def get(self, folder: str, *, max_age: float = 0.0) -> Settings:
        """The settings as the files are now, or were at most `max_age` seconds ago.

        Raises Conflict where the policy cannot be read.
        """
        known = self._by_folder.get(folder)
        if known is not None and time.monotonic() - self._checked_at.get(folder, 0.0) < max_age:
            return known
        return await read_in_thread(self._load_if_stale, folder)

    def _load_if_stale(self, folder: str) -> Settings:
        known = self._by_folder.get(folder)
        self._checked_at[folder] = time.monotonic()
        if known is not None and not is_stale(known, self.places):
            return known
        try:
            settings = load_settings(folder, self.places, known_tools=self._known_tools())
        except BadPolicy as error:
            if known is None:
                raise Conflict(f"The policy file cannot be used, and nothing runs without it: {error}") from None
            logs.log.error("policy_unreadable", reason=str(error))
            return known
        self._by_folder[folder] = settings
        self.limits = settings.limits
        self._by_folder.move_to_end(folder)
        if len(self._by_folder) > _MAX_FOLDERS:
            self._checked_at.pop(self._by_folder.popitem(last=False)[0], None)
        for problem in settings.problems:
            if problem not in self._reported:
                logs.log.warning("settings_problem", where=str(problem))
                self._reported.add(problem)
        return settings

    def may_fire(self, settings: Settings, event: str) -> bool:
        """Whether any hook is declared for an event, trusted or not: enough to know where there is none."""
        events = [*(entry.event for entry in settings.hooks), *(hook.event for hook in self._plugins or ())]
        return event in events

    async def load_hooks(self, settings: Settings, trusted: bool) -> tuple[tuple[Hook, ...], tuple[str, ...]]:
        """The hooks that are in effect, and what is wrong with the others."""
        return await read_in_thread(self._build_hooks, resolve_hooks(settings, trusted))

    def _build_hooks(self, entries: tuple[HookEntry, ...]) -> tuple[tuple[Hook, ...], tuple[str, ...]]:
        hooks, problems = parse_declared_hooks(entries)
        if self._plugins is None:
            self._plugins, broken = load_plugin_hooks()
            for problem in broken:
                logs.log.warning("hook_left_out", reason=problem.message)
        return (*hooks, *self._plugins), problems


def parse_declared_hooks(entries: tuple[HookEntry, ...]) -> tuple[tuple[Hook, ...], tuple[str, ...]]:
    """Hooks as the files have them, and what is wrong with those that cannot be used."""
    files: dict[tuple[Any, str], dict[str, list[dict[str, object]]]] = {}
    for entry in entries:
        groups = files.setdefault((entry.source, entry.file), {}).setdefault(entry.event, [])
        groups.append({"matcher": entry.matcher, "hooks": [dict(entry.hook)]})
    hooks, problems = parse_hooks((events, source, file) for (source, file), events in files.items())
    return hooks, tuple(f"{problem.file or 'a plug-in'}: {problem.path}: {problem.message}" for problem in problems)
