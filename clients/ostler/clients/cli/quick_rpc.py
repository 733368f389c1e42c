"""One RPC call to a running daemon, with the standard library alone: for what must be fast, or must start none."""

import json
from typing import Any

from ostler.clients.sdk.address import find_address
from ostler.clients.sdk.errors import ClientError
from ostler.clients.sdk.probe import PROBE_SECONDS, exchange
from ostler.protocol.places import Places


def call(places: Places, method: str, params: dict[str, Any], seconds: float = PROBE_SECONDS) -> dict[str, Any]:
    """The result; empty where nobody answers, or the answer is not a result."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    try:
        _, body = exchange(find_address(places), "POST", "/rpc", json.dumps(request).encode(), seconds=seconds)
        result = json.loads(body)["result"]
    except (ClientError, OSError, ValueError, LookupError, TypeError):
        return {}
    return result if isinstance(result, dict) else {}
