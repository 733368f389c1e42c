"""What all sessions of a daemon share, put together: tools, settings, the sandbox."""

import os
from collections.abc import Callable
from functools import cache
from typing import Final

from ostler.protocol.config import Config, Sandbox
from ostler.protocol.ids import SessionId
from ostler.protocol.places import Places
from ostler.server.config.configuration import Configuration
from ostler.server.config.private_files import own_folder
from ostler.server.engine.session.live import Rooms
from ostler.server.engine.session.settings_cache import SettingsRoom
from ostler.server.observability import logs
from ostler.server.settings import POLICY, SettingsPlaces
from ostler.tools.context import Assistant, Surroundings
from ostler.tools.registry import Registry
from ostler.tools.sandbox import Support, probe_sandbox
from ostler.tools.sandbox.policy import Sandboxing
from ostler.tools.shell.output.output_file_pool import keep_spares
from ostler.tools.shell.running.profile import ShellProfile

_ALL_ON: Final = frozenset[str]()
_NO_MONITOR: Final = frozenset({"Monitor"})


def make_rooms(places: Places, configuration: Configuration, umask: int, *, testing: bool) -> Rooms:
    output_folder = places.data / "tasks"
    own_folder(output_folder)
    keep_spares(output_folder, places.data / "spare")
    sandbox = SandboxRoom(lambda: configuration.current.sandbox, places)
    profile = ShellProfile(places.data / "shell", lambda why: logs.log.warning("profile_left_out", reason=why))
    rooms = Rooms(
        load_registry=_load_registry,
        home=str(places.data),
        output_folder=output_folder,
        allow_bypass=lambda: configuration.current.permissions.allow_bypass,
        settings=SettingsRoom(settings_places(places), lambda: known_tools(rooms)),
        sandbox=sandbox,
        bash_classifier=lambda: configuration.current.permissions.bash_classifier,
        background=lambda: configuration.current.tools.background,
        profile=lambda: profile if configuration.current.tools.shell_snapshot else None,
        switched_off=lambda: _ALL_ON if configuration.current.tools.monitor else _NO_MONITOR,
        most_files=lambda: configuration.current.tools.glob_files,
        read_tokens=lambda: configuration.current.tools.read_tokens,
        assistant=lambda: _assistant(configuration.current),
        umask=umask,
        testing=testing,
    )
    return rooms


def _assistant(config: Config) -> Assistant | None:
    return Assistant(config.turns.tick_seconds) if config.assistant else None


def settings_places(places: Places) -> SettingsPlaces:
    return SettingsPlaces(str(places.config), os.path.expanduser("~"), POLICY)


def known_tools(rooms: Rooms) -> frozenset[str]:
    """Every name that a rule may speak of."""
    return frozenset(name for tool in rooms.registry.tools for name in (tool.name, *tool.aliases))


class SandboxRoom:
    """The sandbox as the configuration says now: the same object until that changes."""

    def __init__(self, configured: Callable[[], Sandbox], places: Places) -> None:
        self._configured = configured
        self._hidden = tuple(dict.fromkeys(map(str, places.folders)))
        self._known: tuple[Sandbox, str | None, Sandboxing] | None = None
        self.proxy: str | None = None
        """The socket of the proxy, where hosts are allowed and it runs."""

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(self._configured().hosts)

    def __call__(self) -> Sandboxing:
        now = self._configured()
        if self._known is None or self._known[0] is not now or self._known[1] != self.proxy:
            made = Sandboxing(
                now.mode,
                _support,
                self._hidden,
                tuple(now.hosts),
                self.proxy,
                skips_ask_rules=now.skips_ask_rules,
                model_may_disable=now.model_may_disable,
            )
            self._known = (now, self.proxy, made)
        return self._known[2]


@cache
def _support() -> Support:
    support = probe_sandbox()
    if not support.works:
        logs.log.warning("no_sandbox", reason=support.reason)
    return support


def _load_registry() -> Registry:
    # Imported here: the tools are a tenth of the start, and nobody needs them before the first session.
    from ostler.tools.builtin import load_registry  # noqa: PLC0415
    from ostler.tools.shell import bash_policy  # noqa: PLC0415

    registry = load_registry()
    # The first command would load the grammar and the tables on the event loop.
    bash_policy.judge("true", Surroundings(SessionId(""), "/", "/", (), "default"))
    for problem in registry.problems:
        logs.log.warning("tool_left_out", reason=problem)
    return registry
