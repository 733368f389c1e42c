"""WebFetch through the wire: who is asked, what rules bind it, and what the small model answers."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.failures import overloaded
from tests.support.messages_api.replies import Block, calls, message, says
from tests.support.model_replies import DONE
from tests.support.projects import get_last_decision

READER = "reader-of-the-tests"
LONG = "<p>" + "much to read " * 2_000


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = (LONG if self.path == "/long" else f"<p>This is {self.path}.").encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def fetch(url: str, prompt: str = "What is it?") -> Block:
    return calls("WebFetch", {"url": url, "prompt": prompt})


def open_reader(harness: Harness, *blocks: Block, **session: Any) -> SessionDriver:
    return harness.open_session(*map(message, blocks), otherwise=DONE, **session)


def test_a_rule_that_names_the_address_lets_it_be_read(harness: Harness, site: str) -> None:
    driver = open_reader(harness, fetch(f"{site}/a"), rules={"allow": ["WebFetch(domain:127.0.0.1)"]})
    driver.run_turn()
    (result,) = driver.fetch_result_texts()
    assert "This is /a." in result
    assert "<web-page" in result
    output = driver.list_event_data("tool.completed")[0]["call"]["output"]
    assert (output["code"], output["url"], output["answered"]) == (200, f"{site}/a", False)
    assert get_last_decision(driver)["rule"] == "WebFetch(domain:127.0.0.1)"


def test_an_address_of_this_machine_is_refused_in_every_mode_and_nobody_is_asked(
    own_harness: Callable[..., Harness], site: str
) -> None:
    harness = own_harness(OSTLER_PERMISSIONS__ALLOW_BYPASS="true")
    for mode in ("default", "bypassPermissions"):
        driver = open_reader(harness, fetch(f"{site}/a"), mode=mode)
        driver.run_turn()
        assert "not an address of the public internet" in driver.fetch_result_texts()[0]
        assert driver.list_event_data("ask.opened") == []
    # Neither a rule about all of the web nor one about the name opens it.
    rules = {"allow": ["WebFetch", "WebFetch(domain:localhost)"]}
    driver = open_reader(harness, fetch(f"{site.replace('127.0.0.1', 'localhost')}/a"), rules=rules)
    driver.run_turn()
    assert "localhost leads to" in driver.fetch_result_texts()[0]
    harness.daemon.call("config/set", key="web.allow_private", value=["127.0.0.1", "::1"])
    driver = open_reader(harness, fetch(f"{site.replace('127.0.0.1', 'localhost')}/a"), rules=rules)
    driver.run_turn()
    assert "This is /a." in driver.fetch_result_texts()[0]


def test_a_host_is_asked_about_and_remembered_by_its_name(harness: Harness) -> None:
    driver = open_reader(harness, fetch("http://name.invalid/x"), fetch("https://name.invalid/y"))
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert ask["suggestions"][0]["rule"] == "WebFetch(domain:name.invalid)"
    driver.answer(ask, "allow_always", scope="session")
    driver.wait_for_turn_end(turn_id)
    assert len(driver.list_event_data("ask.opened")) == 1
    assert all("name.invalid" in text for text in driver.fetch_result_texts())


def test_a_rule_with_a_star_speaks_of_all_below_a_host_and_of_nothing_beside_it(harness: Harness) -> None:
    behaviors = {
        "https://a.name.invalid/": "allow",
        "https://a.b.name.invalid/": "allow",
        "https://name.invalid/": "deny",
        "https://evilname.invalid/": "deny",
        "https://name.invalid.evil.invalid/": "deny",
    }
    rules = {"allow": ["WebFetch(domain:*.name.invalid)"]}
    driver = open_reader(harness, *map(fetch, behaviors), rules=rules, on_ask="deny")
    driver.run_turn()
    decisions = [call["call"]["decision"]["behavior"] for call in driver.list_event_data("tool.completed")]
    assert dict(zip(behaviors, decisions, strict=True)) == behaviors


def test_a_denied_host_is_denied_however_it_is_spelt(harness: Harness) -> None:
    spellings = ["https://Bad.Example/", "http://bad.example./x", "https://bad.example:444/"]
    rules = {"allow": ["WebFetch"], "deny": ["WebFetch(domain:bad.example)"]}
    driver = open_reader(harness, *map(fetch, spellings), rules=rules)
    driver.run_turn()
    assert [call["call"]["decision"]["behavior"] for call in driver.list_event_data("tool.completed")] == ["deny"] * 3


def test_a_long_page_is_read_by_the_small_model_whose_answer_the_session_pays(harness: Harness, site: str) -> None:
    harness.api.script(READER, message(says("It says: much.")), otherwise=overloaded())
    allow = {"allow": ["WebFetch(domain:127.0.0.1)"]}
    driver = open_reader(harness, fetch(f"{site}/long", f"[{READER}:1] How much?"), rules=allow)
    driver.run_turn()
    assert "answered from the page by a small model" in driver.fetch_result_texts()[0]
    assert "It says: much." in driver.fetch_result_texts()[0]
    asked = next(each for each in harness.api.requests if READER in str(each.body["messages"][0]["content"][0]))
    assert asked.body["model"] != harness.api.requests[-1].body["model"]
    assert not asked.body.get("tools")


def test_where_the_small_model_fails_the_page_itself_is_given(harness: Harness, site: str) -> None:
    harness.api.script(READER, otherwise=overloaded())
    allow = {"allow": ["WebFetch(domain:127.0.0.1)"]}
    driver = open_reader(harness, fetch(f"{site}/long?", f"[{READER}:2] How much?"), rules=allow)
    driver.run_turn()
    assert driver.fetch_result_texts()[0].count("much to read") > 50
