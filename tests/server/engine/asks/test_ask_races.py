"""Two people, one ask: one answer, and both know whose."""

from functools import partial
from typing import Any

from tests.support.driver import Beside, Json, Stage, Talk
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE

ROUNDS = 40


def client(talk: Talk, name: str) -> str:
    params = {"client": {"name": name, "version": "1", "kind": "other"}}
    return str(talk.daemon.call("initialize", **params)["client_id"])


def resolve(talk: Talk, ask: Json, client_id: str, **answer: Any) -> Json:
    params = {"ask_id": ask["id"], "answer": answer}
    told: Json = talk.daemon.rpc("ask/resolve", params, headers={"Ostler-Client": client_id})
    return told


def test_an_answer_carries_the_client_that_gave_it(stage: Stage) -> None:
    talk = stage.talk(message(calls("Bash", {"command": "touch it"})), DONE)
    turn_id = talk.start()
    me = client(talk, "me")
    answered = resolve(talk, talk.ask(), me, choice="allow")["result"]
    assert (answered["answered_by"], answered["answered_by_name"]) == (me, "me (other)")
    talk.ended(turn_id)
    assert talk.all("ask.resolved")[0]["ask"] == answered
    assert talk.all("ask.opened")[0]["ask"]["answered_by_name"] is None
    assert talk.all("tool.completed")[0]["call"]["decision"]["source"] == me


def test_the_second_answer_is_told_who_won(stage: Stage) -> None:
    talk = stage.talk(message(calls("Bash", {"command": "touch it"})), DONE)
    turn_id = talk.start()
    one, two = client(talk, "one"), client(talk, "two")
    ask = talk.ask()
    won = resolve(talk, ask, one, choice="allow")["result"]
    lost = resolve(talk, ask, two, choice="deny")["error"]
    assert lost["data"]["code"] == "ask_resolved"
    assert lost["data"]["ask"] == won
    assert "by one (other) already" in lost["message"]
    assert talk.ended(turn_id)["reason"] == "completed"
    assert len(talk.all("ask.resolved")) == 1


def test_of_two_answers_at_once_exactly_one_wins(stage: Stage) -> None:
    talk = stage.talk(otherwise=message(*(calls("TestingPermission", {}) for _ in range(ROUNDS))))
    turn_id = talk.start(max_requests=1)
    people = [client(talk, name) for name in ("yes", "no")]
    answers: list[Json] = [{"choice": "allow"}, {"choice": "deny", "message": "no"}]
    winners = set()
    for _ in range(ROUNDS):
        ask = talk.ask()
        at_once = [
            Beside(partial(resolve, talk, ask, who, **answer)) for who, answer in zip(people, answers, strict=True)
        ]
        told = [each.result() for each in at_once]
        won = [answer["result"] for answer in told if "result" in answer]
        lost = [answer["error"] for answer in told if "error" in answer]
        assert (len(won), len(lost)) == (1, 1), told
        assert lost[0]["data"]["code"] == "ask_resolved"
        assert lost[0]["data"]["ask"] == won[0]
        stored = talk.daemon.call("ask/get", ask_id=ask["id"])
        assert stored == won[0]
        winners.add(won[0]["answered_by"])
    turn = talk.ended(turn_id)
    resolved = talk.all("ask.resolved")
    assert len(resolved) == len({data["ask"]["id"] for data in resolved}) == ROUNDS
    allowed = {data["ask"]["call"]["call_id"] for data in resolved if data["ask"]["answer"]["choice"] == "allow"}
    ran = {data["call"]["call_id"] for data in talk.all("tool.started")}
    assert ran == allowed
    assert len(turn["denials"]) == ROUNDS - len(allowed)
    assert winners <= set(people)
    talk.is_usable()


def test_an_answer_and_an_interrupt_at_once_leave_one_outcome(stage: Stage) -> None:
    for _ in range(8):
        talk = stage.talk(message(calls("Bash", {"command": "touch it"})), DONE)
        turn_id = talk.start()
        ask = talk.ask()
        me = client(talk, "me")
        stop = Beside(partial(stage.daemon.rpc, "turn/interrupt", {"turn_id": turn_id}))
        told = resolve(talk, ask, me, choice="allow")
        stop.result()
        turn = talk.ended(turn_id)
        stored = stage.daemon.call("ask/get", ask_id=ask["id"])
        assert stored["status"] == ("resolved" if "result" in told else "cancelled")
        assert (talk.folder / "it").exists() <= (stored["status"] == "resolved")
        assert turn["reason"] in {"interrupted", "completed"}
        assert len(talk.all("ask.resolved")) == 1
        assert len(talk.results()) == 1
        talk.is_usable()


def test_an_answer_and_a_delete_at_once_leave_nothing(stage: Stage) -> None:
    for _ in range(5):
        talk = stage.talk(message(calls("Bash", {"command": "touch it"})), DONE)
        talk.start()
        ask = talk.ask()
        gone = Beside(partial(stage.daemon.rpc, "session/delete", {"session_id": talk.id}))
        told = resolve(talk, ask, "", choice="allow")
        assert "result" in told or told["error"]["data"]["code"] in {
            "ask_resolved",
            "ask_not_found",
            "session_not_found",
        }
        assert "result" in gone.result()
        assert talk.refused("ask/get", ask_id=ask["id"])["data"]["code"] == "ask_not_found"
