"""The events of a turn are the same live and when they are replayed."""

from pathlib import Path

from tests.support.daemon import Daemon, EventStream


def test_a_turn_is_replayed_in_the_same_bytes_as_it_was_told_live(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("größe\n")
    with Daemon(home, environment={"OSTLER_REHEARSAL_PACE_MS": "0", "OSTLER_MODEL": "rehearsal"}) as daemon:
        rules = {"allow": ["Bash(echo hi)"]}
        session_id = daemon.call("session/create", cwd=str(project), rules=rules)["id"]
        with daemon.follow(f"?session={session_id}&after=0") as live:
            daemon.call("turn/start", session_id=session_id, input="read a.txt then run echo hi then run touch it")
            told = read_stored_until("turn.updated", live)
            (ask,) = daemon.call("ask/list", session_id=session_id)["asks"]
            daemon.call("ask/resolve", ask_id=ask["id"], answer={"choice": "allow", "input": {"command": "true"}})
            told += read_stored_until("turn.ended", live)
        with daemon.follow(f"?session={session_id}&after=0") as replay:
            again = read_stored_until("turn.ended", replay)
    assert {frame["event"] for frame in told} >= {"tool.queued", "tool.started", "tool.completed", "ask.resolved"}
    assert told == again


def read_stored_until(kind: str, stream: EventStream) -> list[dict[str, str]]:
    """The frames that have a place in the log, up to the first of a kind."""
    found: list[dict[str, str]] = []
    for frame in stream.read_frames():
        if "id" in frame:
            found.append(frame)
        if frame.get("event") == kind:
            return found
    raise AssertionError(f"the stream ended before {kind}")
