"""What the daemon's configuration says to tools: one frozen object, which is replaced as a whole when it changes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from ostler.protocol.config import Tools, Web
from ostler.tools.services import ShellProfile

SandboxMode = Literal["auto", "on", "required", "off"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a command in the sandbox may use; 0: no limit."""

    memory_mb: int = 0
    processes: int = 0
    """Threads count too, as they do for the kernel."""
    file_mb: int = 0

    @property
    def are_watched(self) -> bool:
        return bool(self.memory_mb or self.processes)


NO_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class Support:
    """Whether the sandbox works on this machine, as the probe found."""

    works: bool
    reason: str
    """Why it does not work and what would mend it; empty where it works."""
    bwrap: str | None = None
    version: str = ""
    user_namespaces: bool = False
    """Whether the kernel's settings let this user make them."""
    as_root: bool = False
    filters: bool = False
    """Whether bwrap loads our seccomp filter here."""


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What the person's configuration says about the sandbox, and what the machine can do."""

    mode: SandboxMode
    support: Callable[[], Support]
    """Found out once, by starting it; blocks the first time."""
    hidden: tuple[str, ...] = ()
    """The daemon's own folders."""
    hosts: tuple[str, ...] = ()
    proxy: str | None = None
    """The socket of the proxy that lets the allowed hosts through."""
    skips_ask_rules: bool = False
    """A command in the workspace's sandbox is not asked about because of an ask rule."""
    unix_sockets: Literal["deny", "allow"] = "deny"
    limits: Limits = NO_LIMITS
    model_may_disable: bool = False
    """The model may ask for a command to run outside of it."""

    def is_wanted(self, *, restricted: bool) -> bool:
        """Whether a command is to run in it, where it works; `restricted`: its text alone allowed it."""
        return self.mode in {"on", "required"} or (restricted and self.mode == "auto")

    @property
    def may_be_left(self) -> bool:
        """Where it is required, nothing runs outside of it, whoever says yes."""
        return self.model_may_disable and self.mode in {"auto", "on"}


@dataclass(frozen=True, slots=True)
class Assistant:
    """Settings of assistant mode: the session runs all day, blocks for nothing long, and wakes up now and then."""

    tick_seconds: float
    """How long it sleeps before a tick wakes it."""
    blocking_ms: int = 15_000
    """How long a command without a limit of its own is waited for before it goes on in the background."""


_DEFAULT_TOOLS: Final = Tools()
_DEFAULT_WEB: Final = Web()


@dataclass(frozen=True, slots=True, eq=False)
class ToolConfig:
    """The configuration as tools see it. Compared by identity: what is made of one object holds as long as that does.

    The daemon makes one of `config.toml`. A tool reads the settings of `[tools]` as `session.config.tools.NAME`.
    """

    tools: Tools = _DEFAULT_TOOLS
    """The section `[tools]` itself, so that a new setting in it needs no line here."""
    web: Web = _DEFAULT_WEB
    """The section `[web]`."""
    search_keys: frozenset[str] = frozenset()
    """The search providers that there is a key for."""
    network_reads: bool = False
    """What needs a socket or the network only to look passes unasked, outside the sandbox."""
    todos: Literal["v1", "v2"] = "v2"
    """Which tools the work list has: `v2`, one item at a time, or `v1`, all at once."""
    assistant: Assistant | None = None
    """Null: sessions are not in assistant mode. Tools read `session.assistant`: an agent never is."""
    sandbox: SandboxSettings | None = None
    """Null: there is no sandbox, as in a program that only uses the tools."""
    profile: ShellProfile | None = None
    """The environment of the person's shell profile; null where commands have only the daemon's own variables."""
    umask: int = 0o022
    """The person's own umask: the daemon's is stricter than what they want for the files of their projects."""
    testing: bool = False
    """Whether tools that exist only for tests are enabled."""


DEFAULT_CONFIG: Final = ToolConfig()
"""That of a program without a daemon."""
