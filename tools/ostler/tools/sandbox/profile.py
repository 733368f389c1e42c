"""The sandbox profile: what a command may see, write and reach."""

import os
from dataclasses import dataclass, field
from typing import Literal

from ostler.tools.fs import paths
from ostler.tools.tool_config import NO_LIMITS, Limits


class NotProtectable(Exception):
    """A protected name cannot be kept from the command, so that it must not run in the sandbox.

    The message says which one, and why.
    """


@dataclass(frozen=True, slots=True)
class Profile:
    """What a sandboxed command may do."""

    kind: Literal["read_only", "workspace"]
    roots: tuple[str, ...]
    """The session's folders, by their real paths: one that leads elsewhere was replaced, and is refused."""
    folder: str
    """Where it starts."""
    hidden: tuple[str, ...] = ()
    """The daemon's own folders: home, runtime and data."""
    network: Literal["none"] | tuple[str, ...] = "none"
    """The hosts that it may reach, through the proxy."""
    proxy: str | None = None
    """The proxy's socket, where hosts are allowed."""
    own_files: tuple[str, ...] = ()
    """Files of the call itself, which it writes wherever they are. They exist."""
    shown_files: tuple[str, ...] = ()
    """Files and folders that it may read wherever they are. They exist."""
    protected: tuple[str, ...] = ()
    """Further existing paths inside the roots that stay as they are: what `find_guarded` found."""
    git_writes: bool = False
    """It runs git, which may write in the repositories of its roots what git writes."""
    git_folder: str | None = None
    """Of a root that is a worktree: the git folder of its repository, which is among `shown_files`."""
    home: str = field(default_factory=lambda: os.path.expanduser("~"))
    """The person's."""
    unix_sockets: Literal["deny", "allow"] = "deny"
    """Whether it may make Unix sockets, of which those outside are covered; pairs it may always make."""

    limits: Limits = NO_LIMITS

    @property
    def uses_forwarder(self) -> bool:
        """Whether the first process in the sandbox forwards connections to the proxy."""
        return self.network != "none" and self.proxy is not None

    @property
    def starts_with_sockets(self) -> bool:
        """Whether the first process may make Unix sockets: the forwarder may, and shuts the command in itself."""
        return self.unix_sockets == "allow" or self.uses_forwarder


def require_real_path(path: str) -> str:
    """The path itself; raises NotProtectable where it, or a folder above it, is a link: its target would be opened."""
    written = paths.normalize_path(path)
    if paths.resolve_path(path) != written:
        raise NotProtectable(f"{written!r} is not a real path: it leads to {paths.resolve_path(path)!r}.")
    return written
