"""The services and configuration that all sessions of a daemon share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ostler.protocol.config import Permissions
from ostler.protocol.ids import SessionId
from ostler.server.clients.client_tools import ClientTools
from ostler.server.engine.session.settings_cache import SettingsCache
from ostler.tools.registry import Registry
from ostler.tools.tool_config import SandboxSettings, ToolConfig


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
    settings: SettingsCache
    sandbox: CurrentSandbox
    permissions: Callable[[], Permissions]
    """The section `[permissions]` of the configuration."""
    config: Callable[[], ToolConfig]
    """What it says to tools: the same object until it changes."""
    search_key: Callable[[str], str | None]
    """The key of a search provider. Raises BadCredentials or KeyringFailed; blocks."""
    umask: int = 0o022
    """The user's own: the daemon's is stricter, and commands must not make a project's files private."""
    client_calls: ClientTools | None = None
    """Calls the tools that clients provide."""
    has_answering_client: Callable[[SessionId], bool] = lambda session_id: False
    """Whether a client is attached to a session in which a person can answer."""
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
