"""Keys to providers on the wire: they come in, and never go out again."""

from typing import Annotated, Literal

from pydantic import Field

from ostler.protocol.wire import Name, Params, Shape

KeyText = Annotated[str, Field(min_length=1, max_length=10_000)]


class AuthSet(Params):
    """A key to keep."""

    provider: Name
    """Whose key: `anthropic`, `brave`, `tavily` or `exa`."""
    api_key: KeyText
    """The key: printable ASCII without spaces. It is never given back, logged, or part of an error."""
    store: Literal["file", "keyring"] = "file"
    """Where to keep it: in `credentials.json`, which only its owner can read, or in the system's keyring."""


class AuthStatus(Params):
    """Which keys to tell about."""

    provider: Name | None = None
    """Null: all providers."""


class AuthRemove(Params):
    """A key to forget."""

    provider: Name
    """Whose key."""


class KeyState(Shape):
    """Whether there is a key for a provider, and where it is from."""

    provider: str
    """Whose key."""
    serves: Literal["models", "web search"]
    """What the key is for."""
    source: Literal["environment", "file", "keyring"] | None
    """The key that is used: the environment's before a kept one. Null: there is none."""
    variable: str | None = None
    """The variable of the daemon's environment that has it."""
    stored: Literal["file", "keyring"] | None = None
    """Where a key is kept, used or not."""
    problem: str | None = None
    """Why the kept key cannot be used."""


class AuthState(Shape):
    """The keys of the daemon, without the keys."""

    keys: list[KeyState]
    """One for each provider."""
    path: str
    """The file in which keys are kept."""
    model: str
    """The model of new sessions, as it follows from the keys."""
