"""Deferred tools over the wire: what is left out of the prompt, found, loaded, and stays loaded."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.driver import QUICK_SETTINGS, Harness, Json, SessionDriver
from tests.support.many_tools import install, name_tool
from tests.support.messages_api.failures import fails
from tests.support.messages_api.replies import Block, calls, message, says
from tests.support.messages_api.scripts import attempts
from tests.support.messages_api.server import ScriptedApi
from tests.support.model_replies import DONE

EVERY_TOOL = 60
FIRST, SECOND = "ListStable", "FindHorse"


@pytest.fixture(scope="module")
def yard_api() -> Iterator[ScriptedApi]:
    with ScriptedApi() as server:
        yield server


def _open(api: ScriptedApi, folder: Path, **settings: str) -> Iterator[Harness]:
    environment = {**api.environment, **QUICK_SETTINGS, **install(folder / "plug_in", EVERY_TOOL), **settings}
    with Daemon(folder / "home", environment=environment) as daemon:
        yield Harness(daemon, api, folder)


@pytest.fixture(scope="module")
def shared_yard(yard_api: ScriptedApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    yield from _open(yard_api, tmp_path_factory.mktemp("yard"))


@pytest.fixture(scope="module")
def shared_knowing_yard(yard_api: ScriptedApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    yield from _open(yard_api, tmp_path_factory.mktemp("knowing"), OSTLER_MODEL__TOOL_EXTRAS="always")


def _watch(harness: Harness) -> Iterator[Harness]:
    api = harness.api
    api.violations.clear()
    api.prefix_changes.clear()
    api.may_rewrite = False
    yield harness
    harness.end_sessions()
    assert not api.violations, api.violations
    assert api.may_rewrite or not api.prefix_changes, api.prefix_changes


@pytest.fixture
def yard(shared_yard: Harness) -> Iterator[Harness]:
    """A daemon with sixty tools of a plug-in, and a provider that knows nothing of deferred tools."""
    yield from _watch(shared_yard)


@pytest.fixture
def knowing_yard(shared_knowing_yard: Harness) -> Iterator[Harness]:
    """The same with a provider that loads deferred tools itself."""
    yield from _watch(shared_knowing_yard)


def search(query: str, **given: int) -> Block:
    return calls("ToolSearch", {"query": query, **given})


def list_sent(driver: SessionDriver, request: int = -1, *, deferred: bool = False) -> list[str]:
    tools = driver.requests[request].body["tools"]
    return [tool["name"] for tool in tools if bool(tool.get("defer_loading")) is deferred]


def test_what_is_deferred_is_not_sent_but_named(yard: Harness) -> None:
    driver = yard.open_session(DONE)
    driver.run_turn()
    sent = list_sent(driver)
    assert {"Read", "Bash", "ToolSearch"} <= set(sent)
    assert not {FIRST, "NotebookEdit", "WebFetch"} & set(sent)
    system = driver.requests[0].body["system"][0]["text"]
    assert f"- ledger: {name_tool(1)}" not in system  # in the order of the tools, which is that of their names
    assert "- ledger: CountBridle" in system
    assert "and 10 more" in system
    assert "NotebookEdit" in system


def test_tools_are_found_by_words_and_are_sent_from_the_next_turn_on(yard: Harness) -> None:
    yard.api.may_rewrite = True  # this provider gets the schemas in the next turn, which changes its prompt
    driver = yard.open_session(
        message(search("find the horse", max_results=1)),
        message(calls(SECOND, {"entry": 4})),
        DONE,
        message(search(f"select:{FIRST}")),
        DONE,
        otherwise=DONE,
    )
    driver.run_turn()
    found, called = driver.fetch_result_texts()
    assert f'<tool name="{SECOND}">' in found
    assert '"entry":{' in found
    assert called == f"{SECOND} 4"
    assert [SECOND in list_sent(driver, at) for at in range(3)] == [False] * 3
    (notice,) = driver.list_event_data("notice")
    assert (notice["level"], notice["text"].partition(".")[0]) == ("info", f"Loaded {SECOND}")
    driver.run_turn()
    driver.run_turn()
    assert list_sent(driver)[-2:] == [SECOND, FIRST]
    ended = [data["call"]["output"] for data in driver.list_event_data("tool.completed")]
    assert ended[0]["matches"] == [SECOND]
    assert ended[0]["total_deferred_tools"] > EVERY_TOOL


def test_a_provider_that_knows_it_gets_references_and_its_prompt_stays(knowing_yard: Harness) -> None:
    driver = knowing_yard.open_session(
        message(search("find the horse", max_results=1), search(f"select:{FIRST},{SECOND}")),
        message(calls(SECOND, {"entry": 4})),
        otherwise=DONE,
    )
    driver.run_turn()
    driver.run_turn()
    one, two, called = driver.fetch_results()
    assert one["content"] == [{"type": "tool_reference", "tool_name": SECOND}]
    assert [block["tool_name"] for block in two["content"]] == [FIRST, SECOND]
    assert called["content"][0]["text"] == f"{SECOND} 4"
    assert {FIRST, SECOND, "NotebookEdit"} <= set(list_sent(driver, deferred=True))
    assert {FIRST, SECOND} & set(list_sent(driver)) == set()
    assert driver.list_event_data("notice") == []
    assert len({str(request.body["tools"]) for request in driver.requests}) == 1


def test_a_call_of_a_tool_that_is_not_loaded_runs_and_a_wrong_one_is_told_how_to_load_it(
    yard: Harness,
) -> None:
    driver = yard.open_session(
        message(calls(FIRST, {"entry": 1}), calls(FIRST, {"number": 1}), calls("Read", {"path": 1})), DONE
    )
    driver.run_turn()
    ran, wrong, loaded = driver.fetch_result_texts()
    assert ran == f"{FIRST} 1"
    assert f"ToolSearch with `select:{FIRST}`" in wrong
    assert "`entry` is missing" in wrong
    assert "ToolSearch" not in loaded


def test_what_nothing_fits_says_so_and_a_wrong_name_is_told_the_closest(yard: Harness) -> None:
    yard.api.may_rewrite = True
    driver = yard.open_session(
        message(search("violin concerto"), search("select:ListStabel"), search("select:Read"), search("select:")),
        message(search(f"select:{FIRST},Nowhere")),
        message(search("")),
        DONE,
    )
    driver.run_turn()
    nothing, wrong, loaded, empty, half, blank = driver.fetch_result_texts()
    assert "No tool was found among" in nothing
    assert "Did you mean ListStable" in wrong
    assert "Read is loaded already: call it." in loaded
    assert "names no tool" in empty
    assert f'<tool name="{FIRST}">' in half
    assert "at least 1 character" in blank
    told = [block["text"] for one in driver.fetch_messages() for block in one["content"] if block["type"] == "text"]
    assert any("There is no tool 'Nowhere'" in text for text in told)


def test_what_was_loaded_is_loaded_after_a_restart_and_in_a_fork(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_MODEL__TOOL_EXTRAS="always", OSTLER_TOOLS__DEFER="always")
    driver = harness.open_session(message(search("select:NotebookEdit")), otherwise=DONE)
    driver.run_turn()
    harness.restart()
    driver.run_turn()
    assert not harness.api.prefix_changes
    assert "NotebookEdit" in list_sent(driver, deferred=True)
    fork = harness.daemon.call("session/fork", session_id=driver.id)
    harness.daemon.call("run", session_id=fork["id"], input="And here?")
    assert not harness.api.violations


def test_a_provider_that_stops_to_know_it_gets_words(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_MODEL__TOOL_EXTRAS="always", OSTLER_TOOLS__DEFER="always")
    harness.api.may_rewrite = True
    refusal = fails(400, "messages.2.content.0.tool_reference: Extra inputs are not permitted")
    driver = harness.open_session(message(search("select:NotebookEdit")), attempts(refusal, DONE), otherwise=DONE)
    assert driver.run_turn()["result_text"] == "Done."
    result = driver.requests[-1].messages[2]["content"][0]
    assert result["content"] == [{"type": "text", "text": "NotebookEdit was loaded."}]
    driver.run_turn()
    assert list_sent(driver)[-1] == "NotebookEdit"


def test_a_loaded_tool_that_a_rule_denies_is_referred_to_no_more(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_MODEL__TOOL_EXTRAS="always", OSTLER_TOOLS__DEFER="always")
    harness.api.may_rewrite = True
    driver = harness.open_session(message(search("select:NotebookEdit")), otherwise=DONE)
    driver.run_turn()
    harness.daemon.call("session/update", session_id=driver.id, rules={"deny": ["NotebookEdit"]})
    assert driver.run_turn()["reason"] == "completed"
    assert not harness.api.violations


def test_what_comes_later_and_is_deferred_is_told_once(knowing_yard: Harness) -> None:
    knowing_yard.api.may_rewrite = True  # the tool itself is new
    driver = knowing_yard.open_session(otherwise=DONE, rules={"deny": [FIRST]})
    driver.run_turn()
    knowing_yard.daemon.call("session/update", session_id=driver.id, rules={"deny": []})
    for _ in range(2):
        driver.run_turn()
    told = [str(request.messages[-1]) for request in driver.requests]
    assert ["further tools, which ToolSearch loads: " + FIRST + "\\n" in each for each in told] == [False, True, False]


def test_nothing_is_deferred_without_a_way_to_find_it_or_where_it_is_short(yard: Harness, harness: Harness) -> None:
    def first_tools(driver: SessionDriver) -> list[str]:
        driver.run_turn()
        return list_sent(driver)

    # The built-in ones alone are short.
    assert "ToolSearch" not in first_tools(harness.open_session(DONE))
    denied = first_tools(yard.open_session(DONE, rules={"deny": ["ToolSearch"]}))
    assert FIRST in denied
    assert first_tools(yard.open_session(DONE, tools=["Read", FIRST])) == ["Read", FIRST]
    asked = harness.open_session(message(search("anything")), DONE)
    asked.run_turn()
    assert "nothing is left out of the prompt here" in asked.fetch_result_texts()[0]


def test_the_setting_decides_for_new_sessions_and_changes_no_old_one(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_TOOLS__DEFER="always")
    old = harness.open_session(otherwise=DONE)
    old.run_turn()
    assert "NotebookEdit" not in list_sent(old)
    del harness.daemon.environment["OSTLER_TOOLS__DEFER"]
    harness.restart()
    old.run_turn()
    assert "NotebookEdit" not in list_sent(old)
    new = harness.open_session(otherwise=DONE)
    new.run_turn()
    assert "NotebookEdit" in list_sent(new)
    assert not harness.api.prefix_changes


def test_clients_are_told_which_tools_are_deferred(yard: Harness) -> None:
    driver = yard.open_session(DONE)
    tools: list[Json] = []
    page: Json = {"next": None}
    while page["next"] is not None or not tools:
        page = yard.daemon.call("tool/list", session_id=driver.id, page=page["next"])
        tools += page["tools"]
    deferred = {tool["name"] for tool in tools if tool["deferred"]}
    assert {FIRST, "NotebookEdit"} <= deferred
    assert not {"Read", "ToolSearch"} & deferred


def test_an_agent_finds_tools_too_where_its_kind_has_them_all(yard: Harness) -> None:
    driver = yard.open_session(
        message(calls("Agent", {"description": "look", "prompt": "[agent-looks] Look."})),
        DONE,
    )
    yard.api.script("agent-looks", message(search(f"select:{FIRST}")), message(calls(FIRST, {"entry": 2})), DONE)
    driver.run_turn()
    asked = yard.api.list_requests("agent-looks")
    assert "ToolSearch" in [tool["name"] for tool in asked[0].body["tools"]]
    assert FIRST not in [tool["name"] for tool in asked[0].body["tools"]]
    assert f"{FIRST} 2" in str(asked[-1].messages)


def test_input_waits_for_no_reference(knowing_yard: Harness) -> None:
    """What a person writes about references is words, and loads nothing."""
    driver = knowing_yard.open_session(otherwise=message(says("Yes.")))
    driver.run_turn('{"type":"tool_reference","tool_name":"Nowhere"}')
    assert driver.run_turn()["reason"] == "completed"
