"""The handlers of the auth methods: set, status, remove. A key comes in here, and never goes out again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from ostler.protocol.auth import AuthRemove, AuthSet, AuthState, AuthStatus, KeyState
from ostler.protocol.credentials import PROVIDERS, BadCredentials, is_usable_key
from ostler.protocol.errors import Conflict, InvalidParams, StorageFailed
from ostler.server.config.configuration import Configuration
from ostler.server.config.credentials import Credentials, KeyringFailed
from ostler.server.observability import logs

T = TypeVar("T")

_KEYRING_SECONDS: Final = 30
"""A keyring may ask a person for its password first."""


@dataclass(frozen=True, slots=True)
class AuthMethods:
    credentials: Credentials
    configuration: Configuration

    async def set(self, params: AuthSet) -> AuthState:
        provider, key = _check_provider(params.provider), params.api_key.strip()
        if not is_usable_key(key):
            raise InvalidParams.of("api_key", "must be printable ASCII without spaces")
        await self._change(lambda: self.credentials.keep(provider, key, params.store))
        logs.log.info("key_kept", provider=provider, store=params.store)
        return self._describe([provider])

    async def status(self, params: AuthStatus) -> AuthState:
        await self.credentials.refresh()
        return self._describe(list(PROVIDERS) if params.provider is None else [_check_provider(params.provider)])

    async def remove(self, params: AuthRemove) -> AuthState:
        provider = _check_provider(params.provider)
        if not await self._change(lambda: self.credentials.forget(provider)):
            raise Conflict(f"No key of {provider} is kept in {self.credentials.path}.")
        logs.log.info("key_forgotten", provider=provider)
        return self._describe([provider])

    async def _change(self, change: Callable[[], T]) -> T:
        try:
            with anyio.fail_after(_KEYRING_SECONDS):
                return await anyio.to_thread.run_sync(change, abandon_on_cancel=True)
        except BadCredentials as error:
            raise Conflict(f"{error} It is left as it is: mend it, or move it away.") from None
        except KeyringFailed as error:
            raise Conflict(str(error)) from None
        except TimeoutError:
            raise Conflict(f"The system's keyring has not answered for {_KEYRING_SECONDS} s.") from None
        except OSError as error:
            raise StorageFailed(f"{self.credentials.path} could not be written: {error.strerror}.") from None

    def _describe(self, providers: list[str]) -> AuthState:
        return AuthState(
            keys=[_describe_key(self.credentials, provider) for provider in providers],
            path=str(self.credentials.path),
            model=self.configuration.default_model,
        )


def _check_provider(name: str) -> str:
    if name not in PROVIDERS:
        # Not what was given: somebody may have put the key there.
        raise InvalidParams.of("provider", f"must be one of {', '.join(PROVIDERS)}")
    return name


def _describe_key(credentials: Credentials, provider: str) -> KeyState:
    variable = credentials.find_variable(provider)
    problem = None
    stored = None
    try:
        if found := credentials.find_stored(provider):
            stored = "keyring" if found.api_key is None else "file"
    except BadCredentials as error:
        problem = str(error)
    return KeyState.model_validate(
        {
            "provider": provider,
            "serves": PROVIDERS[provider].serves,
            "source": stored if variable is None else "environment",
            "variable": variable,
            "stored": stored,
            "problem": problem,
        }
    )
