"""The keys to providers: the environment's first, then those that a person has kept, in a file or in the keyring."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import anyio.to_thread

from ostler.protocol.credentials import (
    MAX_CREDENTIALS_BYTES,
    PROVIDERS,
    BadCredentials,
    StoredKey,
    find_stored_key,
    find_variable,
    parse_credentials,
)
from ostler.server.config.private_files import UnsafeFile, check_private_file, write_atomically

Fingerprint = tuple[int, ...]
_KEYRING_SERVICE: Final = "ostler"


class KeyringFailed(Exception):
    """The system's keyring did not do it; the message says why, and nothing of the key."""


@dataclass(frozen=True, slots=True)
class KeyInUse:
    """Where the key of a provider is from; the key itself, unless the keyring has to be asked for it."""

    source: Literal["environment", "file", "keyring"]
    variable: str | None = None
    stored: StoredKey | None = None


class Credentials:
    """What `credentials.json` held when it was last looked at: before a turn, and before a session that is created."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self.path = path
        self._environ = environ
        self._fingerprint: Fingerprint | None = None
        self._document: dict[str, Any] = {}
        self._problem: str | None = None
        self._changes = 0
        self._looked_at = float("-inf")

    @property
    def version(self) -> int:
        """Another number whenever the file holds something else than before."""
        return self._changes

    @property
    def problem(self) -> str | None:
        """Why nothing in the file counts."""
        return self._problem

    async def refresh(self, max_age: float = 0.0) -> None:
        """Look whether the file has changed, by us or by hand, unless somebody has looked so many seconds ago."""
        if time.monotonic() - self._looked_at >= max_age:
            await anyio.to_thread.run_sync(self.read)

    def find(self, provider: str) -> KeyInUse | None:
        """Where the key is from that is used; raises BadCredentials where the file would have to say, and cannot."""
        variable = self.find_variable(provider)
        if variable is not None:
            return KeyInUse("environment", variable)
        stored = self.find_stored(provider)
        if stored is None:
            return None
        return KeyInUse("keyring" if stored.api_key is None else "file", stored=stored)

    def find_variable(self, provider: str) -> str | None:
        names = PROVIDERS[provider].variables
        return find_variable(provider, (name for name in names if self._environ.get(name, "").strip()))

    def find_stored(self, provider: str) -> StoredKey | None:
        """Raises BadCredentials."""
        if problem := self.problem:
            raise BadCredentials(problem)
        return find_stored_key(self.path, self._document, provider)

    def has_key(self, provider: str) -> bool:
        """Also where the file is broken: a session must not get another model because of that, and say nothing."""
        return self.find_variable(provider) is not None or self.problem is not None or provider in self._document

    def keep(self, provider: str, api_key: str, store: Literal["file", "keyring"]) -> None:
        """Keep a key in the place of the one before. Raises BadCredentials, KeyringFailed or OSError; blocks."""
        self.read()
        before = self.find_stored(provider)
        if store == "keyring":
            _Keyring(self.path).set(provider, api_key)
        entry: dict[str, Any] = {"api_key": api_key} if store == "file" else {"keyring": True}
        self._write({**self._document, provider: entry})
        if store == "file" and before is not None and before.api_key is None:
            _Keyring(self.path).remove(provider)

    def forget(self, provider: str) -> bool:
        """Whether there was one. Raises BadCredentials, KeyringFailed or OSError; blocks."""
        self.read()
        stored = self.find_stored(provider)
        if stored is None:
            return False
        if stored.api_key is None:
            _Keyring(self.path).remove(provider)
        self._write({name: entry for name, entry in self._document.items() if name != provider})
        return True

    def read_key(self, provider: str) -> str | None:
        """The key that is used. Raises BadCredentials or KeyringFailed; blocks."""
        used = self.find(provider)
        if used is None:
            return None
        if used.variable is not None:
            return self._environ[used.variable].strip()
        kept = used.stored.api_key if used.stored is not None else None
        return kept or self.fetch_from_keyring(provider)

    def fetch_from_keyring(self, provider: str) -> str:
        """Raises KeyringFailed; blocks, perhaps until a person has unlocked it."""
        return _Keyring(self.path).get(provider)

    def _write(self, document: dict[str, Any]) -> None:
        write_atomically(self.path, json.dumps(document, indent=2).encode() + b"\n", mode=0o600)
        self.read()

    def read(self) -> None:
        """Read the file, where it is another one than before; blocks."""
        self._looked_at = time.monotonic()
        fingerprint = _take_fingerprint(self.path)
        if fingerprint == self._fingerprint:
            return
        self._fingerprint, self._document, self._problem = fingerprint, {}, None
        self._changes += 1
        if fingerprint is None:
            return
        try:
            self._document = _read_document(self.path)
        except (BadCredentials, UnsafeFile) as error:
            self._problem = str(error)
        except OSError as error:
            self._problem = f"{self.path} cannot be read: {error.strerror}."


def _take_fingerprint(path: Path) -> Fingerprint | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    except OSError:
        return ()
    return (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_mode, found.st_uid)


def _read_document(path: Path) -> dict[str, Any]:
    check_private_file(path)
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        content = file.read(MAX_CREDENTIALS_BYTES + 1)
    if len(content) > MAX_CREDENTIALS_BYTES:
        raise BadCredentials(f"{path} has more than {MAX_CREDENTIALS_BYTES:,} bytes, and is no list of keys.")
    return parse_credentials(path, content)


class _Keyring:
    """The system's keyring, by the package `keyring`, which is an optional extra."""

    def __init__(self, path: Path) -> None:
        self._service = f"{_KEYRING_SERVICE} {path.parent}"
        """Two homes of one user have keys of their own."""

    def get(self, provider: str) -> str:
        key: str | None = self._call("get_password", provider)
        if not key:
            raise KeyringFailed(
                f"The system's keyring has no key of {provider} any more. `ostler auth login {provider} --keyring` "
                "keeps one again."
            )
        return key

    def set(self, provider: str, api_key: str) -> None:
        self._call("set_password", provider, api_key)

    def remove(self, provider: str) -> None:
        try:
            self._call("delete_password", provider)
        except KeyringFailed:
            # One that was deleted by other means is gone, too; everything else is told.
            if self._call("get_password", provider) is not None:
                raise

    def _call(self, function: str, *arguments: str) -> Any:
        # Imported here: it is an optional extra, and only who asks for it waits for it.
        try:
            import keyring  # noqa: PLC0415
            import keyring.errors  # noqa: PLC0415
        except ImportError:
            raise KeyringFailed(
                "The package `keyring` is not installed beside the daemon: install `ostler[keyring]`, or keep the key "
                "in the file, without --keyring."
            ) from None
        try:
            return getattr(keyring, function)(self._service, *arguments)
        except keyring.errors.NoKeyringError:
            raise KeyringFailed(
                "There is no keyring on this system that the daemon can use. Keep the key in the file, without "
                "--keyring."
            ) from None
        except Exception as error:  # noqa: BLE001 - backends raise whatever their system does
            # Not its text: a backend may put into it what it was given.
            raise KeyringFailed(f"The system's keyring has refused ({type(error).__name__}).") from None
