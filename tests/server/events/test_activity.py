"""What counts as something that happens in a session."""

import time

from ostler.protocol.events import ToolProgress
from ostler.protocol.ids import CallId, SessionId
from ostler.server.events.activity import Activity

WATCHED = SessionId("s_watched")


def make_progress(kind: str, **data: object) -> ToolProgress:
    return ToolProgress.model_validate({"call_id": CallId("m_1#0"), "kind": kind, "elapsed_ms": 1, "data": data})


def test_a_command_that_prints_nothing_is_silent_however_often_it_reports() -> None:
    activity = Activity()
    with activity.watch(WATCHED), activity.watch(WATCHED):
        began = time.monotonic()
        while activity.measure_silence(WATCHED) < 0.02:
            activity.note_transient(WATCHED, make_progress("shell", output="", offset=0))
            activity.note(SessionId("s_other"))
        assert time.monotonic() - began >= 0.01
        for heard in (make_progress("shell", output="x", offset=0), make_progress("agent", agent_id="s_below")):
            before = activity.measure_silence(WATCHED)
            activity.note_transient(WATCHED, heard)
            assert activity.measure_silence(WATCHED) < before


def test_nothing_is_kept_of_sessions_that_nobody_watches() -> None:
    activity = Activity()
    with activity.watch(WATCHED):
        pass
    activity.note(WATCHED)
    assert not activity._last  # what a daemon would keep for ever
