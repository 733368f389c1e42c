"""Values of many megabytes do not block the event loop: no step of its thread computes for long."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from ostler.server.daemon.daemon import Daemon as RunningDaemon
from ostler.server.http import sse_endpoint
from tests.support.daemon import wait_until
from tests.support.driver import QUICK_SETTINGS, Harness, SessionDriver
from tests.support.inprocess import InProcessDaemon
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.replies import Block, calls_raw, hang, message, new_call_id, says, split_text, thinks
from tests.support.messages_api.server import ScriptedApi
from tests.support.model_replies import DONE
from tests.support.stalls import StallMonitor

MEGABYTE = 1024 * 1024
LINES = "a\n" * (5 * MEGABYTE)
"""Ten megabytes; JSON makes two characters of each line end."""


class StallHarness(Harness):
    """A harness in this process that measures the longest stall of the event loop."""

    stalls: StallMonitor

    def take_longest_stall(self) -> float:
        """The longest stall since the last call, in pieces of work (see StallMonitor)."""
        found, self.stalls.longest = self.stalls.longest, 0.0
        return found


@pytest.fixture(scope="module")
def stall_harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StallHarness]:
    folder = tmp_path_factory.mktemp("long")
    stalls = StallMonitor()
    watching: list[asyncio.Task[None]] = []

    def watch(daemon: RunningDaemon) -> None:
        watching.append(asyncio.get_running_loop().create_task(stalls.watch()))

    with ScriptedApi(strict=False, keep=False) as api, pytest.MonkeyPatch.context() as patch:
        # What is long here is the point, and not what a window holds of it.
        environment = {**api.environment, **QUICK_SETTINGS, "OSTLER_CONTEXT__WINDOW": "100000000"}
        for name, value in environment.items():
            patch.setenv(name, value)
        with InProcessDaemon(folder / "home", environment=environment, prepare=watch) as daemon:
            harness = StallHarness(daemon, api, folder)
            harness.stalls = stalls
            # Imports of a thousand modules are no part of it.
            harness.open_session(otherwise=DONE).run_turn()
            harness.end_sessions()
            harness.take_longest_stall()
            yield harness
            harness.end_sessions()

            async def stop() -> None:
                watching[0].cancel()

            daemon.run_on_loop(stop)


def expect_next_turn(driver: SessionDriver) -> None:
    driver.api.script(driver.name, otherwise=DONE)
    turn = driver.run_turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")


def build_call(name: str, at_once: int = MEGABYTE, **arguments: Any) -> Block:
    return calls_raw(name, *split_text(orjson.dumps(arguments).decode(), at_once))


def build_call_in_start(name: str, **arguments: Any) -> Block:
    return Block({"type": "tool_use", "id": new_call_id(), "name": name, "input": arguments}, ())


ANSWERS: dict[str, Callable[[], Reply]] = {
    "a command of lines": lambda: message(build_call("Bash", command=LINES)),
    "all of it in one event": lambda: message(build_call("Bash", 10**9, command=LINES)),
    "in the start of its block": lambda: message(build_call_in_start("Bash", command=LINES)),
    "a pattern": lambda: message(build_call("Grep", pattern=LINES)),
    "a path": lambda: message(build_call("Read", file_path=f"/{LINES}")),
    "a cell": lambda: message(build_call("NotebookEdit", notebook_path="/x.ipynb", new_source=LINES)),
    "a name that is no tool's": lambda: message(build_call("Nope", text=LINES)),
    "words": lambda: message(says(*split_text(LINES, MEGABYTE))),
    "words in one event": lambda: message(says(LINES)),
    "thoughts": lambda: message(thinks(*split_text(LINES, MEGABYTE)), says("So.")),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_ten_megabytes_from_the_model_hold_nobody_up(stall_harness: StallHarness, what: str) -> None:
    driver = stall_harness.open_session()
    driver.api.script(driver.name, ANSWERS[what](), otherwise=DONE)
    stall_harness.take_longest_stall()
    assert driver.run_turn()["reason"] == "completed"
    assert 0 < stall_harness.take_longest_stall() < StallMonitor.LIMIT
    expect_next_turn(driver)


def test_ten_megabytes_that_a_person_allows_hold_nobody_up(stall_harness: StallHarness) -> None:
    driver = stall_harness.open_session()
    path = driver.folder / "lines.txt"
    driver.api.script(driver.name, message(build_call("Write", file_path=str(path), content=LINES)), DONE)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert ask["call"]["input"]["content"] == LINES
    driver.answer(ask, "allow")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert 0 < stall_harness.take_longest_stall() < StallMonitor.LIMIT
    assert path.read_text() == LINES
    assert driver.daemon.call("session/get", session_id=driver.id)["status"] == "idle"
    [use] = [block for one in driver.fetch_messages() for block in one["content"] if block["type"] == "tool_use"]
    assert use["input"]["content"] == LINES
    with driver.daemon.follow(f"?session={driver.id}&after=0") as second:
        replayed = second.wait_for("tool.completed")
    assert replayed["data"]["call"]["input"]["content"] == LINES
    assert stall_harness.take_longest_stall() < StallMonitor.LIMIT


def test_ten_megabytes_of_input_hold_nobody_up(stall_harness: StallHarness) -> None:
    driver = stall_harness.open_session(otherwise=DONE)
    words = LINES[:9_999_000]
    assert driver.run_turn(words)["reason"] == "completed"
    assert driver.run_turn("And again.")["reason"] == "completed"
    assert driver.fetch_messages()[0]["content"][-1]["text"] == driver.tag_input(words)
    exported = driver.daemon.send_http("GET", f"/sessions/{driver.id}/export?format=jsonl")
    assert orjson.dumps(words)[1:-1] in exported.body
    assert 0 < stall_harness.take_longest_stall() < StallMonitor.LIMIT


def test_who_attaches_in_the_middle_of_ten_megabytes_holds_nobody_up(stall_harness: StallHarness) -> None:
    driver = stall_harness.open_session()
    driver.api.script(driver.name, message(says(*split_text(LINES, 100_000), hang())), otherwise=DONE)
    driver.start()
    wait_until(lambda: (driver.fetch_state()["message"] or {}).get("content") == [{"type": "text", "text": LINES}])
    stall_harness.take_longest_stall()
    with driver.daemon.follow(f"?session={driver.id}") as second:
        again = second.wait_for("message.delta")
    assert (again["data"]["offset"], again["data"]["text"]) == (0, LINES)
    assert driver.fetch_state()["message"]["content"] == [{"type": "text", "text": LINES}]
    assert 0 < stall_harness.take_longest_stall() < StallMonitor.LIMIT


BODIES: dict[str, bytes] = {
    "brackets": b"[" * (30 * MEGABYTE),
    "line ends": b'{"a":"' + b"\\n" * (15 * MEGABYTE) + b'"}',
    "metadata": orjson.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "session/create", "params": {"cwd": "/", "metadata": {"a": LINES}}}
    ),
    "a title": orjson.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "session/create", "params": {"cwd": "/", "title": LINES}}
    ),
    "a method": orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": LINES}),
}


@pytest.mark.parametrize("what", BODIES)
def test_a_long_body_that_is_refused_holds_nobody_up(stall_harness: StallHarness, what: str) -> None:
    stall_harness.take_longest_stall()
    answer = stall_harness.daemon.post(BODIES[what])
    assert answer.json["error"]["code"] in {-32700, -32600, -32601, -32602}
    assert len(answer.body) < 2000
    assert 0 < stall_harness.take_longest_stall() < StallMonitor.LIMIT


def test_an_event_of_too_many_values_is_refused_unread(stall_harness: StallHarness) -> None:
    driver = stall_harness.open_session()
    driver.api.script(driver.name, otherwise=message(build_call_in_start("Read", file_path=[[]] * 3_000_000)))
    turn = driver.run_turn()
    assert turn["reason"] == "failed"
    assert "more than 100000 values" in turn["error"]["message"]
    assert 0 < stall_harness.take_longest_stall() < StallMonitor.LIMIT
    expect_next_turn(driver)


def test_a_message_of_more_than_sixteen_megabytes_is_stopped(stall_harness: StallHarness) -> None:
    driver = stall_harness.open_session()
    driver.api.script(driver.name, otherwise=message(says(*split_text("x" * (17 * MEGABYTE), MEGABYTE))))
    turn = driver.run_turn()
    assert turn["reason"] == "failed"
    assert "more than 16,777,216 characters" in turn["error"]["message"]
    expect_next_turn(driver)


def test_a_number_of_more_than_64_bits_beside_a_long_text_costs_nothing(stall_harness: StallHarness) -> None:
    """What cannot be encoded takes its session along: here a schema has made a whole number of what the model wrote."""
    driver = stall_harness.open_session()
    call = calls_raw("Read", '{"file_path": "/%s", "offset": 1e25}' % ("x" * 300_000))
    driver.api.script(driver.name, message(call), otherwise=DONE)
    assert driver.run_turn()["reason"] == "completed"
    assert [one["is_error"] for one in driver.fetch_results()] == [True]
    expect_next_turn(driver)


def test_blocks_in_progress_are_all_given_again_however_long_they_are(stall_harness: StallHarness) -> None:
    driver = stall_harness.open_session()
    texts = ["a\n" * (2 * MEGABYTE), "short", "b" * (3 * MEGABYTE)]
    blocks = [says(*split_text(each, 100_000)) for each in texts]
    driver.api.script(driver.name, message(*blocks, hang()), otherwise=DONE)
    driver.start()
    wait_until(lambda: [one["text"] for one in (driver.fetch_state()["message"] or {}).get("content", [])] == texts)
    for after in ("now", "0"):
        with driver.daemon.follow(f"?session={driver.id}&after={after}") as second:
            events = second.read_events()
            again = [next(event for event in events if event["type"] == "message.delta") for _ in texts]
        assert [(event["data"]["index"], event["data"]["offset"]) for event in again] == [(0, 0), (1, 0), (2, 0)]
        assert [event["data"]["text"] for event in again] == texts


def count_readers(driver: SessionDriver) -> int:
    return int(driver.daemon.call("server/stats")["readers"])


def test_who_leaves_in_the_middle_of_much_is_no_news(
    stall_harness: StallHarness, capfd: pytest.CaptureFixture[str]
) -> None:
    driver = stall_harness.open_session(otherwise=DONE)
    driver.run_turn(LINES[:9_000_000])
    asked = {"jsonrpc": "2.0", "id": 1, "method": "session/messages", "params": {"session_id": driver.id}}
    body = orjson.dumps(asked)
    head = f"Host: 127.0.0.1:{driver.daemon.port}\r\nAuthorization: Bearer {driver.daemon.token}\r\n"
    requests = [
        f"POST /rpc HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body,
        f"GET /events?session={driver.id}&after=0 HTTP/1.1\r\n{head}\r\n".encode(),
    ]
    attached = count_readers(driver)
    capfd.readouterr()
    for request in requests * 3:
        with socket.create_connection(("127.0.0.1", driver.daemon.port)) as connection:
            connection.sendall(request)
            assert len(connection.recv(65_536)) > 0
    expect_next_turn(driver)
    wait_until(lambda: count_readers(driver) == attached)
    printed = capfd.readouterr()
    assert "raised exception" not in printed.out + printed.err


def test_what_is_replayed_of_a_refused_call_is_what_was_told(stall_harness: StallHarness) -> None:
    driver = stall_harness.open_session()
    driver.api.script(driver.name, message(build_call("Write", file_path="relative.txt", content="x")), otherwise=DONE)
    driver.run_turn()
    live = [event for event in driver.seen if event["cursor"] is not None]
    with driver.daemon.follow(f"?session={driver.id}&after={live[0]['cursor'] - 1}") as second:
        assert second.take(len(live)) == live
    assert [event["data"]["call"]["error_code"] for event in live if event["type"] == "tool.completed"] == [8]


def test_a_quiet_stream_says_that_it_is_there(stall_harness: StallHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_endpoint, "SSE_COMMENT_SECONDS", 0.02)
    session_id = stall_harness.open_session().id
    with stall_harness.daemon.follow(f"?session={session_id}") as stream:
        lines = [stream._response.readline() for _ in range(6)]
    assert lines == [b": ostler\n", b"\n", b": still here\n", b"\n", b": still here\n", b"\n"]


def test_a_message_of_endless_calls_ends_in_a_clear_state(stall_harness: StallHarness) -> None:
    driver = stall_harness.open_session()
    driver.api.script(driver.name, otherwise=message(*(build_call("Read", file_path="/gone") for _ in range(2000))))
    turn = driver.run_turn()
    assert turn["reason"] == "failed"
    assert turn["error"]["message"] == "The model wrote more than 500 blocks in one message."
    assert 0 < stall_harness.take_longest_stall() < StallMonitor.LIMIT
    expect_next_turn(driver)


def test_many_calls_that_wait_are_dropped_at_once(stall_harness: StallHarness) -> None:
    driver = stall_harness.open_session(rules={"allow": ["Bash"]})
    many = [
        build_call("Bash", command="sleep 1; sleep 100"),
        *(build_call("Bash", command=f"echo {n}") for n in range(400)),
    ]
    driver.api.script(driver.name, message(*many), otherwise=DONE)
    turn_id = driver.start()
    driver.wait("tool.queued", lambda data: data["call"]["input"]["command"] == "echo 399")
    stall_harness.take_longest_stall()
    driver.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    assert 0 < stall_harness.take_longest_stall() < StallMonitor.LIMIT
    assert len(driver.fetch_results()) == 401
    expect_next_turn(driver)


def test_many_long_inputs_that_join_a_turn_hold_nobody_up(stall_harness: StallHarness) -> None:
    driver = stall_harness.open_session(rules={"allow": ["Bash"]})
    driver.api.script(driver.name, message(build_call("Bash", command="sleep 1; sleep 100")), otherwise=DONE)
    turn_id = driver.start()
    driver.wait("tool.started")
    words = LINES[: 2 * MEGABYTE]
    for _ in range(10):
        driver.daemon.call("turn/steer", turn_id=turn_id, input=words)
    stall_harness.take_longest_stall()
    driver.daemon.call("turn/steer", turn_id=turn_id, input="Now.", now=True)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert 0 < stall_harness.take_longest_stall() < StallMonitor.LIMIT
    texts = [block["text"] for one in driver.fetch_messages() for block in one["content"] if block["type"] == "text"]
    assert texts.count(words) == 10
