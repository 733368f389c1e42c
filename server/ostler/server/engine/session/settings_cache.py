"""The settings of each folder, read when they are first needed and again when a file has changed."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Any, Final

from ostler.protocol.errors import Conflict
from ostler.server.hooks import Hook, parse_hooks, plugin_hooks
from ostler.server.observability import logs
from ostler.server.settings import (
    BadPolicy,
    HookEntry,
    Problem,
    Settings,
    SettingsPlaces,
    acting_hooks,
    is_stale,
    load_settings,
)
from ostler.tools.threads import read_in_thread

_FOLDERS: Final = 256


class SettingsRoom:
    """Shared by all sessions: those of one folder see the same object until one of its files changes."""

    def __init__(self, places: SettingsPlaces, known_tools: Callable[[], Collection[str]]) -> None:
        self.places = places
        self._known_tools = known_tools
        self._by_folder: OrderedDict[str, Settings] = OrderedDict()
        self._looked_at: dict[str, float] = {}
        self._told: set[Problem] = set()
        self._plugins: tuple[Hook, ...] | None = None

    async def of(self, folder: str, *, within: float = 0.0) -> Settings:
        """As the files are now, or were so many seconds ago. Raises Conflict where the policy cannot be read."""
        known = self._by_folder.get(folder)
        if known is not None and time.monotonic() - self._looked_at.get(folder, 0.0) < within:
            return known
        return await read_in_thread(self._looked, folder)

    def _looked(self, folder: str) -> Settings:
        known = self._by_folder.get(folder)
        self._looked_at[folder] = time.monotonic()
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
        self._by_folder.move_to_end(folder)
        if len(self._by_folder) > _FOLDERS:
            self._looked_at.pop(self._by_folder.popitem(last=False)[0], None)
        for problem in settings.problems:
            if problem not in self._told:
                logs.log.warning("settings_problem", where=str(problem))
                self._told.add(problem)
        return settings

    def may_fire(self, settings: Settings, event: str) -> bool:
        """Whether any hook is declared for an event, trusted or not: enough to know where there is none."""
        events = [*(entry.event for entry in settings.hooks), *(hook.event for hook in self._plugins or ())]
        return event in events

    async def hooks(self, settings: Settings, trusted: bool) -> tuple[tuple[Hook, ...], tuple[str, ...]]:
        """The hooks that act, and what is wrong with the others."""
        return await read_in_thread(self._hooks, acting_hooks(settings, trusted))

    def _hooks(self, entries: tuple[HookEntry, ...]) -> tuple[tuple[Hook, ...], tuple[str, ...]]:
        hooks, problems = declared(entries)
        if self._plugins is None:
            self._plugins, broken = plugin_hooks()
            for problem in broken:
                logs.log.warning("hook_left_out", reason=problem.message)
        return (*hooks, *self._plugins), problems


def declared(entries: tuple[HookEntry, ...]) -> tuple[tuple[Hook, ...], tuple[str, ...]]:
    """Hooks as the files have them, and what is wrong with those that cannot be used."""
    files: dict[tuple[Any, str], dict[str, list[dict[str, object]]]] = {}
    for entry in entries:
        of_event = files.setdefault((entry.source, entry.file), {}).setdefault(entry.event, [])
        of_event.append({"matcher": entry.matcher, "hooks": [dict(entry.hook)]})
    hooks, problems = parse_hooks((events, source, file) for (source, file), events in files.items())
    return hooks, tuple(f"{problem.file or 'a plug-in'}: {problem.path}: {problem.message}" for problem in problems)
