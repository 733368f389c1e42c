"""What a session says of itself while a turn runs or waits, wherever it is shown."""

from collections.abc import Callable

from tests.support.driver import Json, Stage, Talk
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.model_replies import DONE


def waiting(stage: Stage) -> tuple[Talk, str, Json]:
    """A talk whose turn waits for two answers, its turn, and the first ask."""
    talk = stage.talk(message(calls("TestingPermission", {}), calls("TestingPermission", {})), otherwise=DONE)
    turn_id = talk.start()
    return talk, turn_id, talk.ask()


def updated(talk: Talk, status: str) -> Json:
    session: Json = talk.wait("session.updated", lambda data: data["session"]["status"] == status)["data"]["session"]
    return session


def listed(stage: Stage, talk: Talk) -> Json:
    found: list[Json] = stage.daemon.call("session/list", cwd=str(talk.folder))["sessions"]
    return found[0]


def test_a_session_that_runs_shows_its_turn_in_events_and_lists(stage: Stage) -> None:
    talk = stage.talk(message(says("First words ", hold(Gate()))))
    turn_id = talk.start()
    session = updated(talk, "running")
    assert (session["turn"]["id"], session["turn"]["status"], session["asks"]) == (turn_id, "running", [])
    assert listed(stage, talk)["turn"]["id"] == turn_id
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    session = updated(talk, "idle")
    assert (session["turn"], session["asks"]) == (None, [])
    assert listed(stage, talk)["turn"] is None


def test_a_session_that_waits_shows_its_turn_and_asks_in_events_and_lists(stage: Stage) -> None:
    talk, turn_id, ask = waiting(stage)
    session = updated(talk, "waiting")
    assert (session["turn"]["id"], session["turn"]["status"]) == (turn_id, "waiting")
    assert session["asks"] == [ask]
    second = talk.ask()
    row = listed(stage, talk)
    assert row["asks"] == [ask, second]
    assert (row["turn"]["status"], row["asks"]) == ("waiting", talk.state()["asks"])
    renamed = stage.daemon.call("session/update", session_id=talk.id, title="Touching")
    told = talk.wait("session.updated", lambda data: data["session"]["title"] == "Touching")["data"]["session"]
    assert renamed == told
    assert (told["turn"]["id"], told["asks"]) == (turn_id, row["asks"])


def test_replay_shows_the_asks_that_were_open_then(stage: Stage) -> None:
    talk, turn_id, ask = waiting(stage)
    live = updated(talk, "waiting")
    talk.answer(ask, "allow")
    talk.answer(talk.ask(), "allow")
    talk.ended(turn_id)
    with stage.daemon.follow(f"?session={talk.id}&after=0") as late:
        told = (event["data"]["session"] for event in late.events() if event["type"] == "session.updated")
        assert next(session for session in told if session["status"] == "waiting") == live


def test_the_cursor_of_a_turn_is_where_it_began_wherever_it_is_shown(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk, turn_id, ask = waiting(stage)
    second = talk.ask()
    began = talk.wait("turn.started")["data"]["turn"]["cursor"]
    stage.restart()
    talk.answer(ask, "allow")
    talk.answer(second, "allow")
    assert talk.ended(turn_id)["cursor"] == began
    assert {data["turn"]["cursor"] for kind in ("turn.updated", "turn.ended") for data in talk.all(kind)} == {began}
    assert stage.daemon.call("turn/get", turn_id=turn_id)["cursor"] == began
    with stage.daemon.follow(f"?session={talk.id}&after={began}") as late:
        assert late.until("message.completed")["data"]["message"]["role"] == "user"


def test_a_session_with_a_turn_is_not_archived_and_the_error_names_the_turn(stage: Stage) -> None:
    talk, turn_id, _ = waiting(stage)
    error = talk.refused("session/archive", session_id=talk.id)
    assert (error["data"]["code"], error["data"]["turn_id"]) == ("turn_running", turn_id)
