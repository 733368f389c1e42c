"""Which clients are connected, and how the agents of a session belong to its stream."""

from contextlib import ExitStack
from pathlib import Path

from tests.support.daemon import Daemon
from tests.support.inprocess import InProcessDaemon
from tests.support.session_events import create_session, make_agent, rename_session, replay_events


def test_who_attaches_is_seen_by_the_others(daemon: Daemon) -> None:
    session_id = create_session(daemon)
    client = {"name": "vim", "version": "9", "kind": "ide"}
    introduced = daemon.call("initialize", client=client, capabilities={"answers": ["permission"]})
    assert introduced["protocol_version"]
    assert introduced["limits"]["max_batch"] == 50
    identity = {"Ostler-Client": introduced["client_id"]}
    with daemon.follow(f"?session={session_id}") as other:
        with daemon.follow(f"?session={session_id}", identity):
            (attached,) = other.take(1)
            assert attached["type"] == "client.attached"
            assert attached["data"]["client"]["name"] == "vim"
            (listed,) = daemon.call("client/list", session_id=session_id)["clients"]
            assert (listed["id"], listed["kind"], listed["session_ids"]) == (
                introduced["client_id"],
                "ide",
                [session_id],
            )
        assert other.wait_for("client.detached")["data"]["client"]["attached"] is False
    assert daemon.call("client/list")["clients"] == []


def test_clients_are_listed_page_by_page(home: Path) -> None:
    with Daemon(home) as daemon, ExitStack() as streams:
        for number in range(3):
            client_id = daemon.call("initialize", client={"name": f"vim {number}", "version": "1"})["client_id"]
            stream = streams.enter_context(daemon.follow(headers={"Ostler-Client": client_id}))
            stream.wait_for("client.attached")
        first = daemon.call("client/list", limit=2)
        rest = daemon.call("client/list", limit=2, page=first["next"])
        names = [client["name"] for client in (*first["clients"], *rest["clients"])]
        assert (names, rest["next"]) == (["vim 0", "vim 1", "vim 2"], None)


def test_a_client_is_still_known_after_a_restart_and_a_stranger_is_served(home: Path) -> None:
    with Daemon(home) as daemon:
        client_id = daemon.call("initialize", client={"name": "cli", "version": "1"})["client_id"]
        daemon.kill()
        daemon.start()
        with daemon.follow(headers={"Ostler-Client": client_id}) as stream:
            assert stream.take(1)[0]["data"]["client"]["id"] == client_id
            with daemon.follow(headers={"Ostler-Client": "c_nobody"}) as stranger:
                create_session(daemon)
                assert stranger.take(1)[0]["type"] == "session.created"


def test_a_sessions_stream_includes_its_agents_and_theirs(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        root = create_session(daemon)
        early = make_agent(daemon, root, "s_early")
        other = make_agent(daemon, root, "s_other")
        with (
            daemon.follow(f"?session={root}&after=0") as whole,
            daemon.follow(f"?session={early}&after=0") as branch,
        ):
            late = make_agent(daemon, early, "s_late")
            for session_id in (root, other, late):
                rename_session(daemon, session_id, "x")
            assert [event["session_id"] for event in whole.take(7)] == [root, early, other, late, root, other, late]
            assert [event["session_id"] for event in branch.take(3)] == [early, late, late]
        gone = daemon.call("session/delete", session_id=root)["session_ids"]
        assert set(gone) == {root, early, other, late}
        assert [event["type"] for event in replay_events(daemon)] == ["session.deleted"] * 4


def test_an_agents_events_keep_their_order_and_its_end_is_told(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        root = create_session(daemon)
        agent = make_agent(daemon, root, "s_agent")
        below = make_agent(daemon, agent, "s_below")
        introduced = daemon.call("initialize", client={"name": "t", "version": "1"})["client_id"]
        watching = f"?session={agent}"
        with daemon.follow(f"?session={root}") as whole, daemon.follow(watching, {"Ostler-Client": introduced}):
            attached = whole.take(1)[0]
            assert (attached["type"], attached["root_id"]) == ("client.attached", root)
        cursor = daemon.call("server/info")["cursor"]
        daemon.call("session/delete", session_id=below)
        with daemon.follow(f"?session={agent}&after={cursor}") as resumed:
            assert [(event["type"], event["session_id"]) for event in resumed.take(1)] == [("session.deleted", below)]
