"""What providers find, made fit to be shown: plain text of bounded length, and only of the hosts that are wanted."""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ostler.tools.services import SearchHit
from ostler.tools.web.url_policy import BadUrl, Url, parse_url

_MAX_TITLE: Final = 300
_MAX_SNIPPET: Final = 1_000
_MAX_RAW: Final = 20_000
"""Characters of a field that are looked at."""
_TAG: Final = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_UNSHOWN: Final = re.compile(r"[\x00-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")


def select_hits(
    found: Iterable[tuple[Any, Any, Any]], allowed: Sequence[str], blocked: Sequence[str], limit: int
) -> tuple[SearchHit, ...]:
    """Of titles, addresses and snippets as they came: each page once, and none that nobody asked for.

    Providers are told the hosts, too, but not all of them keep to it.
    """
    kept: dict[str, SearchHit] = {}
    for title, address, snippet in found:
        url = _read_address(address)
        if url is None or not _is_wanted(url.host, allowed, blocked) or str(url) in kept:
            continue
        kept[str(url)] = SearchHit(_clean(title, _MAX_TITLE) or url.host, str(url), _clean(snippet, _MAX_SNIPPET))
        if len(kept) == limit:
            break
    return tuple(kept.values())


def list_entries(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of what should be a list of them."""
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, dict))


def is_below(host: str, domain: str) -> bool:
    return host == domain or host.endswith(f".{domain}")


def _is_wanted(host: str, allowed: Sequence[str], blocked: Sequence[str]) -> bool:
    if allowed and not any(is_below(host, each) for each in allowed):
        return False
    return not any(is_below(host, each) for each in blocked)


def _read_address(address: Any) -> Url | None:
    try:
        return parse_url(address) if isinstance(address, str) else None
    except BadUrl:
        return None


def _clean(value: Any, most: int) -> str:
    """One line without marks; what cannot be seen is left out."""
    if not isinstance(value, str):
        return ""
    text = _UNSHOWN.sub(" ", html.unescape(_TAG.sub("", value[:_MAX_RAW])))
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
