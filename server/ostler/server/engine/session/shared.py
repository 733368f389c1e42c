"""The services and configuration that all sessions of a daemon share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ostler.server.clients.client_tools import ClientTools
from ostler.server.engine.session.settings_cache import SettingsCache
from ostler.tools.context import Assistant
from ostler.tools.registry import Registry
from ostler.tools.sandbox.policy import SandboxSettings
from ostler.tools.shell.running.profile import ShellProfile


class CurrentSandbox(Protocol):
    """The sandbox settings of the current configuration, and the address of its proxy."""

    proxy: str | None
    """The socket of the proxy that lets the allowed hosts through, while it runs."""

    @property
    def hosts(self) -> tuple[str, ...]: ...
    def __call__(self) -> SandboxSettings: ...


@dataclass(slots=True)
class SharedServices:
    """The services and configuration that all sessions of a daemon share. Callables give the current value."""

    load_registry: Callable[[], Registry]
    """The tools are loaded when they are first needed, so that the start does not wait for them."""
    home: str
    output_folder: Path
    allow_bypass: Callable[[], bool]
    """Whether sessions may be in mode bypassPermissions now."""
    settings: SettingsCache
    sandbox: CurrentSandbox
    bash_classifier: Callable[[], bool]
    network_reads: Callable[[], bool] = lambda: False
    """Whether commands that need the network only to look pass unasked."""
    umask: int = 0o022
    """The user's own: the daemon's is stricter, and commands must not make a project's files private."""
    testing: bool = False
    client_calls: ClientTools | None = None
    """Calls the tools that clients provide."""
    switched_off: Callable[[], frozenset[str]] = frozenset
    """Tools that the configuration has switched off."""
    background: Callable[[], bool] = lambda: True
    """Whether commands may go on in the background."""
    profile: Callable[[], ShellProfile | None] = lambda: None
    """The user's shell profile, where commands run with what it sets."""
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
