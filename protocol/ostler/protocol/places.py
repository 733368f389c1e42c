"""The folders and files of a daemon (configuration, data, state, socket), by which clients find it too."""

import os
from pathlib import Path
from typing import Final, NamedTuple

_MAX_SOCKET_PATH: Final = 100  # the kernel takes 108 bytes, and a bind mount may add a few

POLICY_FILE: Final = "/etc/ostler/policy.json"
"""What the machine's administrator has decided for everybody on it."""


class Places(NamedTuple):  # not a dataclass: those take 9 ms to import, for which `ostler run` would start later
    """With a home, one folder holds everything; without one, each kind has its XDG folder."""

    config: Path
    data: Path
    state: Path
    runtime: Path

    @property
    def config_file(self) -> Path:
        return self.config / "config.toml"

    @property
    def database(self) -> Path:
        return self.data / "ostler.db"

    @property
    def token_file(self) -> Path:
        return self.data / "token"

    @property
    def credentials_file(self) -> Path:
        return self.data / "credentials.json"

    @property
    def daemon_file(self) -> Path:
        return self.data / "daemon.json"

    @property
    def lock_file(self) -> Path:
        return self.data / "daemon.lock"

    @property
    def port_file(self) -> Path:
        """The port that the last daemon had, also after its end: clients may have kept its address."""
        return self.data / "daemon.port"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def log_file(self) -> Path:
        return self.logs / "ostler.log"

    @property
    def socket(self) -> Path:
        # A runtime folder is shared by all homes of a user: there, the name is this home's own.
        shared = self.runtime != self.data
        path = self.runtime / (f"ostler-{_shorten(self.data)}.sock" if shared else "ostler.sock")
        if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
            return path
        import tempfile  # noqa: PLC0415 - paths are seldom so long

        return Path(tempfile.gettempdir()) / f"ostler-{os.getuid()}" / f"{_shorten(path)}.sock"

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that must be ours alone."""
        return tuple(dict.fromkeys((self.config, self.data, self.state, self.logs, self.socket.parent)))


def find_places(home: str | None = None) -> Places:
    """The places for `home`, else for `OSTLER_HOME`, else the XDG ones."""
    chosen = home or os.environ.get("OSTLER_HOME")
    if chosen:
        folder = Path(os.path.abspath(os.path.expanduser(chosen)))
        return Places(folder, folder, folder, folder)
    # Imported here: whoever has a home folder does not pay for it.
    import warnings  # noqa: PLC0415

    import platformdirs  # noqa: PLC0415

    dirs = platformdirs.PlatformDirs("ostler", appauthor=False)
    with warnings.catch_warnings():
        # Without XDG_RUNTIME_DIR it takes a folder in the temporary one, and says so. Nobody needs to know.
        warnings.simplefilter("ignore")
        runtime = dirs.user_runtime_path
    return Places(dirs.user_config_path, dirs.user_data_path, dirs.user_state_path, runtime)


def _shorten(path: Path) -> str:
    import hashlib  # noqa: PLC0415 - as above

    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
