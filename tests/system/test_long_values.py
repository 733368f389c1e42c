"""Megabytes hold nobody up: what the event loop's own thread computes between two turns of others stays short."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from ostler.server.daemon.daemon import Daemon as RunningDaemon
from ostler.server.http import sse_endpoint
from tests.support.daemon import wait_until
from tests.support.driver import QUICK, Stage, Talk
from tests.support.inprocess import InProcessDaemon
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.replies import Block, calls_raw, hang, message, new_call_id, pieces, says, thinks
from tests.support.messages_api.server import ScriptedApi
from tests.support.model_replies import DONE
from tests.system.test_event_loop import Stalls

MEGABYTE = 1024 * 1024
LINES = "a\n" * (5 * MEGABYTE)
"""Of a line end everything that encodes it makes two characters."""


class LongStage(Stage):
    """A stage in this process, on which the longest stall is known."""

    stalls: Stalls

    def longest(self) -> float:
        """Since it was asked last, in seconds."""
        found, self.stalls.longest = self.stalls.longest, 0.0
        return found


@pytest.fixture(scope="module")
def long_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LongStage]:
    folder = tmp_path_factory.mktemp("long")
    stalls = Stalls()
    watching: list[asyncio.Task[None]] = []

    def watch(daemon: RunningDaemon) -> None:
        watching.append(asyncio.get_running_loop().create_task(stalls.watch()))

    with ScriptedApi(strict=False, keep=False) as api, pytest.MonkeyPatch.context() as patch:
        environment = {**api.environment, **QUICK}
        for name, value in environment.items():
            patch.setenv(name, value)
        with InProcessDaemon(folder / "home", environment=environment, prepare=watch) as daemon:
            stage = LongStage(daemon, api, folder)
            stage.stalls = stalls
            # Imports of a thousand modules are no part of it.
            stage.talk(otherwise=DONE).turn()
            stage.leave()
            stage.longest()
            yield stage
            stage.leave()

            async def stop() -> None:
                watching[0].cancel()

            daemon.do(stop)


def goes_on(talk: Talk) -> None:
    talk.api.script(talk.name, otherwise=DONE)
    turn = talk.turn()
    assert (turn["reason"], turn["result_text"]) == ("completed", "Done.")


def given(name: str, at_once: int = MEGABYTE, **arguments: Any) -> Block:
    return calls_raw(name, *pieces(orjson.dumps(arguments).decode(), at_once))


def in_the_start(name: str, **arguments: Any) -> Block:
    return Block({"type": "tool_use", "id": new_call_id(), "name": name, "input": arguments}, ())


ANSWERS: dict[str, Callable[[], Reply]] = {
    "a command of lines": lambda: message(given("Bash", command=LINES)),
    "all of it in one event": lambda: message(given("Bash", 10**9, command=LINES)),
    "in the start of its block": lambda: message(in_the_start("Bash", command=LINES)),
    "a pattern": lambda: message(given("Grep", pattern=LINES)),
    "a path": lambda: message(given("Read", file_path=f"/{LINES}")),
    "a cell": lambda: message(given("NotebookEdit", notebook_path="/x.ipynb", new_source=LINES)),
    "a name that is no tool's": lambda: message(given("Nope", text=LINES)),
    "words": lambda: message(says(*pieces(LINES, MEGABYTE))),
    "words in one event": lambda: message(says(LINES)),
    "thoughts": lambda: message(thinks(*pieces(LINES, MEGABYTE)), says("So.")),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_ten_megabytes_from_the_model_hold_nobody_up(long_stage: LongStage, what: str) -> None:
    talk = long_stage.talk()
    talk.api.script(talk.name, ANSWERS[what](), otherwise=DONE)
    long_stage.longest()
    assert talk.turn()["reason"] == "completed"
    assert 0 < long_stage.longest() < 0.1
    goes_on(talk)


def test_ten_megabytes_that_a_person_allows_hold_nobody_up(long_stage: LongStage) -> None:
    talk = long_stage.talk()
    path = talk.folder / "lines.txt"
    talk.api.script(talk.name, message(given("Write", file_path=str(path), content=LINES)), DONE)
    turn_id = talk.start()
    ask = talk.ask()
    assert ask["call"]["input"]["content"] == LINES
    talk.answer(ask, "allow")
    assert talk.ended(turn_id)["reason"] == "completed"
    assert 0 < long_stage.longest() < 0.1
    assert path.read_text() == LINES
    assert talk.daemon.call("session/get", session_id=talk.id)["status"] == "idle"
    [use] = [block for one in talk.messages() for block in one["content"] if block["type"] == "tool_use"]
    assert use["input"]["content"] == LINES
    with talk.daemon.follow(f"?session={talk.id}&after=0") as second:
        replayed = second.until("tool.completed")
    assert replayed["data"]["call"]["input"]["content"] == LINES
    assert long_stage.longest() < 0.1


def test_ten_megabytes_of_input_hold_nobody_up(long_stage: LongStage) -> None:
    talk = long_stage.talk(otherwise=DONE)
    words = LINES[:9_999_000]
    assert talk.turn(words)["reason"] == "completed"
    assert talk.turn("And again.")["reason"] == "completed"
    assert talk.messages()[0]["content"][-1]["text"] == talk.input(words)
    exported = talk.daemon.http("GET", f"/sessions/{talk.id}/export?format=jsonl")
    assert orjson.dumps(words)[1:-1] in exported.body
    assert 0 < long_stage.longest() < 0.1


def test_who_attaches_in_the_middle_of_ten_megabytes_holds_nobody_up(long_stage: LongStage) -> None:
    talk = long_stage.talk()
    talk.api.script(talk.name, message(says(*pieces(LINES, 100_000), hang())), otherwise=DONE)
    talk.start()
    wait_until(lambda: (talk.state()["message"] or {}).get("content") == [{"type": "text", "text": LINES}])
    long_stage.longest()
    with talk.daemon.follow(f"?session={talk.id}") as second:
        again = second.until("message.delta")
    assert (again["data"]["offset"], again["data"]["text"]) == (0, LINES)
    assert talk.state()["message"]["content"] == [{"type": "text", "text": LINES}]
    assert 0 < long_stage.longest() < 0.1


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
def test_a_long_body_that_is_refused_holds_nobody_up(long_stage: LongStage, what: str) -> None:
    long_stage.longest()
    answer = long_stage.daemon.post(BODIES[what])
    assert answer.json["error"]["code"] in {-32700, -32600, -32601, -32602}
    assert len(answer.body) < 2000
    assert 0 < long_stage.longest() < 0.1


def test_an_event_of_too_many_values_is_refused_unread(long_stage: LongStage) -> None:
    talk = long_stage.talk()
    talk.api.script(talk.name, otherwise=message(in_the_start("Read", file_path=[[]] * 3_000_000)))
    turn = talk.turn()
    assert turn["reason"] == "failed"
    assert "more than 100000 values" in turn["error"]["message"]
    assert 0 < long_stage.longest() < 0.1
    goes_on(talk)


def test_a_message_of_more_than_sixteen_megabytes_is_stopped(long_stage: LongStage) -> None:
    talk = long_stage.talk()
    talk.api.script(talk.name, otherwise=message(says(*pieces("x" * (17 * MEGABYTE), MEGABYTE))))
    turn = talk.turn()
    assert turn["reason"] == "failed"
    assert "more than 16,777,216 characters" in turn["error"]["message"]
    goes_on(talk)


def test_a_number_of_more_than_64_bits_beside_a_long_text_costs_nothing(long_stage: LongStage) -> None:
    """What cannot be encoded takes its session along: here a schema has made a whole number of what the model wrote."""
    talk = long_stage.talk()
    call = calls_raw("Read", '{"file_path": "/%s", "offset": 1e25}' % ("x" * 300_000))
    talk.api.script(talk.name, message(call), otherwise=DONE)
    assert talk.turn()["reason"] == "completed"
    assert [one["is_error"] for one in talk.results()] == [True]
    goes_on(talk)


def test_blocks_in_progress_are_all_given_again_however_long_they_are(long_stage: LongStage) -> None:
    talk = long_stage.talk()
    texts = ["a\n" * (2 * MEGABYTE), "short", "b" * (3 * MEGABYTE)]
    blocks = [says(*pieces(each, 100_000)) for each in texts]
    talk.api.script(talk.name, message(*blocks, hang()), otherwise=DONE)
    talk.start()
    wait_until(lambda: [one["text"] for one in (talk.state()["message"] or {}).get("content", [])] == texts)
    for after in ("now", "0"):
        with talk.daemon.follow(f"?session={talk.id}&after={after}") as second:
            events = second.events()
            again = [next(event for event in events if event["type"] == "message.delta") for _ in texts]
        assert [(event["data"]["index"], event["data"]["offset"]) for event in again] == [(0, 0), (1, 0), (2, 0)]
        assert [event["data"]["text"] for event in again] == texts


def readers(talk: Talk) -> int:
    return int(talk.daemon.call("server/stats")["readers"])


def test_who_leaves_in_the_middle_of_much_is_no_news(long_stage: LongStage, capfd: pytest.CaptureFixture[str]) -> None:
    talk = long_stage.talk(otherwise=DONE)
    talk.turn(LINES[:9_000_000])
    asked = {"jsonrpc": "2.0", "id": 1, "method": "session/messages", "params": {"session_id": talk.id}}
    body = orjson.dumps(asked)
    head = f"Host: 127.0.0.1:{talk.daemon.port}\r\nAuthorization: Bearer {talk.daemon.token}\r\n"
    requests = [
        f"POST /rpc HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body,
        f"GET /events?session={talk.id}&after=0 HTTP/1.1\r\n{head}\r\n".encode(),
    ]
    attached = readers(talk)
    capfd.readouterr()
    for request in requests * 3:
        with socket.create_connection(("127.0.0.1", talk.daemon.port)) as connection:
            connection.sendall(request)
            assert len(connection.recv(65_536)) > 0
    goes_on(talk)
    wait_until(lambda: readers(talk) == attached)
    printed = capfd.readouterr()
    assert "raised exception" not in printed.out + printed.err


def test_what_is_replayed_of_a_refused_call_is_what_was_told(long_stage: LongStage) -> None:
    talk = long_stage.talk()
    talk.api.script(talk.name, message(given("Write", file_path="relative.txt", content="x")), otherwise=DONE)
    talk.turn()
    live = [event for event in talk.seen if event["cursor"] is not None]
    with talk.daemon.follow(f"?session={talk.id}&after={live[0]['cursor'] - 1}") as second:
        assert second.take(len(live)) == live
    assert [event["data"]["call"]["error_code"] for event in live if event["type"] == "tool.completed"] == [8]


def test_a_quiet_stream_says_that_it_is_there(long_stage: LongStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_endpoint, "SSE_COMMENT_SECONDS", 0.02)
    session_id = long_stage.talk().id
    with long_stage.daemon.follow(f"?session={session_id}") as stream:
        lines = [stream._response.readline() for _ in range(6)]
    assert lines == [b": ostler\n", b"\n", b": still here\n", b"\n", b": still here\n", b"\n"]


def test_a_message_of_endless_calls_ends_in_a_clear_state(long_stage: LongStage) -> None:
    talk = long_stage.talk()
    talk.api.script(talk.name, otherwise=message(*(given("Read", file_path="/gone") for _ in range(2000))))
    turn = talk.turn()
    assert turn["reason"] == "failed"
    assert turn["error"]["message"] == "The model wrote more than 500 blocks in one message."
    assert 0 < long_stage.longest() < 0.1
    goes_on(talk)


def test_many_calls_that_wait_are_dropped_at_once(long_stage: LongStage) -> None:
    talk = long_stage.talk(rules={"allow": ["Bash"]})
    many = [given("Bash", command="sleep 1; sleep 100"), *(given("Bash", command=f"echo {n}") for n in range(400))]
    talk.api.script(talk.name, message(*many), otherwise=DONE)
    turn_id = talk.start()
    talk.wait("tool.queued", lambda data: data["call"]["input"]["command"] == "echo 399")
    long_stage.longest()
    talk.daemon.call("turn/interrupt", turn_id=turn_id)
    assert talk.ended(turn_id)["reason"] == "interrupted"
    assert 0 < long_stage.longest() < 0.1
    assert len(talk.results()) == 401
    goes_on(talk)


def test_many_long_inputs_that_join_a_turn_hold_nobody_up(long_stage: LongStage) -> None:
    talk = long_stage.talk(rules={"allow": ["Bash"]})
    talk.api.script(talk.name, message(given("Bash", command="sleep 1; sleep 100")), otherwise=DONE)
    turn_id = talk.start()
    talk.wait("tool.started")
    words = LINES[: 2 * MEGABYTE]
    for _ in range(10):
        talk.daemon.call("turn/steer", turn_id=turn_id, input=words)
    long_stage.longest()
    talk.daemon.call("turn/steer", turn_id=turn_id, input="Now.", now=True)
    assert talk.ended(turn_id)["reason"] == "completed"
    assert 0 < long_stage.longest() < 0.1
    texts = [block["text"] for one in talk.messages() for block in one["content"] if block["type"] == "text"]
    assert texts.count(words) == 10
