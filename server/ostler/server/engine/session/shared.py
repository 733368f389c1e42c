"""What all sessions of a daemon share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ostler.server.clients.client_tools import ClientCalls
from ostler.server.engine.session.settings_cache import SettingsRoom
from ostler.tools.context import Assistant
from ostler.tools.registry import Registry
from ostler.tools.sandbox.policy import Sandboxing
from ostler.tools.shell.running.profile import ShellProfile


class SandboxKeeper(Protocol):
    """Knows the sandbox as the configuration says now."""

    proxy: str | None
    """The socket of the proxy that lets the allowed hosts through, while it runs."""

    @property
    def hosts(self) -> tuple[str, ...]: ...
    def __call__(self) -> Sandboxing: ...


@dataclass(slots=True)
class Rooms:
    """What all sessions of a daemon share."""

    load_registry: Callable[[], Registry]
    """The tools are loaded when they are first needed, so that the start does not wait for them."""
    home: str
    output_folder: Path
    allow_bypass: Callable[[], bool]
    """Whether sessions may be in mode bypassPermissions now."""
    settings: SettingsRoom
    sandbox: SandboxKeeper
    bash_classifier: Callable[[], bool]
    umask: int = 0o022
    """The person's own: the daemon's is stricter, and commands are not to make a project's files private."""
    testing: bool = False
    client_calls: ClientCalls | None = None
    """The way to the tools that clients provide."""
    switched_off: Callable[[], frozenset[str]] = frozenset
    """Tools that the configuration has switched off."""
    background: Callable[[], bool] = lambda: True
    """Whether commands may go on behind their calls."""
    profile: Callable[[], ShellProfile | None] = lambda: None
    """The person's profile, where commands are to have what it sets."""
    most_files: Callable[[], int] = lambda: 100
    """How many files Glob lists."""
    read_tokens: Callable[[], int] = lambda: 25_000
    """How much Read shows."""
    assistant: Callable[[], Assistant | None] = lambda: None
    """How sessions behave in assistant mode, where it is on."""
    _registry: Registry | None = None

    @property
    def registry(self) -> Registry:
        if self._registry is None:
            self._registry = self.load_registry()
        return self._registry

    @property
    def aliases(self) -> Mapping[str, str]:
        """Old names of tools, and what they are called now."""
        return {alias: tool.name for tool in self.registry.tools for alias in tool.aliases}
