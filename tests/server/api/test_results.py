"""`result/read`, `result/search`, and what tools and clients see of a result."""

import pytest

from tests.server.engine.turn.test_stale_files import ALLOW
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, bash, run_scripted_turn

WHOLE = "\n".join(str(number) for number in range(1, 20_001))


@pytest.fixture
def driver(harness: Harness) -> SessionDriver:
    """A session with one persisted result."""
    show = message(calls("Bash", {"command": "seq 1 20000"}))
    driver = harness.open_session(show, otherwise=DONE, rules={"allow": ["Bash"]})
    driver.run_turn()
    return driver


def get_result_id(driver: SessionDriver) -> str:
    return str(driver.list_event_data("tool.completed")[0]["call"]["result_id"])


def test_a_result_is_read_part_by_part(harness: Harness, driver: SessionDriver) -> None:
    result_id = get_result_id(driver)
    part = harness.daemon.call("result/read", result_id=result_id)
    assert part == {
        "result_id": result_id,
        "content": WHOLE[:50_000],
        "total_chars": len(WHOLE),
        "next_offset": 50_000,
    }
    parts, offset = [], 0
    while offset is not None:
        part = harness.daemon.call("result/read", result_id=result_id, offset_chars=offset, limit_chars=33_333)
        parts.append(part["content"])
        offset = part["next_offset"]
    assert "".join(parts) == WHOLE
    assert [len(one) for one in parts[:-1]] == [33_333] * (len(parts) - 1)


def test_past_the_end_there_is_nothing(harness: Harness, driver: SessionDriver) -> None:
    for offset in (len(WHOLE), len(WHOLE) + 1, 2**53):
        part = harness.daemon.call("result/read", result_id=get_result_id(driver), offset_chars=offset)
        assert (part["content"], part["next_offset"], part["total_chars"]) == ("", None, len(WHOLE))


@pytest.mark.parametrize(
    ("field", "value"), [("offset_chars", -1), ("limit_chars", 0), ("limit_chars", 1_000_001), ("offset_chars", "1")]
)
def test_bounds_of_a_part_are_named(harness: Harness, driver: SessionDriver, field: str, value: object) -> None:
    error = harness.daemon.expect_error("result/read", result_id=get_result_id(driver), **{field: value})
    assert error["data"]["errors"][0]["path"] == field


def test_lines_are_found_with_their_numbers(harness: Harness, driver: SessionDriver) -> None:
    found = harness.daemon.call("result/search", result_id=get_result_id(driver), pattern="^1234.?$")
    assert [line["line"] for line in found["lines"]] == [1234, *range(12340, 12350)]
    assert found["lines"][0] == {"line": 1234, "text": "1234"}
    assert (found["next_offset"], found["timed_out"]) == (None, False)


def test_lines_come_page_by_page(harness: Harness, driver: SessionDriver) -> None:
    given = {"result_id": get_result_id(driver), "pattern": "99$", "limit": 150}
    first = harness.daemon.call("result/search", **given)
    second = harness.daemon.call("result/search", **given, offset=first["next_offset"])
    assert (len(first["lines"]), len(second["lines"]), second["next_offset"]) == (150, 50, None)
    assert second["lines"][-1]["text"] == "19999"
    assert harness.daemon.call("result/search", **given, offset=200)["lines"] == []


def test_a_pattern_that_is_no_regular_expression_is_refused_in_ripgreps_words(
    harness: Harness, driver: SessionDriver
) -> None:
    error = harness.daemon.expect_error("result/search", result_id=get_result_id(driver), pattern="a(b")
    assert error["code"] == -32602
    assert error["data"]["errors"][0]["path"] == "pattern"
    assert "unclosed group" in error["data"]["errors"][0]["reason"]
    for pattern in ("", "a\0b", "x" * 10_001):
        error = harness.daemon.expect_error("result/search", result_id=get_result_id(driver), pattern=pattern)
        assert error["data"]["errors"][0]["path"] == "pattern"


def test_patterns_are_never_options_and_never_explode(harness: Harness, driver: SessionDriver) -> None:
    for pattern in ("--files", "-v", "(\\d+)+x$", "(.*)*y"):
        assert harness.daemon.call("result/search", result_id=get_result_id(driver), pattern=pattern)["lines"] == []
    found = harness.daemon.call("result/search", result_id=get_result_id(driver), pattern="(?-i)^7$", ignore_case=True)
    assert [line["line"] for line in found["lines"]] == [7]


def test_an_unknown_result_is_not_found(harness: Harness) -> None:
    for method, more in (("result/read", {}), ("result/search", {"pattern": "x"})):
        error = harness.daemon.expect_error(method, result_id="r_nothing", **more)
        assert (error["data"]["code"], error["data"]["result_id"]) == ("result_not_found", "r_nothing")


def test_a_result_goes_with_its_last_session(harness: Harness, driver: SessionDriver) -> None:
    result_id = get_result_id(driver)
    fork = harness.daemon.call("session/fork", session_id=driver.id)["id"]
    harness.daemon.call("session/delete", session_id=driver.id)
    assert harness.daemon.call("result/read", result_id=result_id)["total_chars"] == len(WHOLE)
    harness.daemon.call("session/delete", session_id=fork)
    assert harness.daemon.expect_error("result/read", result_id=result_id)["data"]["code"] == "result_not_found"
    assert (
        harness.daemon.expect_error("result/search", result_id=result_id, pattern="1")["data"]["code"]
        == "result_not_found"
    )


def test_the_model_reads_its_own_results_by_line_and_no_others(harness: Harness, driver: SessionDriver) -> None:
    result_id = get_result_id(driver)
    look = calls("Read", {"file_path": f"result://{result_id}", "offset": 12_345, "limit": 2})
    harness.api.script(driver.name, DONE, DONE, message(look), otherwise=DONE)
    driver.run_turn("Look at it.", mode="dontAsk")
    shown = " 12345\t12345\n 12346\t12346\n(7654 more lines; go on with offset 12347)"
    assert driver.fetch_result_texts()[-1] == shown
    other = harness.open_session(message(look), otherwise=DONE)
    other.run_turn(mode="dontAsk")
    assert f"This session has no result '{result_id}'." in other.fetch_result_texts()[0]


def test_the_model_searches_its_own_results_and_no_others(harness: Harness, driver: SessionDriver) -> None:
    result_id = get_result_id(driver)
    look = calls("Grep", {"pattern": "^1999.$", "path": f"result://{result_id}", "output_mode": "content"})
    harness.api.script(driver.name, DONE, DONE, message(look), otherwise=DONE)
    driver.run_turn("Look for it.", mode="dontAsk")
    shown = driver.fetch_result_texts()[-1].split("\n")
    assert shown[0] == f"result://{result_id}:19990:19990"
    assert len(shown) == 10
    other = harness.open_session(message(look), otherwise=DONE)
    other.run_turn(mode="dontAsk")
    assert f"This session has no result '{result_id}'." in other.fetch_result_texts()[0]


def test_a_fork_searches_the_results_of_its_history(harness: Harness, driver: SessionDriver) -> None:
    fork = harness.daemon.call("session/fork", session_id=driver.id)
    look = calls("Grep", {"pattern": "^777$", "path": f"result://{get_result_id(driver)}"})
    harness.api.script(driver.name, DONE, DONE, message(look), otherwise=DONE)
    harness.api.may_rewrite = True  # the fork has a prompt of its own
    ran = harness.daemon.call("run", session_id=fork["id"], input=driver.tag_input("Look."), mode="dontAsk")
    assert ran["turn"]["reason"] == "completed"
    messages = harness.daemon.call("session/messages", session_id=fork["id"])["messages"]
    [found] = [block for block in messages[-2]["content"] if block["type"] == "tool_result"]
    assert found["content"][0]["text"] == f"result://{get_result_id(driver)}"
    harness.daemon.call("session/delete", session_id=fork["id"])


def test_an_error_that_is_too_long_is_kept_like_any_result(harness: Harness) -> None:
    driver = harness.open_session(message(calls("Gate", {"path": "x" * 60_000})), DONE)
    driver.run_turn()
    [text] = driver.fetch_result_texts()
    call = driver.list_event_data("tool.completed")[0]["call"]
    assert call["is_error"]
    assert text.startswith("<persisted-output>")
    whole = harness.daemon.call("result/read", result_id=call["result_id"], limit_chars=1_000_000)["content"]
    assert whole.startswith("<tool_use_error>")
    assert "x" * 60_000 in whole


def test_found_lines_are_cut_and_have_no_carriage_return(harness: Harness) -> None:
    long = "printf 'hit one\\r\\n'; printf 'hit'; head -c 60000 /dev/zero | tr '\\0' x; echo"
    driver = harness.open_session(message(calls("Bash", {"command": long})), otherwise=DONE, rules={"allow": ["Bash"]})
    driver.run_turn()
    first, second = harness.daemon.call("result/search", result_id=get_result_id(driver), pattern="hit")["lines"]
    assert first["text"] == "hit one"
    assert second["text"].startswith("hit" + "x" * 497 + " [")
    assert len(second["text"]) < 600


def test_what_a_command_printed_can_be_downloaded_until_its_session_is_gone(harness: Harness) -> None:
    driver = harness.open_session(rules=ALLOW)
    run_scripted_turn(harness, driver, bash("seq 1 20000; echo é"))
    result_id = driver.list_event_data("tool.completed")[0]["call"]["result_id"]
    answer = harness.daemon.send_http("GET", f"/results/{result_id}")
    assert answer.status == 200
    assert answer.body.decode() == "".join(f"{number}\n" for number in range(1, 20_001)) + "é"
    assert harness.daemon.send_http("GET", f"/results/{result_id}", authorised=False).status == 401
    harness.daemon.call("session/delete", session_id=driver.id)
    assert harness.daemon.send_http("GET", f"/results/{result_id}").status == 404
