"""Downloads one page: bounded in bytes, time and redirects, and never from another host than it was allowed for."""

import asyncio
import re
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Final

import httpcore2

from ostler.tools.fs.text_file import format_size
from ostler.tools.web.connections import Resolve, open_pool, resolve_host
from ostler.tools.web.page import Page, PageUnavailable
from ostler.tools.web.url_policy import AllowedAddresses, BadUrl, Url, resolve_redirect

MAX_BYTES: Final = 10 * 1024 * 1024
MAX_REDIRECTS: Final = 10
SECONDS: Final = 60.0
"""For all of it, redirects included."""
_CONNECT_SECONDS: Final = 15.0
_READ_SECONDS: Final = 30.0
_PIECE: Final = 256 * 1024
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_ACCEPTED: Final = "text/markdown, text/html;q=0.9, text/*;q=0.8, */*;q=0.5"
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:+-]{1,40})", re.IGNORECASE)


async def download(
    url: Url, allowed: AllowedAddresses, *, resolve: Resolve = resolve_host, max_bytes: int = MAX_BYTES
) -> Page:
    """Raises PageUnavailable."""
    try:
        async with asyncio.timeout(SECONDS):
            return await _follow(url, allowed, resolve, max_bytes)
    except TimeoutError:
        raise PageUnavailable(f"{url.host} took longer than {SECONDS:g} s to answer.") from None


async def _follow(url: Url, allowed: AllowedAddresses, resolve: Resolve, max_bytes: int) -> Page:
    seen = {str(url)}
    for _ in range(MAX_REDIRECTS + 1):
        page, location = await _request(url, allowed, resolve, max_bytes)
        if location is None:
            return page
        try:
            target = resolve_redirect(url, location)
        except BadUrl as error:
            raise PageUnavailable(str(error)) from None
        if target.host != url.host:
            return Page(url, page.code, page.reason, page.media_type, page.charset, b"", target)
        if str(target) in seen:
            raise PageUnavailable(f"{url} redirects in a circle.")
        seen.add(str(target))
        url = target
    raise PageUnavailable(f"{url} redirects more than {MAX_REDIRECTS} times.")


async def _request(url: Url, allowed: AllowedAddresses, resolve: Resolve, max_bytes: int) -> tuple[Page, str | None]:
    """The page at one address, or where it redirects to."""
    headers: dict[bytes | str, bytes | str] = {
        "User-Agent": name_ourselves(),
        "Accept": _ACCEPTED,
        "Accept-Encoding": "gzip, deflate",
    }
    async with open_response(url, allowed, headers, resolve=resolve) as response:
        return await _read_response(url, response, max_bytes)


@asynccontextmanager
async def open_response(
    url: Url,
    allowed: AllowedAddresses,
    headers: Mapping[bytes | str, bytes | str],
    *,
    resolve: Resolve = resolve_host,
    content: bytes | None = None,
) -> AsyncGenerator[httpcore2.Response]:
    """What a site answers to one request: a GET, or with content a POST. What goes wrong raises PageUnavailable."""
    limits = {"timeout": {"connect": _CONNECT_SECONDS, "read": _READ_SECONDS, "write": _READ_SECONDS}}
    method = "GET" if content is None else "POST"
    try:
        async with (
            await open_pool(url, allowed, resolve) as pool,
            pool.stream(method, str(url), headers=headers, content=content, extensions=limits) as response,
        ):
            yield response
    except httpcore2.ProxyError as error:
        raise PageUnavailable(f"The proxy did not let the request through: {error}") from None
    except httpcore2.TimeoutException:
        raise PageUnavailable(f"{url.host} took too long to answer.") from None
    except httpcore2.ConnectError as error:
        raise PageUnavailable(f"{url.host} could not be reached: {error or 'no connection'}") from None
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.UnsupportedProtocol) as error:
        raise PageUnavailable(f"The answer of {url.host} could not be read: {error or type(error).__name__}") from None


async def _read_response(url: Url, response: httpcore2.Response, max_bytes: int) -> tuple[Page, str | None]:
    if response.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        # No site's own: the page is not the one that was asked for.
        raise PageUnavailable("The proxy did not let the request through: it wants a name and password (407).")
    headers = read_headers(response)
    location = headers.get("location") if response.status in _REDIRECTS else None
    media_type, _, parameters = headers.get("content-type", "").partition(";")
    data = b"" if location is not None else await read_body(url, response, headers, max_bytes)
    charset = _CHARSET.search(parameters)
    page = Page(
        url=url,
        code=response.status,
        reason=_name_status(response.status),
        media_type=media_type.strip().lower(),
        charset=charset[1] if charset else None,
        data=data,
    )
    return page, location


def read_headers(response: httpcore2.Response) -> dict[str, str]:
    """By their names in small letters."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}


async def read_body(url: Url, response: httpcore2.Response, headers: Mapping[str, str], max_bytes: int) -> bytes:
    """All of it, unfolded; raises PageUnavailable."""
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > max_bytes:
        raise PageUnavailable(_explain_size(url, max_bytes))
    body = bytearray()
    async with aclosing(_decode_body(response, headers.get("content-encoding", ""))) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > max_bytes:
                raise PageUnavailable(_explain_size(url, max_bytes))
    return bytes(body)


async def _decode_body(response: httpcore2.Response, encoding: str) -> AsyncGenerator[bytes, None]:
    """Pieces of bounded size, whatever little data unfolds to whatever much."""
    names = [name.strip().lower() for name in encoding.split(",") if name.strip() not in {"", "identity"}]
    if any(name not in {"gzip", "x-gzip", "deflate"} for name in names) or len(names) > 1:
        raise PageUnavailable(f"The page is compressed as {encoding[:40]!r}, which was not asked for.")
    stream = response.aiter_stream()
    if not names:
        async for piece in stream:
            yield piece
        return
    unfold: zlib._Decompress | None = None
    async for piece in stream:
        if unfold is None:
            unfold = _make_unfolder(names[0], piece)
        rest = piece
        while rest:
            try:
                yield unfold.decompress(rest, _PIECE)
            except zlib.error as error:
                raise PageUnavailable(f"The page is damaged: its compressed data cannot be read ({error}).") from None
            rest = unfold.unconsumed_tail
            if unfold.eof:
                return
    if unfold is not None:
        yield unfold.flush()  # what is left of its window


def _make_unfolder(name: str, first: bytes) -> "zlib._Decompress":
    if name != "deflate":
        return zlib.decompressobj(zlib.MAX_WBITS | 16)
    # Some sites send it with its header, and some without.
    has_header = len(first) > 1 and first[0] & 0x0F == zlib.DEFLATED and not (first[0] << 8 | first[1]) % 31
    return zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)


def _name_status(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return ""


def name_ourselves() -> str:
    """Who asks, and for whom: a site that wants none of it can say so."""
    # Imported here: it takes long, and the first request fetches nothing.
    from importlib.metadata import version  # noqa: PLC0415

    return f"ostler/{version('ostler')} (coding agent; reads pages that its user's model asks for)"


def _explain_size(url: Url, max_bytes: int) -> str:
    return f"{url} is larger than {format_size(max_bytes)}, the most that is fetched."
