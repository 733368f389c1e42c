"""Keys to providers: which providers there are, and how `credentials.json` is read. Standard library only."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal


@dataclass(frozen=True, slots=True)
class KnownProvider:
    """A provider that a key can be kept for."""

    name: str
    variables: tuple[str, ...]
    """The variables of the environment with a key for it; the first that is set counts, before any kept key."""
    serves: Literal["models", "web search"]


PROVIDERS: Final = {
    provider.name: provider
    for provider in (
        KnownProvider("anthropic", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), "models"),
        KnownProvider("brave", ("BRAVE_API_KEY",), "web search"),
        KnownProvider("tavily", ("TAVILY_API_KEY",), "web search"),
        KnownProvider("exa", ("EXA_API_KEY",), "web search"),
    )
}
"""The one table of them: methods, commands, completions and `doctor` read it."""
DEFAULT_PROVIDER: Final = "anthropic"
MAX_CREDENTIALS_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoredKey:
    """An entry of `credentials.json`: a key, or the word that the system's keyring has it."""

    api_key: str | None = field(default=None, repr=False)
    """Null: it is in the keyring."""


class BadCredentials(Exception):
    """The file cannot be used; the message names the file and the place, and has nothing of what stands there."""


def is_usable_key(key: str) -> bool:
    """Whether it could be a key at all: it goes into a header."""
    return bool(key) and key.isascii() and key.isprintable() and not any(char.isspace() for char in key)


def parse_credentials(path: object, content: bytes) -> dict[str, Any]:
    """The file's object, with entries of providers that are not known here, too; raises BadCredentials."""
    try:
        found = json.loads(content.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise BadCredentials(f"{path}:{error.lineno}:{error.colno}: it is not JSON: {error.msg}.") from None
    except (UnicodeDecodeError, RecursionError):
        raise BadCredentials(f"{path}:1:1: it is not JSON in UTF-8.") from None
    if not isinstance(found, dict):
        raise BadCredentials(f"{path}:1:1: it is no object with a provider's name for each key.")
    for name in PROVIDERS:
        if name in found:
            find_stored_key(path, found, name)
    return found


def find_stored_key(path: object, document: dict[str, Any], provider: str) -> StoredKey | None:
    """The entry of a provider; raises BadCredentials where it is none."""
    match document.get(provider):
        case None:
            return None
        case {"api_key": str() as key} if is_usable_key(key.strip()):
            return StoredKey(key.strip())
        case {"keyring": True}:
            return StoredKey()
        case _:
            raise BadCredentials(
                f'{path}: the entry {provider!r} is neither {{"api_key": "…"}} with a key of printable ASCII '
                'characters nor {"keyring": true}.'
            )


def find_variable(provider: str, names: Iterable[str]) -> str | None:
    """The variable that counts, of those that are set."""
    known = set(names)
    return next((name for name in PROVIDERS[provider].variables if name in known), None)
