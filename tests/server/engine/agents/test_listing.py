"""Agents as they are listed where a crash came between the lines."""

from dataclasses import replace
from pathlib import Path

from ostler.protocol.ids import CallId, SessionId, new_session_id
from ostler.server.engine.session.agent_facts import OPTION, AgentFacts
from ostler.storage import Tx
from tests.support.inprocess import InProcessDaemon


def test_one_whose_daemon_was_killed_before_it_began_does_not_wait_for_ever(tmp_path: Path) -> None:
    facts = AgentFacts("general-purpose", "Look", "Look.", CallId("m_gone#0"), str(tmp_path))
    with InProcessDaemon(tmp_path / "home", settings={"model.name": "rehearsal"}) as daemon:
        parent = SessionId(daemon.call("session/create", cwd=str(tmp_path))["id"])

        def put(tx: Tx) -> None:
            record = tx.sessions.get(parent)
            child = replace(record, id=new_session_id(), parent_id=parent, options={OPTION: facts.as_json()})
            tx.sessions.put(child)

        daemon.write(put)
        (one,) = daemon.call("agent/list", session_id=parent)["agents"]
        assert (one["status"], one["ended_at"]) == ("killed", one["started_at"])
        assert daemon.call("session/get", session_id=parent)["agents"] == []
