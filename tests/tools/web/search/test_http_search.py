"""Searches over HTTP: each provider in its own shapes, and all that can go wrong with any of them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ostler.tools.services import SearchFailed
from ostler.tools.web.search import http_search
from ostler.tools.web.search.http_search import HttpSearch
from ostler.tools.web.search.sites import SITES
from tests.tools.web.search.search_provider import KEY, SearchProvider, render
from tests.tools.web.site import respond

pytestmark = pytest.mark.anyio


@pytest.fixture
async def provider() -> AsyncIterator[SearchProvider]:
    async with SearchProvider() as provider:
        yield provider


def make(provider: SearchProvider, name: str, key: str = KEY) -> HttpSearch:
    return HttpSearch(SITES[name], provider.url, key)


async def fail(search: HttpSearch) -> str:
    with pytest.raises(SearchFailed) as raised:
        await search.search("horses", [], [], 10)
    message = str(raised.value)
    assert KEY not in message
    return message


async def test_each_provider_finds_in_its_own_shapes(provider: SearchProvider) -> None:
    for name in SITES:
        answer = await make(provider, name).search("feeding horses", [], [], 10)
        assert (answer.provider, [hit.url for hit in answer.hits]) == (
            name,
            ["https://a.example/feed", "https://sub.b.example/h", "https://c.example/"],
        )
        # Marks, entities, line ends and what turns text around are gone.
        first = answer.hits[0]
        assert (first.title, first.snippet) == ("Feeding horses & ponies", "Hay first, then oats."), name
        assert len((await make(provider, name).search("horses", [], [], 2)).hits) == 2, name


async def test_hosts_are_said_to_the_provider_and_held_whatever_it_answers(provider: SearchProvider) -> None:
    said = {
        "searxng": ("q", "horses (site:b.example OR site:c.example)", "horses -site:b.example"),
        "brave": ("q", "horses (site:b.example OR site:c.example)", "horses -site:b.example"),
        "tavily": ("include_domains", ["b.example", "c.example"], None),
        "exa": ("includeDomains", ["b.example", "c.example"], None),
    }
    for name, (field, allowing, blocking) in said.items():
        search = make(provider, name)
        only = await search.search("horses", ["b.example", "c.example"], [], 10)
        without = await search.search("horses", [], ["b.example"], 10)
        assert [hit.url for hit in only.hits] == ["https://sub.b.example/h", "https://c.example/"], name
        assert [hit.url for hit in without.hits] == ["https://a.example/feed", "https://c.example/"], name
        assert [asked.get(field) for asked in provider.asked[-2:]] == [allowing, blocking], name
    assert provider.asked[-1]["excludeDomains"] == ["b.example"]
    # More hosts than the query has room for: they are left out of it, and hold all the same.
    many = [f"host-{number}.example" for number in range(40)]
    assert (await make(provider, "brave").search("horses", [*many, "c.example"], [], 10)).hits[0].title == "Other"


async def test_a_wrong_key_is_told_with_the_way_out(provider: SearchProvider) -> None:
    for name in ("brave", "tavily", "exa"):
        assert f"`ostler auth login {name}`" in await fail(make(provider, name, "another"))


REFUSALS = {
    ("brave", 429, "Retry-After: 7"): "try again in 7 s",
    ("brave", 429, "Retry-After: soon"): "try again later",
    ("brave", 422, "X: y"): "does not take the query or the key",
    ("tavily", 432, "X: y"): "plan is used up",
    ("exa", 402, "X: y"): "no credit",
    ("exa", 500, "X: y"): "exa is in trouble (500)",
    ("tavily", 503, "X: y"): "tavily is in trouble (503)",
    ("searxng", 403, "X: y"): "it gives no JSON",
    ("searxng", 302, "Location: http://127.0.0.1:1/"): "answered with the status 302",
    ("exa", 404, "X: y"): "answered with the status 404",
}


async def test_each_refusal_says_what_it_means(provider: SearchProvider) -> None:
    for (name, code, header), words in REFUSALS.items():
        provider.answer = render({"error": f"no {KEY}"}, code, header)
        assert words in await fail(make(provider, name)), (name, code)


async def test_what_is_no_answer_of_a_provider_is_a_clear_error(provider: SearchProvider) -> None:
    garbage = [b"<html>Sign in</html>", b"[]", b"null", b"{}", b'{"results": 5}', b"\xff\xfe", b"", b"[" * 100_000]
    for name in SITES:
        for body in garbage:
            provider.answer = respond(body, media_type="application/json")
            assert f"What {name} at http://127.0.0.1:{provider.port} answered is no list of results" in await fail(
                make(provider, name)
            ), (name, body[:20])
    provider.answer = b"SSH-2.0-OpenSSH\r\n"
    assert "could not be read" in await fail(make(provider, "exa"))
    provider.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
    assert "could not be read" in await fail(make(provider, "exa"))


async def test_results_that_are_none_are_left_out(provider: SearchProvider) -> None:
    odd = [
        None, 5, {}, {"url": 5}, {"url": "javascript:alert(1)"}, {"url": "ftp://a.example/"}, {"title": "x"},
        {"url": "https://user:pass@a.example/"}, {"url": "https://a.example/", "title": 5, "content": ["x"]},
        {"url": "https://a.example/", "title": "again"}, {"url": "https://b.example/", "title": "t" * 1_000_000},
    ]  # fmt: skip
    provider.answer = render({"results": odd})
    hits = (await make(provider, "searxng").search("horses", [], [], 10)).hits
    assert [(hit.url, len(hit.title), hit.snippet) for hit in hits] == [
        ("https://a.example/", len("a.example"), ""),
        ("https://b.example/", 300, ""),
    ]
    provider.answer = render(
        {"type": "search", "query": {"original": "x"}}
    )  # Brave has no `web` where it finds nothing
    assert (await make(provider, "brave").search("horses", [], [], 10)).hits == ()


async def test_answers_without_end_or_without_a_word_are_left(
    provider: SearchProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        while True:
            writer.write(b"[" * 1_000_000)
            await writer.drain()

    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    provider.answer = endless
    assert "larger than 2.0 MB" in await fail(make(provider, "brave"))
    provider.answer = silent
    monkeypatch.setattr(http_search, "SECONDS", 0.2)
    assert "brave took longer than 0.2 s" in await fail(make(provider, "brave"))
    assert "could not be reached" in await fail(HttpSearch(SITES["searxng"], "http://127.0.0.1:1"))


async def test_an_address_may_have_a_path_and_stays_http(provider: SearchProvider) -> None:
    await fail(HttpSearch(SITES["searxng"], f"{provider.url}/searx/"))
    assert provider.heads[-1].startswith("GET /searx/search?q=horses&format=json ")
    assert "User-Agent: ostler/" in provider.heads[-1]
    name = HttpSearch(SITES["searxng"], "http://searx.invalid")
    assert "searx.invalid could not be reached" in await fail(name)
