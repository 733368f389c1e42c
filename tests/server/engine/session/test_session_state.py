"""What a session says of itself while a turn runs or waits, wherever it is shown."""

from collections.abc import Callable

from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.behaviors import Gate
from tests.support.messages_api.replies import calls, hold, message, says
from tests.support.model_replies import DONE


def start_waiting_turn(harness: Harness) -> tuple[SessionDriver, str, Json]:
    """A session whose turn waits for two answers, its turn, and the first ask."""
    driver = harness.open_session(
        message(calls("TestingPermission", {}), calls("TestingPermission", {})), otherwise=DONE
    )
    turn_id = driver.start()
    return driver, turn_id, driver.wait_for_ask()


def wait_for_status(driver: SessionDriver, status: str) -> Json:
    session: Json = driver.wait("session.updated", lambda data: data["session"]["status"] == status)["data"]["session"]
    return session


def get_listed_session(harness: Harness, driver: SessionDriver) -> Json:
    found: list[Json] = harness.daemon.call("session/list", cwd=str(driver.folder))["sessions"]
    return found[0]


def test_a_session_that_runs_shows_its_turn_in_events_and_lists(harness: Harness) -> None:
    driver = harness.open_session(message(says("First words ", hold(Gate()))))
    turn_id = driver.start()
    session = wait_for_status(driver, "running")
    assert (session["turn"]["id"], session["turn"]["status"], session["asks"]) == (turn_id, "running", [])
    assert get_listed_session(harness, driver)["turn"]["id"] == turn_id
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    session = wait_for_status(driver, "idle")
    assert (session["turn"], session["asks"]) == (None, [])
    assert get_listed_session(harness, driver)["turn"] is None


def test_a_session_that_waits_shows_its_turn_and_asks_in_events_and_lists(harness: Harness) -> None:
    driver, turn_id, ask = start_waiting_turn(harness)
    session = wait_for_status(driver, "waiting")
    assert (session["turn"]["id"], session["turn"]["status"]) == (turn_id, "waiting")
    assert session["asks"] == [ask]
    second = driver.wait_for_ask()
    row = get_listed_session(harness, driver)
    assert row["asks"] == [ask, second]
    assert (row["turn"]["status"], row["asks"]) == ("waiting", driver.fetch_state()["asks"])
    renamed = harness.daemon.call("session/update", session_id=driver.id, title="Touching")
    told = driver.wait("session.updated", lambda data: data["session"]["title"] == "Touching")["data"]["session"]
    assert renamed == told
    assert (told["turn"]["id"], told["asks"]) == (turn_id, row["asks"])


def test_replay_shows_the_asks_that_were_open_then(harness: Harness) -> None:
    driver, turn_id, ask = start_waiting_turn(harness)
    live = wait_for_status(driver, "waiting")
    driver.answer(ask, "allow")
    driver.answer(driver.wait_for_ask(), "allow")
    driver.wait_for_turn_end(turn_id)
    with harness.daemon.follow(f"?session={driver.id}&after=0") as late:
        told = (event["data"]["session"] for event in late.read_events() if event["type"] == "session.updated")
        assert next(session for session in told if session["status"] == "waiting") == live


def test_the_cursor_of_a_turn_is_where_it_began_wherever_it_is_shown(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver, turn_id, ask = start_waiting_turn(harness)
    second = driver.wait_for_ask()
    began = driver.wait("turn.started")["data"]["turn"]["cursor"]
    harness.restart()
    driver.answer(ask, "allow")
    driver.answer(second, "allow")
    assert driver.wait_for_turn_end(turn_id)["cursor"] == began
    assert {
        data["turn"]["cursor"] for kind in ("turn.updated", "turn.ended") for data in driver.list_event_data(kind)
    } == {began}
    assert harness.daemon.call("turn/get", turn_id=turn_id)["cursor"] == began
    with harness.daemon.follow(f"?session={driver.id}&after={began}") as late:
        assert late.wait_for("message.completed")["data"]["message"]["role"] == "user"


def test_a_session_with_a_turn_is_not_archived_and_the_error_names_the_turn(harness: Harness) -> None:
    driver, turn_id, _ = start_waiting_turn(harness)
    error = driver.expect_error("session/archive", session_id=driver.id)
    assert (error["data"]["code"], error["data"]["turn_id"]) == ("turn_running", turn_id)
