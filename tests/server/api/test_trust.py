"""The sessions of a folder know at once when it is trusted, or not any more."""

from tests.support.driver import Harness, Json, SessionDriver
from tests.support.hooks import declare_hook
from tests.support.model_replies import bash
from tests.support.projects import OSTLER_SETTINGS, build_rules, make_project, open_session_with_calls

ALLOW_SETTINGS = build_rules(allow=["Bash(touch it)"])
PROMPT_HOOK_SETTINGS = declare_hook("UserPromptSubmit", "touch acted")


def is_listed_as_trusted(driver: SessionDriver) -> bool:
    sessions: list[Json] = driver.daemon.call("session/list", cwd=str(driver.folder))["sessions"]
    return bool(next(session for session in sessions if session["id"] == driver.id)["trusted"])


def wait_for_trusted(driver: SessionDriver) -> bool:
    """What the next event about the session says."""
    return bool(driver.wait("session.updated")["data"]["session"]["trusted"])


def list_counting_rules(driver: SessionDriver) -> list[Json]:
    found: list[Json] = driver.daemon.call("rule/list", session_id=driver.id)["rules"]
    return [rule for rule in found if rule["source"] == "project" and rule["counts"]]


def test_granting_and_revoking_are_seen_in_every_session_of_the_folder_at_once(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: ALLOW_SETTINGS})
    drivers = [harness.open_session(folder=folder) for _ in range(2)]
    elsewhere = harness.open_session(folder=make_project(harness, {OSTLER_SETTINGS: ALLOW_SETTINGS}))
    for method, trusted in (("trust/grant", True), ("trust/revoke", False)):
        before = [driver.fetch_state()["updated_at"] for driver in drivers]
        answer = harness.daemon.call(method, folder=str(folder))
        assert answer["current"] is trusted
        assert [wait_for_trusted(driver) for driver in drivers] == [trusted, trusted]
        assert [driver.fetch_state()["trusted"] for driver in drivers] == [trusted, trusted]
        assert [is_listed_as_trusted(driver) for driver in drivers] == [trusted, trusted]
        assert [bool(list_counting_rules(driver)) for driver in drivers] == [trusted, trusted]
        assert [driver.fetch_state()["updated_at"] for driver in drivers] == before
    assert elsewhere.fetch_state()["trusted"] is False
    assert elsewhere.list_event_types("session.updated") == []


def test_a_turn_goes_by_what_is_revoked_while_it_runs(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: ALLOW_SETTINGS})
    driver = open_session_with_calls(harness, bash("touch other"), bash("touch it"), folder=folder, trust=True)
    turn_id = driver.start()
    first = driver.wait_for_ask()
    harness.daemon.call("trust/revoke", folder=str(folder))
    driver.answer(first, "allow")
    second = driver.wait_for_ask()
    assert second["call"]["input"] == {"command": "touch it"}
    assert driver.fetch_state()["trusted"] is False
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    driver.wait_for_turn_end(turn_id)


def test_trust_at_creation_and_by_an_answer_counts_for_the_other_sessions_too(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: PROMPT_HOOK_SETTINGS})
    first = harness.open_session(folder=folder)
    assert first.fetch_state()["trusted"] is False
    harness.open_session(folder=folder, trust=True)
    assert (wait_for_trusted(first), first.fetch_state()["trusted"]) == (True, True)
    harness.daemon.call("trust/revoke", folder=str(folder))
    assert wait_for_trusted(first) is False
    asking = open_session_with_calls(harness, bash("true"), folder=folder)
    turn_id = asking.start()
    asking.answer(asking.wait_for_ask(), "trust")
    asking.wait_for_turn_end(turn_id)
    assert (wait_for_trusted(first), asking.fetch_state()["trusted"]) == (True, True)
