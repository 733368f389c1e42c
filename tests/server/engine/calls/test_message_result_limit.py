"""All results of one message together: the largest are kept elsewhere until the rest fits."""

from collections.abc import Callable
from typing import Any

import orjson

from ostler.protocol.config import Results
from ostler.protocol.ids import ResultId, call_id, new_message_id, new_session_id
from ostler.protocol.shapes import Call
from ostler.server.engine.calls.result_limits import fit_message, join_text
from ostler.tools.files.read import Read
from ostler.tools.search.grep import Grep
from ostler.tools.shell.bash import Bash
from ostler.tools.tool import AnyTool, text_block
from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE

TOOLS: dict[str, AnyTool] = {"Bash": Bash(), "Read": Read(), "Grep": Grep()}
BUDGET = 200_000


def prints(chars: int) -> Any:
    """A call whose result has so many characters."""
    return calls("Bash", {"command": f"head -c {chars} /dev/zero | tr '\\0' x"})


def get_sent_texts(driver: SessionDriver, request: int = -1, message: int = -1) -> list[str]:
    """The results of a message as the model got them."""
    blocks = driver.requests[request].messages[message]["content"]
    return [block["content"][0]["text"] for block in blocks if block["type"] == "tool_result"]


# Which are chosen.


def make_call(index: int, tool: str, chars: int, **more: Any) -> Call:
    text = f"{index} ".ljust(chars, "x") if chars else ""
    return Call(
        call_id=call_id(new_message_id(), index),
        tool_use_id=f"toolu_{index}",
        session_id=new_session_id(),
        turn_id=None,
        tool=tool,
        input={},
        summary=tool,
        status="completed",
        **{"content": [text_block(text)], **more},
    )


def choose_replaced(budget: int, *results: Call) -> list[int]:
    replaced = fit_message(results, lambda one: TOOLS.get(one.tool), Results(per_message_chars=budget))
    for changed, whole in replaced:
        before = next(one for one in results if one.call_id == changed.call_id)
        assert whole == join_text(before.content or [])
        assert f"result://{changed.result_id}" in join_text(changed.content or [])
    return [int(changed.call_id.rpartition("#")[2]) for changed, _ in replaced]


def test_nothing_is_replaced_where_all_of_it_fits() -> None:
    assert choose_replaced(60_000, make_call(0, "Bash", 30_000), make_call(1, "Grep", 30_000)) == []


def test_the_largest_are_replaced_until_the_rest_fits() -> None:
    results = [
        make_call(0, "Bash", 10_000),
        make_call(1, "Bash", 30_000),
        make_call(2, "Grep", 20_000),
        make_call(3, "Bash", 25_000),
    ]
    assert choose_replaced(80_000, *results) == [1]
    assert choose_replaced(50_000, *results) == [1, 3]
    assert choose_replaced(20_000, *results) == [1, 3, 2]


def test_of_equals_the_first_is_replaced() -> None:
    assert choose_replaced(
        45_000, make_call(0, "Bash", 20_000), make_call(1, "Bash", 20_000), make_call(2, "Bash", 20_000)
    ) == [0]


def test_tools_without_a_limit_count_but_are_never_chosen() -> None:
    assert choose_replaced(
        100_000, make_call(0, "Read", 90_000), make_call(1, "Bash", 20_000), make_call(2, "Bash", 3_000)
    ) == [1]
    assert choose_replaced(100_000, make_call(0, "Read", 90_000), make_call(1, "Read", 90_000)) == []


def test_what_is_kept_already_or_short_is_left_as_it_is() -> None:
    kept = make_call(0, "Bash", 9_000, result_id=ResultId("r_1"))
    assert choose_replaced(10_000, kept, *(make_call(index, "Bash", 2_400) for index in range(1, 10))) == []


def test_other_blocks_of_a_result_stay() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    result = make_call(0, "Bash", 0, content=[text_block("y" * 20_000), picture])
    [(changed, _)] = fit_message([result], lambda one: None, Results(per_message_chars=10_000))
    assert [block["type"] for block in changed.content or []] == ["image", "text"]


# Through the daemon.


def test_the_message_fits_and_the_clients_are_told(harness: Harness) -> None:
    sizes = [29_000, 28_000, 27_500, 28_500, 29_500, 26_000, 27_000, 26_500]
    driver = harness.open_session(message(*map(prints, sizes)), DONE, rules={"allow": ["Bash"]})
    assert driver.run_turn()["reason"] == "completed"
    sent = get_sent_texts(driver)
    assert sum(map(len, sent)) <= BUDGET < sum(sizes)
    assert [size for size, text in zip(sizes, sent, strict=True) if "<persisted-output>" in text] == [29_500]
    told = [data["call"] for data in driver.list_event_data("tool.completed")]
    assert [one["result_id"] for one in told[:8]] == [None] * 8
    [again] = told[8:]
    assert again["content"] == [text_block(sent[4])]
    assert f"result://{again['result_id']}" in sent[4]
    # In one transaction with the message that brings it: nothing comes between.
    [place] = [at for at, event in enumerate(driver.seen) if event["data"].get("call") == again]
    brought = driver.seen[place + 1]["data"]["message"]["content"]
    assert [block["content"][0]["text"] for block in brought] == sent == driver.fetch_result_texts()
    part = harness.daemon.call("result/read", result_id=again["result_id"])
    assert part["content"] == "x" * 29_500


def test_reads_count_and_stay_whole(harness: Harness) -> None:
    driver = harness.open_session()
    files = [driver.write_file(f"{name}.txt", f"{name * 90}\n" * 900) for name in "ab"]
    reads = [calls("Read", {"file_path": file}) for file in files]
    harness.api.script(driver.name, message(*reads, prints(25_000), prints(10_000)), DONE)
    harness.daemon.call("session/update", session_id=driver.id, rules={"allow": ["Bash"]})
    driver.run_turn()
    one, two, three, four = get_sent_texts(driver)
    assert len(one) + len(two) + 35_000 > BUDGET
    assert "<persisted-output>" not in one + two + four
    assert three.startswith("<persisted-output>")


def test_a_replacement_is_the_same_after_a_restart_in_a_fork_and_under_another_budget(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness(OSTLER_RESULTS__PER_MESSAGE_CHARS="10000")
    driver = harness.open_session(message(prints(9_000), prints(7_000)), otherwise=DONE, rules={"allow": ["Bash"]})
    driver.run_turn()
    first = orjson.dumps(get_sent_texts(driver))
    assert first.count(b"<persisted-output>") == 1
    result_id = next(data["call"]["result_id"] for data in reversed(driver.list_event_data("tool.completed")))
    harness.daemon.environment["OSTLER_RESULTS__PER_MESSAGE_CHARS"] = "200000"
    harness.restart()
    assert harness.daemon.call("config/get", key="results.per_message_chars")["value"] == 200_000
    driver.run_turn("Once more.")
    assert orjson.dumps(get_sent_texts(driver, message=2)) == first
    assert (harness.api.prefix_changes, harness.api.violations) == ([], [])
    fork = harness.daemon.call("session/fork", session_id=driver.id)["id"]
    harness.daemon.call("session/delete", session_id=driver.id)
    turn = harness.daemon.call("turn/start", session_id=fork, input=driver.tag_input("And here."))
    assert harness.daemon.call("turn/wait", turn_id=turn["id"], timeout_ms=20_000)["reason"] == "completed"
    assert orjson.dumps(get_sent_texts(driver, message=2)) == first
    assert harness.api.violations == []
    assert harness.daemon.call("result/read", result_id=result_id)["total_chars"] == 9_000


def test_results_that_a_crash_left_behind_fit_too(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness(OSTLER_RESULTS__PER_MESSAGE_CHARS="10000")
    driver = harness.open_session()
    wait = calls("Gate", {"path": driver.get_gate_path("never"), "reads": True})
    harness.api.script(driver.name, message(prints(9_000), prints(7_000), wait), otherwise=DONE)
    harness.daemon.call("session/update", session_id=driver.id, rules={"allow": ["Bash"]})
    driver.start()
    for _ in range(2):
        driver.wait("tool.completed")
    driver.wait_at_gate("never")
    # A call that only reads runs while its start is being written: the crash comes after both.
    driver.wait("tool.started", lambda data: data["call"]["tool"] == "Gate")
    harness.restart()
    assert driver.fetch_state()["status"] == "idle"
    one, two, three = driver.fetch_result_texts()
    assert one.startswith("<persisted-output>")
    assert two == "x" * 7_000
    assert "outcome unknown" in three
    result_id = one.partition("result://")[2].partition("\n")[0]
    assert harness.daemon.call("result/read", result_id=result_id)["content"] == "x" * 9_000
    driver.expect_usable()
