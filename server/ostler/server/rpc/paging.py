"""Page tokens: opaque for clients, bound to the list they came from."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, TypeVar

import orjson

from ostler.protocol.errors import InvalidParams
from ostler.protocol.wire import Params

T = TypeVar("T")


def _encode_query(method: str, params: Params) -> str:
    """The query without its limit and page: a token is only valid for the same query."""
    asked = params.model_dump(mode="json", exclude={"limit", "page"})
    return orjson.dumps([method, asked], option=orjson.OPT_SORT_KEYS).hex()


def make_page_token(method: str, params: Params, position: list[Any]) -> str:
    digest = binascii.crc32(_encode_query(method, params).encode())
    return base64.urlsafe_b64encode(orjson.dumps([digest, *position])).decode().rstrip("=")


def paginate_list(method: str, params: Any, entries: Sequence[T]) -> tuple[list[T], str | None]:
    """A page of a list in memory, by index, and the token of the next page."""
    after = parse_page_token(method, params, params.page, (int,))
    start = after[0] if after else 0
    end = start + params.limit
    return list(entries[start:end]), make_page_token(method, params, [end]) if end < len(entries) else None


def parse_page_token(method: str, params: Params, token: str | None, kinds: tuple[type, ...]) -> list[Any] | None:
    """The position that a token stands for; an error for a token of another list."""
    if token is None:
        return None
    try:
        digest, *position = orjson.loads(base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True))
    except (ValueError, TypeError):
        raise InvalidParams.of("page", "is no page token; use the `next` of the page before") from None
    # The digest is no secret, so a token can be made up: checking its types keeps that from being an internal error.
    fits = tuple(map(type, position)) == kinds and all(type(one) is not int or 0 <= one < 2**63 for one in position)
    if digest != binascii.crc32(_encode_query(method, params).encode()) or not fits:
        raise InvalidParams.of("page", "belongs to another list; use the `next` of the page before")
    return list(position)
