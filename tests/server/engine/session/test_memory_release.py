"""The memory of a session is released with it, at once: garbage collection is too seldom to wait for it."""

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ostler.protocol.ids import SessionId
from ostler.server.engine.session.history import History
from tests.support.crash import CrashSession
from tests.support.daemon import wait_until
from tests.support.driver import Harness
from tests.support.inprocess import InProcessDaemon
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.messages_api.server import ScriptedApi

_DONE = message(says("Done."))


@pytest.fixture
def daemon(api: ScriptedApi, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessDaemon]:
    """A daemon without garbage collection."""
    for name, value in {**api.environment, "OSTLER_TESTING": "1"}.items():
        monkeypatch.setenv(name, value)
    with InProcessDaemon(home, settings={"model.name": "claude-sonnet-5", "turns.evict_seconds": 0.1}) as daemon:
        gc.disable()
        yield daemon
        gc.enable()


@pytest.fixture
def scene(daemon: InProcessDaemon, api: ScriptedApi, tmp_path: Path) -> CrashSession:
    """A session whose turn calls something twice at once."""
    scene = CrashSession(daemon, api, tmp_path)
    scene.script(message(says("Look."), *(calls("Bash", {"command": f"echo {n}"}) for n in range(2))), _DONE)
    scene.create(rules={"allow": ["Bash"]})
    return scene


def _get_history_ref(daemon: InProcessDaemon, scene: CrashSession) -> weakref.ref[History]:
    """The largest thing that a session has."""
    actor = daemon.running.engine.find_actor(SessionId(scene.session_id))
    assert actor is not None
    return weakref.ref(actor.live.history)


def test_a_deleted_session_is_gone_from_memory(daemon: InProcessDaemon, scene: CrashSession) -> None:
    turn_id = scene.start_turn()
    history = _get_history_ref(daemon, scene)
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    daemon.call("session/delete", session_id=scene.session_id)
    wait_until(lambda: history() is None)


def test_an_evicted_session_is_gone_from_memory(daemon: InProcessDaemon, scene: CrashSession) -> None:
    turn_id = scene.start_turn()
    history = _get_history_ref(daemon, scene)
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    wait_until(lambda: history() is None)
    assert scene.fetch_session()["id"] == scene.session_id


def test_a_session_that_is_deleted_while_it_asks_is_gone_from_memory(
    daemon: InProcessDaemon, api: ScriptedApi, tmp_path: Path
) -> None:
    scene = CrashSession(daemon, api, tmp_path)
    scene.script(message(calls("TestingPermission", {})))
    scene.create()
    assert scene.wait_for_turn_rest(scene.start_turn())["status"] == "waiting"
    history = _get_history_ref(daemon, scene)
    daemon.call("session/delete", session_id=scene.session_id)
    wait_until(lambda: history() is None)


def test_a_session_that_is_deleted_while_the_model_writes_is_gone_from_memory(
    daemon: InProcessDaemon, api: ScriptedApi, tmp_path: Path
) -> None:
    gate = Gate()
    scene = CrashSession(daemon, api, tmp_path)
    scene.script(message(says("So ", hold(gate), "far.")))
    scene.create()
    scene.start_turn()
    scene.wait_for("message.delta")
    history = _get_history_ref(daemon, scene)
    daemon.call("session/delete", session_id=scene.session_id)
    wait_until(lambda: history() is None)
    gate.open()


def test_a_turn_with_a_time_limit_keeps_nothing_in_memory(daemon: InProcessDaemon, scene: CrashSession) -> None:
    turn_id = scene.start_turn(timeout_ms=600_000)
    history = _get_history_ref(daemon, scene)
    assert scene.wait_for_turn_end(turn_id)["reason"] == "completed"
    daemon.call("session/delete", session_id=scene.session_id)
    wait_until(lambda: history() is None)


# Over the wire.


def _run_and_delete(harness: Harness) -> None:
    driver = harness.open_session()
    call = calls("Grep", {"pattern": "x" * (10 << 20)}, piece_chars=1 << 20)
    harness.api.script(driver.name, message(call), _DONE)
    driver.run_turn()
    harness.end_sessions()


def test_deleted_sessions_with_large_calls_do_not_add_up(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    for _ in range(4):  # what one of them needs for a moment is kept for the next
        _run_and_delete(harness)
    before = harness.daemon.call("server/stats")["rss_bytes"]
    for _ in range(10):
        _run_and_delete(harness)
    # What is free is given back in a quiet moment.
    wait_until(lambda: harness.daemon.call("server/stats")["rss_bytes"] - before < 100 << 20)


def test_a_session_with_a_turn_is_never_evicted(daemon: InProcessDaemon, scene: CrashSession, api: ScriptedApi) -> None:
    gate, engine = Gate(), daemon.running.engine
    scene.script(message(says("So ", hold(gate), "far.")))
    turn_id = scene.start_turn()
    scene.wait_for("message.delta")
    idle = CrashSession(daemon, api, scene.folder)
    idle.create()
    api.script("another", otherwise=_DONE)
    idle.wait_for_turn_end(idle.start_turn("[another]"))
    # Used later than the other one, and gone: whoever could be evicted has been.
    wait_until(lambda: engine.find_actor(SessionId(idle.session_id)) is None)
    assert engine.find_actor(SessionId(scene.session_id)) is not None
    gate.open()
    turn = scene.wait_for_turn_end(turn_id)
    assert (turn["reason"], turn["result_text"]) == ("completed", "So far.")
