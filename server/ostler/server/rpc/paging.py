"""Page tokens: opaque for clients, bound to the list they came from."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, TypeVar

import orjson

from ostler.protocol.errors import InvalidParams
from ostler.protocol.wire import Params

T = TypeVar("T")


def _question(method: str, params: Params) -> str:
    """What was asked, without how much of it: a token fits only the same question."""
    asked = params.model_dump(mode="json", exclude={"limit", "page"})
    return orjson.dumps([method, asked], option=orjson.OPT_SORT_KEYS).hex()


def page_token(method: str, params: Params, position: list[Any]) -> str:
    digest = binascii.crc32(_question(method, params).encode())
    return base64.urlsafe_b64encode(orjson.dumps([digest, *position])).decode().rstrip("=")


def page_by_place(method: str, params: Any, entries: Sequence[T]) -> tuple[list[T], str | None]:
    """A page of a list that is at hand as a whole and has its own order, and the token of the next."""
    after = page_position(method, params, params.page, (int,))
    start = after[0] if after else 0
    end = start + params.limit
    return list(entries[start:end]), page_token(method, params, [end]) if end < len(entries) else None


def page_position(method: str, params: Params, token: str | None, kinds: tuple[type, ...]) -> list[Any] | None:
    """The place that a token stands for; an error for one from elsewhere."""
    if token is None:
        return None
    try:
        digest, *position = orjson.loads(base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True))
    except (ValueError, TypeError):
        raise InvalidParams.of("page", "is no page token; use the `next` of the page before") from None
    # The digest is no secret: whoever makes a token up gets an error, not one of ours.
    fits = tuple(map(type, position)) == kinds and all(type(one) is not int or 0 <= one < 2**63 for one in position)
    if digest != binascii.crc32(_question(method, params).encode()) or not fits:
        raise InvalidParams.of("page", "belongs to another list; use the `next` of the page before")
    return list(position)
