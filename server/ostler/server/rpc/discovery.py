"""The protocol as an OpenRPC document, built once and off the event loop: it takes a tenth of a second."""

from functools import cache
from typing import Any

import anyio.to_thread


@cache
def _document(url: str) -> dict[str, Any]:
    # Imported here: few clients ask for it.
    from ostler.protocol.generate.openrpc import openrpc_document  # noqa: PLC0415

    return openrpc_document(url)


async def discovery(url: str) -> dict[str, Any]:
    """Of the daemon that is at this address."""
    return await anyio.to_thread.run_sync(_document, url)
