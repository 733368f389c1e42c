"""Megabytes hold nobody up: what the event loop's own thread computes between two turns of others stays short."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from ostler.server.daemon import Daemon as RunningDaemon
from tests.daemon import wait_until
from tests.engine.driver import QUICK, Stage, Talk
from tests.inprocess import InProcessDaemon
from tests.messages_api.acts import Reply
from tests.messages_api.replies import Block, calls_raw, hang, message, new_call_id, pieces, says, thinks
from tests.messages_api.server import ScriptedApi
from tests.system.test_event_loop import Stalls

MEGABYTE = 1024 * 1024
LINES = "a\n" * (5 * MEGABYTE)
"""Of a line end everything that encodes it makes two characters."""
DONE = message(says("Done."))


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
