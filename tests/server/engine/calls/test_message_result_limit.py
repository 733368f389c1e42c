"""All results of one message together: the largest are kept elsewhere until the rest fits."""

from collections.abc import Callable
from typing import Any

import orjson

from ostler.protocol.config import Results
from ostler.protocol.ids import ResultId, call_id, new_message_id, new_session_id
from ostler.protocol.shapes import Call
from ostler.server.engine.calls.result_limits import fitted, text_of
from ostler.tools.files.read import Read
from ostler.tools.search.grep import Grep
from ostler.tools.shell.bash import Bash
from ostler.tools.tool import AnyTool, text_block
from tests.support.driver import Stage, Talk
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE

TOOLS: dict[str, AnyTool] = {"Bash": Bash(), "Read": Read(), "Grep": Grep()}
BUDGET = 200_000


def prints(chars: int) -> Any:
    """A call whose result has so many characters."""
    return calls("Bash", {"command": f"head -c {chars} /dev/zero | tr '\\0' x"})


def texts_sent(talk: Talk, request: int = -1, message: int = -1) -> list[str]:
    """The results of a message as the model got them."""
    blocks = talk.requests[request].messages[message]["content"]
    return [block["content"][0]["text"] for block in blocks if block["type"] == "tool_result"]


# Which are chosen.


def call(index: int, tool: str, chars: int, **more: Any) -> Call:
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


def chosen(budget: int, *results: Call) -> list[int]:
    replaced = fitted(results, lambda one: TOOLS.get(one.tool), Results(per_message_chars=budget))
    for changed, whole in replaced:
        before = next(one for one in results if one.call_id == changed.call_id)
        assert whole == text_of(before.content or [])
        assert f"result://{changed.result_id}" in text_of(changed.content or [])
    return [int(changed.call_id.rpartition("#")[2]) for changed, _ in replaced]


def test_nothing_is_replaced_where_all_of_it_fits() -> None:
    assert chosen(60_000, call(0, "Bash", 30_000), call(1, "Grep", 30_000)) == []


def test_the_largest_are_replaced_until_the_rest_fits() -> None:
    results = [call(0, "Bash", 10_000), call(1, "Bash", 30_000), call(2, "Grep", 20_000), call(3, "Bash", 25_000)]
    assert chosen(80_000, *results) == [1]
    assert chosen(50_000, *results) == [1, 3]
    assert chosen(20_000, *results) == [1, 3, 2]


def test_of_equals_the_first_is_replaced() -> None:
    assert chosen(45_000, call(0, "Bash", 20_000), call(1, "Bash", 20_000), call(2, "Bash", 20_000)) == [0]


def test_tools_without_a_limit_count_but_are_never_chosen() -> None:
    assert chosen(100_000, call(0, "Read", 90_000), call(1, "Bash", 20_000), call(2, "Bash", 3_000)) == [1]
    assert chosen(100_000, call(0, "Read", 90_000), call(1, "Read", 90_000)) == []


def test_what_is_kept_already_or_short_is_left_as_it_is() -> None:
    kept = call(0, "Bash", 9_000, result_id=ResultId("r_1"))
    assert chosen(10_000, kept, *(call(index, "Bash", 2_400) for index in range(1, 10))) == []


def test_other_blocks_of_a_result_stay() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    result = call(0, "Bash", 0, content=[text_block("y" * 20_000), picture])
    [(changed, _)] = fitted([result], lambda one: None, Results(per_message_chars=10_000))
    assert [block["type"] for block in changed.content or []] == ["image", "text"]


# Through the daemon.


def test_the_message_fits_and_the_clients_are_told(stage: Stage) -> None:
    sizes = [29_000, 28_000, 27_500, 28_500, 29_500, 26_000, 27_000, 26_500]
    talk = stage.talk(message(*map(prints, sizes)), DONE, rules={"allow": ["Bash"]})
    assert talk.turn()["reason"] == "completed"
    sent = texts_sent(talk)
    assert sum(map(len, sent)) <= BUDGET < sum(sizes)
    assert [size for size, text in zip(sizes, sent, strict=True) if "<persisted-output>" in text] == [29_500]
    told = [data["call"] for data in talk.all("tool.completed")]
    assert [one["result_id"] for one in told[:8]] == [None] * 8
    [again] = told[8:]
    assert again["content"] == [text_block(sent[4])]
    assert f"result://{again['result_id']}" in sent[4]
    # In one transaction with the message that brings it: nothing comes between.
    [place] = [at for at, event in enumerate(talk.seen) if event["data"].get("call") == again]
    brought = talk.seen[place + 1]["data"]["message"]["content"]
    assert [block["content"][0]["text"] for block in brought] == sent == talk.result_texts()
    part = stage.daemon.call("result/read", result_id=again["result_id"])
    assert part["content"] == "x" * 29_500


def test_reads_count_and_stay_whole(stage: Stage) -> None:
    talk = stage.talk()
    files = [talk.file(f"{name}.txt", f"{name * 90}\n" * 900) for name in "ab"]
    reads = [calls("Read", {"file_path": file}) for file in files]
    stage.api.script(talk.name, message(*reads, prints(25_000), prints(10_000)), DONE)
    stage.daemon.call("session/update", session_id=talk.id, rules={"allow": ["Bash"]})
    talk.turn()
    one, two, three, four = texts_sent(talk)
    assert len(one) + len(two) + 35_000 > BUDGET
    assert "<persisted-output>" not in one + two + four
    assert three.startswith("<persisted-output>")


def test_a_replacement_is_the_same_after_a_restart_in_a_fork_and_under_another_budget(
    own_stage: Callable[..., Stage],
) -> None:
    stage = own_stage(OSTLER_RESULTS__PER_MESSAGE_CHARS="10000")
    talk = stage.talk(message(prints(9_000), prints(7_000)), otherwise=DONE, rules={"allow": ["Bash"]})
    talk.turn()
    first = orjson.dumps(texts_sent(talk))
    assert first.count(b"<persisted-output>") == 1
    result_id = next(data["call"]["result_id"] for data in reversed(talk.all("tool.completed")))
    stage.daemon.environment["OSTLER_RESULTS__PER_MESSAGE_CHARS"] = "200000"
    stage.restart()
    assert stage.daemon.call("config/get", key="results.per_message_chars")["value"] == 200_000
    talk.turn("Once more.")
    assert orjson.dumps(texts_sent(talk, message=2)) == first
    assert (stage.api.prefix_changes, stage.api.violations) == ([], [])
    fork = stage.daemon.call("session/fork", session_id=talk.id)["id"]
    stage.daemon.call("session/delete", session_id=talk.id)
    turn = stage.daemon.call("turn/start", session_id=fork, input=talk.input("And here."))
    assert stage.daemon.call("turn/wait", turn_id=turn["id"], timeout_ms=20_000)["reason"] == "completed"
    assert orjson.dumps(texts_sent(talk, message=2)) == first
    assert stage.api.violations == []
    assert stage.daemon.call("result/read", result_id=result_id)["total_chars"] == 9_000


def test_results_that_a_crash_left_behind_fit_too(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage(OSTLER_RESULTS__PER_MESSAGE_CHARS="10000")
    talk = stage.talk()
    wait = calls("Gate", {"path": talk.gate("never"), "reads": True})
    stage.api.script(talk.name, message(prints(9_000), prints(7_000), wait), otherwise=DONE)
    stage.daemon.call("session/update", session_id=talk.id, rules={"allow": ["Bash"]})
    talk.start()
    for _ in range(2):
        talk.wait("tool.completed")
    talk.at_gate("never")
    # A call that only reads runs while its start is being written: the crash comes after both.
    talk.wait("tool.started", lambda data: data["call"]["tool"] == "Gate")
    stage.restart()
    assert talk.state()["status"] == "idle"
    one, two, three = talk.result_texts()
    assert one.startswith("<persisted-output>")
    assert two == "x" * 7_000
    assert "outcome unknown" in three
    result_id = one.partition("result://")[2].partition("\n")[0]
    assert stage.daemon.call("result/read", result_id=result_id)["content"] == "x" * 9_000
    talk.is_usable()
