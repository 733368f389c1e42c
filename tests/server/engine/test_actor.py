"""A session runs one turn after the other, whatever comes at the moment when one ends."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ostler.protocol.ids import SessionId
from tests.support.crash import CrashSession
from tests.support.daemon import wait_until
from tests.support.inprocess import InProcessDaemon
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import hold, message, says
from tests.support.messages_api.server import ScriptedApi


class _BlockingWrite:
    """A write that keeps all other writes waiting, in their order, until it is released."""

    def __init__(self, daemon: InProcessDaemon, pool: ThreadPoolExecutor) -> None:
        self._running, self._release = threading.Event(), threading.Event()
        self._written = pool.submit(daemon.write, self._work)

    def _work(self, _: object) -> None:
        self._running.set()
        self._release.wait(30)

    def wait_until_running(self) -> None:
        assert self._running.wait(30)

    def release(self) -> None:
        self._release.set()


def _list_inputs(scene: CrashSession) -> list[str]:
    """The person's words in the history."""
    texts = (block["text"] for each in scene.fetch_messages() for block in each["content"] if each["role"] == "user")
    return [text for text in texts if text.startswith("[")]


def _count_pending(daemon: InProcessDaemon) -> int:
    return int(daemon.call("server/stats")["writes_pending"])


def test_a_steer_that_comes_while_its_turn_ends_does_not_run_beside_the_queued_turn(
    api: ScriptedApi, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in api.environment.items():
        monkeypatch.setenv(name, value)
    gate = Gate()
    with InProcessDaemon(home, settings={"model.name": "claude-sonnet-5"}) as daemon, ThreadPoolExecutor(3) as pool:
        scene = CrashSession(daemon, api, tmp_path)
        scene.script(message(says("So ", hold(gate), "far.")))
        scene.create()
        first = scene.start_turn("[go] one")
        second = scene.start_turn("[two]", queue=True)
        scene.wait_for("message.delta")
        actor = daemon.running.engine.find_actor(SessionId(scene.session_id))
        assert actor is not None
        before_the_end = _BlockingWrite(daemon, pool)
        before_the_end.wait_until_running()
        gate.open()
        wait_until(lambda: actor.run is not None and actor.run.state.end is not None)
        pending = _count_pending(daemon)
        after_the_end = _BlockingWrite(daemon, pool)
        wait_until(lambda: _count_pending(daemon) > pending)
        before_the_end.release()
        after_the_end.wait_until_running()
        # The end of the turn is written in the same breath as what is held now: it still runs, and hears the steer,
        # which is stored when the next turn is about to begin.
        pending = _count_pending(daemon)
        steering = pool.submit(daemon.call, "turn/steer", turn_id=first, input="[steer] left")
        wait_until(lambda: _count_pending(daemon) > pending)
        after_the_end.release()
        steering.result(30)
        assert [scene.wait_for_turn_end(turn_id)["reason"] for turn_id in (first, second)] == ["completed", "completed"]
        wait_until(lambda: _list_inputs(scene)[2:] == ["[steer] left"] and scene.fetch_session()["turn"] is None)
        assert _list_inputs(scene) == ["[go] one", "[two]", "[steer] left"]
        for earlier, later in itertools.pairwise(scene.list_turns()):
            assert earlier["ended_at"] <= later["started_at"], "two turns ran at once"
        scene.expect_recovered()
