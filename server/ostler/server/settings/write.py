"""Writes rules into settings files: remembered answers, and what `rule/add` and `rule/remove` say.

A rule that ends is listed under `permissions.expires`, its text and the time: the lists themselves stay as everybody
knows them.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from ostler.server.settings.git_exclude import exclude_from_git
from ostler.server.settings.json_positions import BadJson, parse
from ostler.server.settings.locations import SettingsPlaces, find_repository
from ostler.server.settings.rule_lists import BEHAVIORS, parse_expiry
from ostler.server.settings.safe_read import Unreadable, read_bytes
from ostler.server.settings.types import Behavior
from ostler.tools.fs import atomic_write
from ostler.tools.fs.paths import is_inside
from ostler.tools.permissions import BadRule, parse_rule

_WAIT_S: Final = 5.0
_STEP_S: Final = 0.02


class CannotWrite(Exception):
    """The rule was not written; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A settings file of our own that rules can be written to."""

    file: str
    root: str
    """The folder that the file may not be led out of by a link."""
    umask: int
    repository: str | None = None
    """Set where the file is to stay out of git."""


def resolve_destination(
    scope: Literal["local", "project", "user"], folder: str, places: SettingsPlaces, umask: int = 0o022
) -> Destination:
    """Where an answer with this scope is remembered: in a repository, at its root; never in `.claude`."""
    if scope == "user":
        return Destination(os.path.join(places.home, "settings.json"), places.home, 0o077)
    repository = find_repository(folder)
    root = repository or folder
    name = "settings.local.json" if scope == "local" else "settings.json"
    return Destination(os.path.join(root, ".ostler", name), root, umask, repository if scope == "local" else None)


def add_rule(to: Destination, behavior: Behavior, text: str, expires_at: str | None = None) -> bool:
    """Writes the rule, the rest of the file as it is; False where it was there already. Blocks."""
    rule = _check_rule(text)
    until = parse_expiry(expires_at)
    if expires_at is not None and until is None:
        raise CannotWrite(f"{expires_at!r} is no time with a zone, as in 2026-12-31T18:00:00Z.")
    return _change_file(to, _resolve_file(to), lambda settings: _add(settings, behavior, rule, until))


def check_addition(to: Destination, behavior: Behavior, text: str) -> None:
    """Raises CannotWrite where `add_rule` would, as far as that can be told without writing. Blocks."""
    file = _resolve_file(to)
    _add(_read_settings(file)[1], behavior, _check_rule(text), None)
    folder = os.path.dirname(file)
    above = folder if os.path.lexists(folder) else os.path.dirname(folder)
    if not os.path.isdir(above) or not os.access(above, os.W_OK | os.X_OK):
        raise CannotWrite(f"{to.file} could not be written: {above} is no folder that can be written to.")


def _add(settings: dict[str, Any], behavior: Behavior, rule: str, until: str | None) -> bool:
    """True where that changes anything."""
    permissions = _get_part(settings, "permissions", dict)
    rules = _get_part(permissions, behavior, list)
    before = (rule in rules, _get_expiries(permissions).get(rule))
    if rule not in rules:
        rules.append(rule)
    if until:
        _get_part(permissions, "expires", dict)[rule] = until
    else:
        _forget_expiry(permissions, rule)
    return before != (True, until)


def remove_rule(to: Destination, behavior: Behavior, text: str) -> bool:
    """Removes the rule, whatever spaces are around it; False where it was not there. Blocks."""
    wanted = text.strip()

    def change(settings: dict[str, Any]) -> bool:
        permissions = _get_part(settings, "permissions", dict)
        rules = _get_part(permissions, behavior, list)
        kept = [each for each in rules if not (isinstance(each, str) and each.strip() == wanted)]
        found = len(kept) < len(rules)
        rules[:] = kept
        if not any(wanted in _get_part(permissions, other, list, keep=False) for other in BEHAVIORS):
            _forget_expiry(permissions, wanted)
        return found

    file = _resolve_file(to)
    return os.path.lexists(file) and _change_file(to, file, change)


def resolve_server_destination(
    scope: Literal["local", "project", "user"], folder: str, places: SettingsPlaces, umask: int = 0o022
) -> tuple[Destination, str]:
    """The file that entries of MCP servers are written to, and the key that they stand under."""
    if scope == "project":
        root = find_repository(folder) or folder
        return Destination(os.path.join(root, ".mcp.json"), root, umask), "mcpServers"
    return resolve_destination(scope, folder, places, umask), "mcp_servers"


def add_server(to: Destination, key: str, name: str, entry: dict[str, Any]) -> bool:
    """Writes an entry, in the place of one of the same name; false where it is there already. Blocks."""

    def change(settings: dict[str, Any]) -> bool:
        servers = _get_part(settings, key, dict)
        changed: bool = servers.get(name) != entry
        servers[name] = entry
        return changed

    return _change_file(to, _resolve_file(to), change)


def remove_server(to: Destination, key: str, name: str) -> bool:
    """Takes an entry out; false where there is none. Blocks."""

    def change(settings: dict[str, Any]) -> bool:
        return _get_part(settings, key, dict, keep=False).pop(name, None) is not None

    file = _resolve_file(to)
    return os.path.lexists(file) and _change_file(to, file, change)


def _check_rule(text: str) -> str:
    try:
        return parse_rule(text).text
    except BadRule as error:
        raise CannotWrite(error.message) from None


def _get_part(around: dict[str, Any], key: str, kind: type[Any], *, keep: bool = True) -> Any:
    """A part of the settings, made where it is missing."""
    found = around.setdefault(key, kind()) if keep else around.get(key, kind())
    if not isinstance(found, kind):
        raise CannotWrite(f"{key} is not what it should be in the file. Mend it first.")
    return found


def _forget_expiry(permissions: dict[str, Any], rule: str) -> None:
    expires = _get_expiries(permissions)
    if expires.pop(rule, None) is not None and not expires:
        del permissions["expires"]


def _get_expiries(permissions: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = _get_part(permissions, "expires", dict, keep=False)
    return found


def _change_file(to: Destination, file: str, change: Callable[[dict[str, Any]], bool]) -> bool:
    try:
        with _lock_folder(os.path.dirname(file), to):
            text, settings = _read_settings(file)
            changed = change(settings)
            if changed:
                # Before the file is there: not even for a moment it is to look like something to commit.
                if to.repository:
                    exclude_from_git(to.repository, os.path.relpath(file, to.repository), to.umask)
                atomic_write.save(file, _encode_settings(settings, text), to.umask)
            return changed
    except (OSError, atomic_write.PathChanged) as error:
        raise CannotWrite(f"{to.file} could not be written: {error}") from None


def _resolve_file(to: Destination) -> str:
    """The file with its folder's links followed: they may not lead out, nor to another product's settings."""
    real, root = os.path.realpath(to.file), os.path.realpath(to.root)
    if not is_inside(real, root):
        raise CannotWrite(f"{to.file} leads out of {to.root} through a link, to {real}.")
    if ".claude" in os.path.relpath(real, root).casefold().split("/"):
        raise CannotWrite(f"{to.file} leads to {real}, which is another product's.")
    return real


@contextlib.contextmanager
def _lock_folder(folder: str, to: Destination) -> Iterator[None]:
    """Only one daemon changes settings in this folder; the folder itself is locked, so that no lock file is left."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
        # The daemon's own mask is stricter than what the person wants for their projects.
        os.chmod(folder, 0o777 & ~to.umask)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _acquire_lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _acquire_lock(descriptor: int, folder: str) -> None:
    end = time.monotonic() + _WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise CannotWrite(f"Somebody else is changing the settings in {folder}. Try again.") from None
            time.sleep(_STEP_S)
        except OSError as error:
            # Some network file systems cannot lock a folder. What is written is whole all the same.
            if error.errno not in {errno.EBADF, errno.ENOLCK, errno.EINVAL, errno.EOPNOTSUPP}:
                raise
            return


def _read_settings(file: str) -> tuple[str, dict[str, Any]]:
    try:
        data = read_bytes(file)
        text, settings = parse(data) if data is not None else ("", {})
    except Unreadable as error:
        raise CannotWrite(f"{file}: {error}") from None
    except BadJson as error:
        raise CannotWrite(f"{file}:{error.line}:{error.column}: {error.message} Mend it first.") from None
    if not isinstance(settings, dict):
        raise CannotWrite(f"{file}: settings are an object. Mend it first.")
    return text, settings


def _encode_settings(settings: dict[str, Any], before: str) -> bytes:
    """The settings as JSON, indented as the file was."""
    found = re.search(r"\n([ \t]+)\"", before)
    return (json.dumps(settings, indent=found[1] if found else 2, ensure_ascii=False) + "\n").encode()
