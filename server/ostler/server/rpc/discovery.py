"""The protocol as an OpenRPC document, built once and off the event loop: it takes a tenth of a second."""

from functools import cache
from typing import Any

import anyio.to_thread


@cache
def _build_document(url: str) -> dict[str, Any]:
    # Imported here: few clients ask for it.
    from ostler.protocol.generate.openrpc import build_openrpc  # noqa: PLC0415

    return build_openrpc(url)


async def load_openrpc(url: str) -> dict[str, Any]:
    """The OpenRPC document of the daemon at this address."""
    return await anyio.to_thread.run_sync(_build_document, url)
