"""Hooks that are HTTP servers: the payload is posted, and what comes back is read like a command's output."""

import re
import ssl
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from ostler.server.hooks.answers import HookFailure, HookOutput, Reply
from ostler.server.hooks.parsing import VARIABLE
from ostler.server.hooks.types import Hook

if TYPE_CHECKING:
    import httpx2

MAX_BYTES: Final = 1024 * 1024


async def post_payload(hook: Hook, payload: bytes, environment: Mapping[str, str]) -> Reply:
    # On a thread, since its first import takes long; and so do certificates.
    client = await anyio.to_thread.run_sync(_create_client, urlsplit(hook.url).scheme == "http")
    import httpx2  # noqa: PLC0415 - most sessions have no such hooks

    try:
        with anyio.fail_after(hook.timeout_seconds):
            headers = _build_headers(hook, environment)
            async with client, client.stream("POST", hook.url, content=payload, headers=headers) as response:
                return await _read_response(response)
    except TimeoutError:
        return HookFailure(f"it took longer than {hook.timeout_seconds:g} s", timed_out=True)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        return HookFailure(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def _create_client(plain: bool) -> "httpx2.AsyncClient":
    """No redirects: the person wrote down who gets to see this.

    Nothing from the environment: a .netrc or a proxy would make it another request than what was written down.
    """
    import httpx2  # noqa: PLC0415

    verify = False if plain else _load_certificates()
    return httpx2.AsyncClient(verify=verify, trust_env=False, follow_redirects=False, timeout=None)


async def _read_response(response: "httpx2.Response") -> Reply:
    if not response.is_success:
        return HookFailure(f"it answered with status {response.status_code}")
    # A few compressed bytes can become gigabytes; it was asked for plain ones.
    if response.headers.get("content-encoding", "identity") != "identity":
        return HookFailure("it answered in an encoding that was not asked for")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_BYTES:
            return HookFailure(f"it answered with more than {MAX_BYTES} bytes")
    return HookOutput(bytes(body).decode("utf-8", "replace"))


def _build_headers(hook: Hook, environment: Mapping[str, str]) -> dict[str, str]:
    def look_up(found: re.Match[str]) -> str:
        return environment.get(found[1] or found[2], "")

    written = {name: VARIABLE.sub(look_up, text) for name, text in hook.headers}
    return {**written, "content-type": "application/json", "accept-encoding": "identity"}


@cache
def _load_certificates() -> ssl.SSLContext:
    """Read once."""
    return ssl.create_default_context()
