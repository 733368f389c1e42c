"""Searches with a provider over HTTP: bounded in time and bytes, with a clear error for all that goes wrong."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpcore2
import orjson

from ostler.tools.services import SearchAnswer, SearchFailed
from ostler.tools.threads import read_in_thread
from ostler.tools.web.download import name_ourselves, open_response, read_body, read_headers
from ostler.tools.web.page import PageUnavailable
from ostler.tools.web.search.hits import select_hits
from ostler.tools.web.search.sites import Site, SiteRequest, Wanted
from ostler.tools.web.url_policy import AllowedAddresses, BadUrl, Url, parse_networks, parse_url

SECONDS: Final = 30.0
_MAX_BYTES: Final = 2 * 1024 * 1024
_ANYWHERE: Final = AllowedAddresses(parse_networks(("0.0.0.0/0", "::/0")))
"""The address is that of the configuration, no model's: it may be in a private network."""
_OK: Final = 200
_NO_KEY: Final = frozenset({401, 403})
_TOO_MANY: Final = 429
_BROKEN: Final = 500


@dataclass(frozen=True, slots=True)
class HttpSearch:
    """One provider, at its address, with its key."""

    site: Site
    url: str
    key: str = field(default="", repr=False)

    async def search(self, query: str, allowed: Sequence[str], blocked: Sequence[str], limit: int) -> SearchAnswer:
        """See `WebSearcher`."""
        request = self.site.build(Wanted(query, allowed, blocked, limit), self.key)
        try:
            async with asyncio.timeout(SECONDS):
                body = await self._send(request)
        except TimeoutError:
            raise SearchFailed(f"{self.site.name} took longer than {SECONDS:g} s to answer.") from None
        except PageUnavailable as error:
            raise SearchFailed(f"{self.site.name} could not be asked. {error}") from None
        answer = await read_in_thread(_parse, body)
        found = self.site.read(answer) if answer is not None else None
        if found is None:
            raise SearchFailed(
                f"What {self.site.name} at {self._place} answered is no list of results: is its address right?"
            )
        return SearchAnswer(self.site.name, select_hits(found, allowed, blocked, limit))

    async def _send(self, request: SiteRequest) -> bytes:
        url = self._build_url(request.path)
        headers: dict[bytes | str, bytes | str] = {
            "User-Agent": name_ourselves(),
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
        }
        headers.update(request.headers.items())
        if request.content is not None:
            headers["Content-Type"] = "application/json"
            headers["Content-Length"] = str(len(request.content))
        async with open_response(url, _ANYWHERE, headers, content=request.content) as response:
            if response.status != _OK:
                raise SearchFailed(self._explain_refusal(response))
            return await read_body(url, response, read_headers(response), _MAX_BYTES)

    def _build_url(self, path: str) -> Url:
        place, _, query = path.partition("?")
        base = self.url.rstrip("/")
        try:
            url = parse_url(f"{base}{place}")
        except BadUrl as error:
            raise SearchFailed(f"The address of {self.site.name} cannot be used: {error}") from None
        # Searches are longer than addresses that models may fetch; and what the configuration says is not made https.
        target = f"{url.target}?{query}" if query else url.target
        return replace(url, scheme="http" if base.lower().startswith("http:") else "https", target=target)

    @property
    def _place(self) -> str:
        url = self._build_url("")
        return f"{url.scheme}://{url.rule_host}{f':{url.port}' if url.port is not None else ''}"

    def _explain_refusal(self, response: httpcore2.Response) -> str:
        """By its status alone: what stands in its body may repeat the key."""
        name, status = self.site.name, response.status
        if (known := self.site.refusals.get(status)) is not None:
            return f"{name} did not search ({status}): {known}."
        if status in _NO_KEY:
            return f"{name} did not take the key ({status}): `ostler auth login {name}` keeps another one."
        if status == _TOO_MANY:
            after = read_headers(response).get("retry-after", "")
            when = f"in {after} s" if after.isascii() and after.isdigit() and len(after) < 6 else "later"
            return f"{name} takes no more searches for now ({status}): try again {when}, or do without."
        if status >= _BROKEN:
            return f"{name} is in trouble ({status}): try again later, or do without."
        return f"{name} at {self._place} did not search: it answered with the status {status}."


def _parse(body: bytes) -> dict[str, Any] | None:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return answer if isinstance(answer, dict) else None
