"""`result/read`, `result/search`, and what tools and clients see of a result."""

import pytest

from tests.server.engine.turn.test_stale_files import ALLOW
from tests.support.driver import Stage, Talk
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, bash, play

WHOLE = "\n".join(str(number) for number in range(1, 20_001))


@pytest.fixture
def talk(stage: Stage) -> Talk:
    """A session with one persisted result."""
    show = message(calls("Bash", {"command": "seq 1 20000"}))
    talk = stage.talk(show, otherwise=DONE, rules={"allow": ["Bash"]})
    talk.turn()
    return talk


def result_of(talk: Talk) -> str:
    return str(talk.all("tool.completed")[0]["call"]["result_id"])


def test_a_result_is_read_part_by_part(stage: Stage, talk: Talk) -> None:
    result_id = result_of(talk)
    part = stage.daemon.call("result/read", result_id=result_id)
    assert part == {
        "result_id": result_id,
        "content": WHOLE[:50_000],
        "total_chars": len(WHOLE),
        "next_offset": 50_000,
    }
    parts, offset = [], 0
    while offset is not None:
        part = stage.daemon.call("result/read", result_id=result_id, offset_chars=offset, limit_chars=33_333)
        parts.append(part["content"])
        offset = part["next_offset"]
    assert "".join(parts) == WHOLE
    assert [len(one) for one in parts[:-1]] == [33_333] * (len(parts) - 1)


def test_past_the_end_there_is_nothing(stage: Stage, talk: Talk) -> None:
    for offset in (len(WHOLE), len(WHOLE) + 1, 2**53):
        part = stage.daemon.call("result/read", result_id=result_of(talk), offset_chars=offset)
        assert (part["content"], part["next_offset"], part["total_chars"]) == ("", None, len(WHOLE))


@pytest.mark.parametrize(
    ("field", "value"), [("offset_chars", -1), ("limit_chars", 0), ("limit_chars", 1_000_001), ("offset_chars", "1")]
)
def test_bounds_of_a_part_are_named(stage: Stage, talk: Talk, field: str, value: object) -> None:
    error = stage.daemon.error("result/read", result_id=result_of(talk), **{field: value})
    assert error["data"]["errors"][0]["path"] == field


def test_lines_are_found_with_their_numbers(stage: Stage, talk: Talk) -> None:
    found = stage.daemon.call("result/search", result_id=result_of(talk), pattern="^1234.?$")
    assert [line["line"] for line in found["lines"]] == [1234, *range(12340, 12350)]
    assert found["lines"][0] == {"line": 1234, "text": "1234"}
    assert (found["next_offset"], found["timed_out"]) == (None, False)


def test_lines_come_page_by_page(stage: Stage, talk: Talk) -> None:
    given = {"result_id": result_of(talk), "pattern": "99$", "limit": 150}
    first = stage.daemon.call("result/search", **given)
    second = stage.daemon.call("result/search", **given, offset=first["next_offset"])
    assert (len(first["lines"]), len(second["lines"]), second["next_offset"]) == (150, 50, None)
    assert second["lines"][-1]["text"] == "19999"
    assert stage.daemon.call("result/search", **given, offset=200)["lines"] == []


def test_a_pattern_that_is_no_regular_expression_is_refused_in_ripgreps_words(stage: Stage, talk: Talk) -> None:
    error = stage.daemon.error("result/search", result_id=result_of(talk), pattern="a(b")
    assert error["code"] == -32602
    assert error["data"]["errors"][0]["path"] == "pattern"
    assert "unclosed group" in error["data"]["errors"][0]["reason"]
    for pattern in ("", "a\0b", "x" * 10_001):
        error = stage.daemon.error("result/search", result_id=result_of(talk), pattern=pattern)
        assert error["data"]["errors"][0]["path"] == "pattern"


def test_patterns_are_never_options_and_never_explode(stage: Stage, talk: Talk) -> None:
    for pattern in ("--files", "-v", "(\\d+)+x$", "(.*)*y"):
        assert stage.daemon.call("result/search", result_id=result_of(talk), pattern=pattern)["lines"] == []
    found = stage.daemon.call("result/search", result_id=result_of(talk), pattern="(?-i)^7$", ignore_case=True)
    assert [line["line"] for line in found["lines"]] == [7]


def test_an_unknown_result_is_not_found(stage: Stage) -> None:
    for method, more in (("result/read", {}), ("result/search", {"pattern": "x"})):
        error = stage.daemon.error(method, result_id="r_nothing", **more)
        assert (error["data"]["code"], error["data"]["result_id"]) == ("result_not_found", "r_nothing")


def test_a_result_goes_with_its_last_session(stage: Stage, talk: Talk) -> None:
    result_id = result_of(talk)
    fork = stage.daemon.call("session/fork", session_id=talk.id)["id"]
    stage.daemon.call("session/delete", session_id=talk.id)
    assert stage.daemon.call("result/read", result_id=result_id)["total_chars"] == len(WHOLE)
    stage.daemon.call("session/delete", session_id=fork)
    assert stage.daemon.error("result/read", result_id=result_id)["data"]["code"] == "result_not_found"
    assert stage.daemon.error("result/search", result_id=result_id, pattern="1")["data"]["code"] == "result_not_found"


def test_the_model_reads_its_own_results_by_line_and_no_others(stage: Stage, talk: Talk) -> None:
    result_id = result_of(talk)
    look = calls("Read", {"file_path": f"result://{result_id}", "offset": 12_345, "limit": 2})
    stage.api.script(talk.name, DONE, DONE, message(look), otherwise=DONE)
    talk.turn("Look at it.", mode="dontAsk")
    shown = " 12345\t12345\n 12346\t12346\n(7654 more lines; go on with offset 12347)"
    assert talk.result_texts()[-1] == shown
    other = stage.talk(message(look), otherwise=DONE)
    other.turn(mode="dontAsk")
    assert f"This session has no result '{result_id}'." in other.result_texts()[0]


def test_the_model_searches_its_own_results_and_no_others(stage: Stage, talk: Talk) -> None:
    result_id = result_of(talk)
    look = calls("Grep", {"pattern": "^1999.$", "path": f"result://{result_id}", "output_mode": "content"})
    stage.api.script(talk.name, DONE, DONE, message(look), otherwise=DONE)
    talk.turn("Look for it.", mode="dontAsk")
    shown = talk.result_texts()[-1].split("\n")
    assert shown[0] == f"result://{result_id}:19990:19990"
    assert len(shown) == 10
    other = stage.talk(message(look), otherwise=DONE)
    other.turn(mode="dontAsk")
    assert f"This session has no result '{result_id}'." in other.result_texts()[0]


def test_a_fork_searches_the_results_of_its_history(stage: Stage, talk: Talk) -> None:
    fork = stage.daemon.call("session/fork", session_id=talk.id)
    look = calls("Grep", {"pattern": "^777$", "path": f"result://{result_of(talk)}"})
    stage.api.script(talk.name, DONE, DONE, message(look), otherwise=DONE)
    stage.api.may_rewrite = True  # the fork has a prompt of its own
    ran = stage.daemon.call("run", session_id=fork["id"], input=talk.input("Look."), mode="dontAsk")
    assert ran["turn"]["reason"] == "completed"
    messages = stage.daemon.call("session/messages", session_id=fork["id"])["messages"]
    [found] = [block for block in messages[-2]["content"] if block["type"] == "tool_result"]
    assert found["content"][0]["text"] == f"result://{result_of(talk)}"
    stage.daemon.call("session/delete", session_id=fork["id"])


def test_an_error_that_is_too_long_is_kept_like_any_result(stage: Stage) -> None:
    talk = stage.talk(message(calls("Gate", {"path": "x" * 60_000})), DONE)
    talk.turn()
    [text] = talk.result_texts()
    call = talk.all("tool.completed")[0]["call"]
    assert call["is_error"]
    assert text.startswith("<persisted-output>")
    whole = stage.daemon.call("result/read", result_id=call["result_id"], limit_chars=1_000_000)["content"]
    assert whole.startswith("<tool_use_error>")
    assert "x" * 60_000 in whole


def test_found_lines_are_cut_and_have_no_carriage_return(stage: Stage) -> None:
    long = "printf 'hit one\\r\\n'; printf 'hit'; head -c 60000 /dev/zero | tr '\\0' x; echo"
    talk = stage.talk(message(calls("Bash", {"command": long})), otherwise=DONE, rules={"allow": ["Bash"]})
    talk.turn()
    first, second = stage.daemon.call("result/search", result_id=result_of(talk), pattern="hit")["lines"]
    assert first["text"] == "hit one"
    assert second["text"].startswith("hit" + "x" * 497 + " [")
    assert len(second["text"]) < 600


def test_what_a_command_printed_can_be_downloaded_until_its_session_is_gone(stage: Stage) -> None:
    talk = stage.talk(rules=ALLOW)
    play(stage, talk, bash("seq 1 20000; echo é"))
    result_id = talk.all("tool.completed")[0]["call"]["result_id"]
    answer = stage.daemon.http("GET", f"/results/{result_id}")
    assert answer.status == 200
    assert answer.body.decode() == "".join(f"{number}\n" for number in range(1, 20_001)) + "é"
    assert stage.daemon.http("GET", f"/results/{result_id}", authorised=False).status == 401
    stage.daemon.call("session/delete", session_id=talk.id)
    assert stage.daemon.http("GET", f"/results/{result_id}").status == 404
