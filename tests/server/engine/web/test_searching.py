"""WebSearch through the wire: who searches, who is asked, and what `rehearsal` does with it."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from tests.server.api.providers.test_auth import call_on_socket
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.failures import fails, overloaded
from tests.support.messages_api.replies import (
    Block,
    calls,
    cites,
    cut_after,
    message,
    says,
    searches_web,
    web_page,
    whole,
)
from tests.support.model_replies import DONE
from tests.tools.web.search.search_provider import KEY, SearchProvider

ALLOW = {"allow": ["WebSearch"]}
SEARCHER = "searcher-of-the-tests"


@pytest.fixture(scope="module")
def provider() -> Iterator[SearchProvider]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(SearchProvider()) as provider:
        yield provider


def search(query: str, **given: Any) -> Block:
    return calls("WebSearch", {"query": query, **given})


def open_searcher(harness: Harness, *blocks: Block, **session: Any) -> SessionDriver:
    return harness.open_session(*map(message, blocks), otherwise=DONE, **session)


def list_search(harness: Harness) -> dict[str, Any]:
    tools = harness.daemon.call("tool/list", limit=500)["tools"]
    return next(tool for tool in tools if tool["name"] == "WebSearch")


def test_without_a_provider_the_tool_is_absent_and_the_list_says_why(harness: Harness) -> None:
    tool = list_search(harness)
    assert not tool["enabled"]
    assert "`[web] search` in config.toml names no other" in tool["disabled_reason"]
    driver = open_searcher(harness, search("horses"), rules=ALLOW)
    driver.run_turn()
    assert "WebSearch cannot be used here: nobody searches" in driver.fetch_result_texts()[0]
    assert all(tool["name"] != "WebSearch" for tool in driver.requests[0].body["tools"])
    bad = harness.daemon.expect_error("config/set", key="web.searxng.url", value="file:///etc/passwd")
    assert "it is no address that begins with http:// or https://" in str(bad)


def test_each_search_is_asked_about_until_a_rule_allows_them(
    own_harness: Callable[..., Harness], provider: SearchProvider
) -> None:
    harness = own_harness(OSTLER_WEB__SEARCH="searxng", OSTLER_WEB__SEARXNG__URL=provider.url)
    assert list_search(harness)["enabled"]
    driver = open_searcher(harness, search("horses"), search("oats", blocked_domains=["c.example"]))
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert ask["suggestions"][0]["rule"] == "WebSearch"
    driver.answer(ask, "allow_always", scope="session")
    driver.wait_for_turn_end(turn_id)
    assert len(driver.list_event_data("ask.opened")) == 1
    first, second = driver.fetch_result_texts()
    assert "3 pages found for: horses" in first
    assert "1. Feeding horses & ponies\n   https://a.example/feed" in first
    assert "2 pages found for: oats" in second
    outputs = [data["call"]["output"] for data in driver.list_event_data("tool.completed")]
    assert [(each["provider"], len(each["results"])) for each in outputs] == [("searxng", 3), ("searxng", 2)]


def test_a_key_that_is_kept_brings_the_tool_and_one_that_goes_takes_it(
    own_harness: Callable[..., Harness], provider: SearchProvider
) -> None:
    harness = own_harness(OSTLER_WEB__SEARCH="exa", OSTLER_WEB__EXA__URL=provider.url)
    assert "there is no key for exa" in list_search(harness)["disabled_reason"]
    call_on_socket(harness.daemon, "auth/set", provider="exa", api_key=KEY)
    driver = open_searcher(harness, search("horses"), rules=ALLOW)
    driver.run_turn()
    assert "3 pages found" in driver.fetch_result_texts()[0]
    call_on_socket(harness.daemon, "auth/remove", provider="exa")
    assert not list_search(harness)["enabled"]


def test_the_key_of_the_environment_is_used_and_shown_nowhere(
    own_harness: Callable[..., Harness], provider: SearchProvider
) -> None:
    harness = own_harness(OSTLER_WEB__SEARCH="brave", OSTLER_WEB__BRAVE__URL=provider.url, BRAVE_API_KEY=KEY)
    driver = open_searcher(harness, search("horses"), rules=ALLOW)
    driver.run_turn()
    assert "3 pages found" in driver.fetch_result_texts()[0]
    assert KEY not in str(driver.seen) + str(driver.fetch_messages())


@pytest.fixture
def by_api(own_harness: Callable[..., Harness]) -> Harness:
    return own_harness(OSTLER_WEB__SEARCH="api", OSTLER_MODEL__MAX_RETRIES="0")


FOUND = [web_page("Feeding horses", "https://a.example/feed"), web_page("Oats", "https://b.example/")]


def test_the_api_searches_with_its_own_tool_and_the_session_pays(by_api: Harness) -> None:
    answer = (*searches_web("horses", FOUND), says("Hay "), cites("comes first.", FOUND[0]["url"], "Hay first."))
    by_api.api.script(SEARCHER, message(*answer), whole(message(*answer)), otherwise=overloaded())
    driver = open_searcher(
        by_api,
        search(f"[{SEARCHER}:1] horses", allowed_domains=["a.example"]),
        search(f"[{SEARCHER}:2] horses"),
        rules=ALLOW,
    )
    turn = driver.run_turn()
    first, second = driver.fetch_result_texts()
    assert "1 page found" in first
    assert "1. Feeding horses\n   https://a.example/feed\n   Hay first.\n\nHay comes first." in first
    assert "2 pages found" in second
    asked = [each for each in by_api.api.requests if SEARCHER in str(each.body["messages"][0]["content"][0])]
    assert [each.body["tools"] for each in asked] == [
        [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8, "allowed_domains": ["a.example"]}],
        [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
    ]
    # The small model searches; what it took is the session's.
    assert asked[0].body["model"] != driver.requests[0].body["model"]
    # Each search costs a cent beside its tokens.
    assert Decimal("0.02") < Decimal(turn["usage"]["cost_usd"]) < Decimal("0.025")
    assert turn["usage"]["input_tokens"] == 100 * (len(driver.requests) + len(asked))


def test_a_search_that_the_api_pauses_goes_on_within_its_eight_searches(by_api: Harness) -> None:
    by_api.api.may_rewrite = True  # fewer searches are left
    begun = [block for number in range(5) for block in searches_web(f"horses {number}", FOUND[:1])]
    by_api.api.script(
        SEARCHER,
        message(*begun, stop_reason="pause_turn"),
        message(*searches_web("oats", FOUND), says("Found.")),
    )
    driver = open_searcher(by_api, search(f"[{SEARCHER}:3] horses"), rules=ALLOW)
    driver.run_turn()
    assert "2 pages found" in driver.fetch_result_texts()[0]
    asked = [each for each in by_api.api.requests if SEARCHER in str(each.body["messages"][0]["content"][0])]
    assert [each.body["tools"][0]["max_uses"] for each in asked] == [8, 3]


FAILURES = {
    "it takes no more searches for now": message(*searches_web("x", "too_many_requests"), says("Sorry.")),
    "its search is out of order": message(*searches_web("x", "unavailable")),
    "'some_new_code'": message(*searches_web("x", "some_new_code")),
    "did not search for it, and answered without": message(says("I know that by heart.")),
    "The API did not search. ": overloaded(),
    "web_search_20250305": fails(400, "tools.0: 'web_search_20250305' is not known here"),
    "broke off": cut_after(message(*searches_web("x", FOUND), says("More")), 4),
}


def test_what_goes_wrong_with_the_api_is_one_clear_error(by_api: Harness) -> None:
    for number, (words, reply) in enumerate(FAILURES.items()):
        name = f"{SEARCHER}-{number}"
        by_api.api.script(name, otherwise=reply)
        driver = open_searcher(by_api, search(f"[{name}:1] horses"), rules=ALLOW)
        assert driver.run_turn()["reason"] == "completed"
        assert words in driver.fetch_result_texts()[0], words


def test_rehearsal_fetches_and_searches(own_harness: Callable[..., Harness], provider: SearchProvider) -> None:
    harness = own_harness(OSTLER_WEB__TAVILY__URL=provider.url, TAVILY_API_KEY=KEY)
    harness.daemon.call("config/set", key="web.search", value="tavily")
    rules = {"allow": ["WebSearch", "WebFetch(domain:127.0.0.1)"]}
    driver = harness.open_session(model="rehearsal", rules=rules)
    turn = run_as_written(driver, f"search for feeding horses then fetch {provider.url}/search?q=hay&format=json")
    found, page = driver.fetch_result_texts()
    assert "3 pages found for: feeding horses" in found
    assert "Feeding <strong>horses" in page
    assert "Search the web for feeding horses:" in turn["result_text"]
    harness.daemon.call("config/set", key="web.search", value="api")
    driver = harness.open_session(model="rehearsal", rules=rules)
    run_as_written(driver, "search the web for oats")
    assert "The model rehearsal has no API that could search" in driver.fetch_result_texts()[0]
    # Where nobody searches, the words mean what they meant before: the folder.
    harness.daemon.call("config/set", key="web.search", value="off")
    driver = harness.open_session(model="rehearsal")
    driver.write_file("a.txt", "some oats\n")
    run_as_written(driver, "search for oats")
    assert "some oats" in driver.fetch_result_texts()[0]


def run_as_written(driver: SessionDriver, text: str) -> dict[str, Any]:
    """A turn without the mark that finds a script."""
    return driver.wait_for_turn_end(driver.daemon.call("turn/start", session_id=driver.id, input=text)["id"])
