"""The providers that are asked over HTTP: what each is sent, and how its answer is read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from ostler.tools.web.search.hits import list_entries

_SNIPPET_CHARS: Final = 600
_BRAVE_MOST: Final = 20
"""More than that it refuses to give at once."""
_QUERY_CHARS: Final = 400
"""Of a query, that Brave takes."""
Raw = tuple[Any, Any, Any]
"""Title, address and snippet, as they came."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A search."""

    query: str
    allowed: Sequence[str]
    blocked: Sequence[str]
    limit: int

    @property
    def query_with_hosts(self) -> str:
        """For providers that know no lists of hosts: in the words that search engines know."""
        among = " OR ".join(f"site:{host}" for host in self.allowed)
        parts = [self.query, f"({among})" if len(self.allowed) > 1 else among]
        return " ".join(part for part in (*parts, *(f"-site:{host}" for host in self.blocked)) if part)


@dataclass(frozen=True, slots=True)
class SiteRequest:
    """What a provider is sent."""

    path: str
    """With its query, after the provider's address."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content: bytes | None = None
    """JSON, for a POST."""


@dataclass(frozen=True, slots=True)
class Site:
    """One provider."""

    name: str
    url: str | None
    """Null: it has no address of its own."""
    build: Callable[[Wanted, str], SiteRequest]
    """Takes the key, too."""
    read: Callable[[dict[str, Any]], Iterator[Raw] | None]
    """Null: this is no answer of the provider."""
    refusals: Mapping[int, str] = field(default_factory=dict)
    """What a status means with this provider alone."""


def _ask_searxng(wanted: Wanted, key: str) -> SiteRequest:
    return SiteRequest(f"/search?{urlencode({'q': wanted.query_with_hosts, 'format': 'json'})}")


def _read_searxng(answer: dict[str, Any]) -> Iterator[Raw] | None:
    if not isinstance(answer.get("results"), list):
        return None
    return ((each.get("title"), each.get("url"), each.get("content")) for each in list_entries(answer["results"]))


def _ask_brave(wanted: Wanted, key: str) -> SiteRequest:
    query = wanted.query_with_hosts
    asked = {
        # Where the hosts do not fit, what it finds elsewhere is left out all the same.
        "q": query if len(query) <= _QUERY_CHARS else wanted.query[:_QUERY_CHARS],
        "count": min(wanted.limit, _BRAVE_MOST),
        "text_decorations": "false",
        "result_filter": "web",
    }
    return SiteRequest(f"/res/v1/web/search?{urlencode(asked)}", {"X-Subscription-Token": key})


def _read_brave(answer: dict[str, Any]) -> Iterator[Raw] | None:
    if answer.get("type") != "search" and not isinstance(answer.get("web"), dict):
        return None
    # Without a single page there is no `web` at all.
    web = answer.get("web")
    found = list_entries(web.get("results") if isinstance(web, dict) else None)
    return ((each.get("title"), each.get("url"), each.get("description")) for each in found)


def _ask_tavily(wanted: Wanted, key: str) -> SiteRequest:
    asked: dict[str, Any] = {"query": wanted.query, "max_results": wanted.limit}
    asked |= {"include_domains": list(wanted.allowed)} if wanted.allowed else {}
    asked |= {"exclude_domains": list(wanted.blocked)} if wanted.blocked else {}
    return SiteRequest("/search", {"Authorization": f"Bearer {key}"}, orjson.dumps(asked))


def _ask_exa(wanted: Wanted, key: str) -> SiteRequest:
    asked: dict[str, Any] = {
        "query": wanted.query,
        "numResults": wanted.limit,
        "contents": {"text": {"maxCharacters": _SNIPPET_CHARS}},
    }
    asked |= {"includeDomains": list(wanted.allowed)} if wanted.allowed else {}
    asked |= {"excludeDomains": list(wanted.blocked)} if wanted.blocked else {}
    return SiteRequest("/search", {"x-api-key": key}, orjson.dumps(asked))


def _read_exa(answer: dict[str, Any]) -> Iterator[Raw] | None:
    if not isinstance(answer.get("results"), list):
        return None
    return ((each.get("title"), each.get("url"), each.get("text")) for each in list_entries(answer["results"]))


SITES: Final = {
    site.name: site
    for site in (
        Site(
            "searxng",
            None,
            _ask_searxng,
            _read_searxng,
            {403: "it gives no JSON: `json` has to stand under `search: formats:` in its settings.yml"},
        ),
        Site(
            "brave",
            "https://api.search.brave.com",
            _ask_brave,
            _read_brave,
            {422: "it does not take the query or the key: `ostler auth login brave` keeps another key"},
        ),
        Site(
            "tavily",
            "https://api.tavily.com",
            _ask_tavily,
            _read_searxng,
            {432: "the key's plan is used up", 433: "the limit of what is paid as one goes is reached"},
        ),
        Site("exa", "https://api.exa.ai", _ask_exa, _read_exa, {402: "the account has no credit left"}),
    )
}
"""The one table of them."""
