"""The sessions of a folder know at once when it is trusted, or not any more."""

from tests.support.driver import Json, Stage, Talk
from tests.support.hooks import declared
from tests.support.model_replies import bash
from tests.support.projects import OURS, project, rules, talk_of

ALLOWING = rules(allow=["Bash(touch it)"])
SUBMITTING = declared("UserPromptSubmit", "touch acted")


def listed(talk: Talk) -> bool:
    sessions: list[Json] = talk.daemon.call("session/list", cwd=str(talk.folder))["sessions"]
    return bool(next(session for session in sessions if session["id"] == talk.id)["trusted"])


def told(talk: Talk) -> bool:
    """What the next event about the session says."""
    return bool(talk.wait("session.updated")["data"]["session"]["trusted"])


def counting(talk: Talk) -> list[Json]:
    found: list[Json] = talk.daemon.call("rule/list", session_id=talk.id)["rules"]
    return [rule for rule in found if rule["source"] == "project" and rule["counts"]]


def test_granting_and_revoking_are_seen_in_every_session_of_the_folder_at_once(stage: Stage) -> None:
    folder = project(stage, {OURS: ALLOWING})
    talks = [stage.talk(folder=folder) for _ in range(2)]
    elsewhere = stage.talk(folder=project(stage, {OURS: ALLOWING}))
    for method, trusted in (("trust/grant", True), ("trust/revoke", False)):
        before = [talk.state()["updated_at"] for talk in talks]
        answer = stage.daemon.call(method, folder=str(folder))
        assert answer["current"] is trusted
        assert [told(talk) for talk in talks] == [trusted, trusted]
        assert [talk.state()["trusted"] for talk in talks] == [trusted, trusted]
        assert [listed(talk) for talk in talks] == [trusted, trusted]
        assert [bool(counting(talk)) for talk in talks] == [trusted, trusted]
        assert [talk.state()["updated_at"] for talk in talks] == before
    assert elsewhere.state()["trusted"] is False
    assert elsewhere.types("session.updated") == []


def test_a_turn_goes_by_what_is_revoked_while_it_runs(stage: Stage) -> None:
    folder = project(stage, {OURS: ALLOWING})
    talk = talk_of(stage, bash("touch other"), bash("touch it"), folder=folder, trust=True)
    turn_id = talk.start()
    first = talk.ask()
    stage.daemon.call("trust/revoke", folder=str(folder))
    talk.answer(first, "allow")
    second = talk.ask()
    assert second["call"]["input"] == {"command": "touch it"}
    assert talk.state()["trusted"] is False
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    talk.ended(turn_id)


def test_trust_at_creation_and_by_an_answer_counts_for_the_other_sessions_too(stage: Stage) -> None:
    folder = project(stage, {OURS: SUBMITTING})
    first = stage.talk(folder=folder)
    assert first.state()["trusted"] is False
    stage.talk(folder=folder, trust=True)
    assert (told(first), first.state()["trusted"]) == (True, True)
    stage.daemon.call("trust/revoke", folder=str(folder))
    assert told(first) is False
    asking = talk_of(stage, bash("true"), folder=folder)
    turn_id = asking.start()
    asking.answer(asking.ask(), "trust")
    asking.ended(turn_id)
    assert (told(first), asking.state()["trusted"]) == (True, True)
