"""Sessions over the wire: create, list, get, update, archive, delete, messages, fork, export."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ostler.protocol import times
from ostler.protocol.ids import ResultId, SessionId
from ostler.protocol.shapes import Message
from ostler.storage import Tx
from tests.support.daemon import Daemon
from tests.support.inprocess import InProcessDaemon


def test_a_new_session_has_the_shape_that_the_protocol_promises(shared_daemon: Daemon, tmp_path: Path) -> None:
    session = shared_daemon.call("session/create", cwd=str(tmp_path), title="fix login")
    for name in ("id", "root_id", "created_at", "updated_at", "cursor"):
        assert session[name]
    assert session == {
        "id": session["id"],
        "cwd": str(tmp_path),
        "title": "fix login",
        "model": "rehearsal",
        "provider": "rehearsal",
        "mode": "default",
        "status": "idle",
        "additional_directories": [],
        "parent_id": None,
        "root_id": session["id"],
        "agent": None,
        "on_ask": "ask",
        "trusted": True,
        "created_at": session["created_at"],
        "updated_at": session["created_at"],
        "cursor": session["cursor"],
        "turn": None,
        "message": None,
        "calls": [],
        "agents": [],
        "tasks": [],
        "briefs": [],
        "asks": [],
        "usage": {
            "input_tokens": 0,
            "output_tokens": 0,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
            "cost_usd": "0",
        },
        "metadata": {},
    }
    found = shared_daemon.call("session/get", session_id=session["id"])
    assert {**found, "cursor": 0} == {**session, "cursor": 0}
    assert found["cursor"] >= session["cursor"]


def test_everything_that_can_be_asked_for_is_accepted(shared_daemon: Daemon, tmp_path: Path) -> None:
    session = shared_daemon.call(
        "session/create",
        cwd=str(tmp_path),
        title="all",
        model="claude-sonnet-5",
        mode="acceptEdits",
        on_ask="deny",
        rules={"allow": ["Bash(npm test:*)"], "ask": [], "deny": ["Read(secrets/**)"]},
        trust=True,
        thinking={"type": "enabled", "budget_tokens": 1024},
        tools=["Read", "Bash"],
        additional_directories=["/"],
        instructions="be brief",
        env={"A": "b"},
        mcp_servers={"db": {"command": "x"}},
        max_budget_usd="5.00",
        on_restart="resume",
        wake_on_task_end=True,
        metadata={"ticket": 7},
        idempotency_key="everything-1",
    )
    assert (session["provider"], session["trusted"], session["mode"]) == ("anthropic", True, "acceptEdits")
    assert session["additional_directories"] == ["/"]


@pytest.mark.parametrize(
    "cwd", ["", "relative/path", ".", "~", "/no/such/folder", "/etc/passwd", "/tmp\0x", "/" + "a" * 300]
)
def test_a_folder_that_is_none_is_named(shared_daemon: Daemon, cwd: str) -> None:
    error = shared_daemon.expect_error("session/create", cwd=cwd)
    assert (error["code"], error["data"]["code"]) == (-32001, "bad_folder")


def test_a_bad_further_folder_is_refused_and_nothing_is_created(shared_daemon: Daemon, tmp_path: Path) -> None:
    error = shared_daemon.expect_error("session/create", cwd=str(tmp_path), additional_directories=["/", "nope"])
    assert error["data"]["code"] == "bad_folder"
    assert shared_daemon.call("session/list", cwd=str(tmp_path))["sessions"] == []


def test_a_folder_is_kept_as_written_without_what_means_nothing(shared_daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    session = shared_daemon.call("session/create", cwd=f"{tmp_path}//./link/")
    assert session["cwd"] == f"{tmp_path}/link"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", "a\nb"),
        ("title", "x" * 501),
        ("title", "a\0b"),
        ("mode", "yolo"),
        ("tools", "everything"),
        ("env", {"A=B": "x"}),
        ("env", {"A": "x\0"}),
        ("env", {"A": 5}),
        ("max_budget_usd", "-1"),
        ("max_budget_usd", 5),
        ("metadata", {"big": "x" * 70_000}),
        ("metadata", {"nul": "a\0b"}),
        ("metadata", []),
        ("rules", {"permit": []}),
        ("rules", {"allow": ["x"] * 1001}),
        ("trust", "yes"),
        ("idempotency_key", ""),
        ("idempotency_key", "with space"),
        ("additional_directories", ["/"] * 101),
    ],
)
def test_a_wrong_field_is_an_error_that_names_it(shared_daemon: Daemon, field: str, value: Any) -> None:
    error = shared_daemon.expect_error("session/create", cwd="/", **{field: value})
    assert error["code"] == -32602
    assert error["data"]["errors"][0]["path"].startswith(field)


def test_bypass_is_forbidden_until_the_person_allows_it(daemon: Daemon) -> None:
    session = daemon.call("session/create", cwd="/")
    assert daemon.expect_error("session/create", cwd="/", mode="bypassPermissions")["data"]["code"] == "mode_forbidden"
    error = daemon.expect_error("session/update", session_id=session["id"], mode="bypassPermissions")
    assert error["data"]["code"] == "mode_forbidden"
    daemon.call("config/set", key="permissions.allow_bypass", value=True)
    assert daemon.call("session/create", cwd="/", mode="bypassPermissions")["mode"] == "bypassPermissions"


@pytest.mark.parametrize("session_id", ["s_none", "", "x" * 10_000, "s_1' OR 1=1 --", "s_\u0000"])
def test_an_unknown_session_is_said_to_be_unknown(shared_daemon: Daemon, session_id: str) -> None:
    for method in ("get", "update", "archive", "delete", "messages", "fork", "export"):
        error = shared_daemon.expect_error(f"session/{method}", session_id=session_id)
        assert error["data"]["code"] == "session_not_found", method


def test_an_update_changes_what_is_given_and_leaves_the_rest(shared_daemon: Daemon, tmp_path: Path) -> None:
    session = shared_daemon.call("session/create", cwd=str(tmp_path), title="one", metadata={"a": 1})
    changed = shared_daemon.call("session/update", session_id=session["id"], mode="plan", model="claude-opus-5")
    assert (changed["title"], changed["mode"], changed["metadata"]) == ("one", "plan", {"a": 1})
    assert (changed["model"], changed["provider"]) == ("claude-opus-5", "anthropic")
    assert changed["cursor"] > session["cursor"]
    cleared = shared_daemon.call("session/update", session_id=session["id"], title=None, model=None, metadata={"b": 2})
    assert (cleared["title"], cleared["model"], cleared["metadata"]) == (None, "rehearsal", {"b": 2})


def test_an_update_that_changes_nothing_is_no_event(daemon: Daemon) -> None:
    session = daemon.call("session/create", cwd="/", title="same")
    before = daemon.call("server/stats")["cursor"]
    assert daemon.call("session/update", session_id=session["id"], title="same")["title"] == "same"
    assert daemon.call("session/update", session_id=session["id"])["title"] == "same"
    assert daemon.call("server/stats")["cursor"] == before


def test_the_same_key_gives_the_same_session_and_other_params_conflict(shared_daemon: Daemon, tmp_path: Path) -> None:
    params: dict[str, Any] = {"cwd": str(tmp_path), "title": "once", "idempotency_key": f"key-{os.urandom(8).hex()}"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: shared_daemon.call("session/create", **params), range(16)))
    assert all(answer == answers[0] for answer in answers)
    assert len(shared_daemon.call("session/list", cwd=str(tmp_path))["sessions"]) == 1
    error = shared_daemon.expect_error("session/create", **{**params, "title": "other"})
    assert error["data"]["code"] == "conflict"


def test_a_key_is_remembered_over_a_crash_and_belongs_to_its_method(home: Path) -> None:
    with Daemon(home) as daemon:
        created = daemon.call("session/create", cwd="/", idempotency_key="k")
        forked = daemon.call("session/fork", session_id=created["id"], idempotency_key="k")
        assert forked["id"] != created["id"]
        daemon.kill()
        daemon.start()
        assert daemon.call("session/create", cwd="/", idempotency_key="k") == created
        assert daemon.call("session/fork", session_id=created["id"], idempotency_key="k") == forked


def test_a_list_is_by_newest_activity_and_pages_to_the_end(daemon: Daemon) -> None:
    made = [daemon.call("session/create", cwd="/", title=f"number {n}")["id"] for n in range(7)]
    daemon.call("session/update", session_id=made[2], title="touched")
    wanted = [made[2], *(made[n] for n in (6, 5, 4, 3, 1, 0))]
    seen: list[str] = []
    page: str | None = None
    while True:
        answer = daemon.call("session/list", limit=3, page=page)
        seen += [session["id"] for session in answer["sessions"]]
        page = answer["next"]
        if page is None:
            break
    assert seen == wanted


def test_a_list_can_be_narrowed(daemon: Daemon, tmp_path: Path) -> None:
    here = daemon.call("session/create", cwd=str(tmp_path), title="Überprüfung der Ställe")["id"]
    there = daemon.call("session/create", cwd="/", title="other")["id"]
    daemon.call("session/archive", session_id=there)

    def ids(**wanted: Any) -> list[str]:
        return [session["id"] for session in daemon.call("session/list", **wanted)["sessions"]]

    assert ids() == [here]
    assert ids(cwd=str(tmp_path)) == [here]
    assert ids(text="STÄLLE") == [here]
    assert ids(text="%") == []
    assert ids(archived=True) == ids(status="archived") == [there]
    assert ids(archived=None) == [there, here]
    assert daemon.call("session/archive", session_id=there, archived=False)["status"] == "idle"
    assert set(ids()) == {here, there}


@pytest.mark.parametrize("page", ["", "x", "AAAA", "bnVsbA", "W10", "é", "W zEs", "=" * 50])
def test_a_page_token_from_elsewhere_is_refused(shared_daemon: Daemon, page: str) -> None:
    error = shared_daemon.expect_error("session/list", page=page)
    assert (error["code"], error["data"]["errors"][0]["path"]) == (-32602, "page")


def test_a_page_token_fits_only_the_list_it_came_from(daemon: Daemon) -> None:
    for _ in range(3):
        daemon.call("session/create", cwd="/")
    token = daemon.call("session/list", limit=1)["next"]
    assert daemon.expect_error("session/list", limit=1, text="x", page=token)["code"] == -32602
    session_id = daemon.call("session/list")["sessions"][0]["id"]
    assert daemon.expect_error("session/messages", session_id=session_id, page=token)["code"] == -32602
    assert daemon.call("session/list", limit=2, page=token)["sessions"]


@pytest.mark.parametrize("limit", [0, 501, -1, "10", 1.5, None, True])
def test_a_limit_is_a_number_from_one_to_five_hundred(shared_daemon: Daemon, limit: Any) -> None:
    assert shared_daemon.expect_error("session/list", limit=limit)["code"] == -32602


# A history, as the turn engine will write it.


def add_message(daemon: InProcessDaemon, session_id: str, number: int, role: str, *content: Any) -> str:
    message_id = f"m_{session_id}_{number:04d}"
    message = Message.model_validate(
        {"id": message_id, "session_id": session_id, "role": role, "content": content, "created_at": times.now()}
    )

    def work(tx: Tx) -> None:
        tx.messages.add(message)

    daemon.write(work)
    return message_id


def create_session_with_history(daemon: InProcessDaemon) -> tuple[str, list[str]]:
    session_id = daemon.call("session/create", cwd="/", title="with history")["id"]
    use = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/etc/hosts"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "127.0.0.1 ```localhost```"}
    ids = [
        add_message(daemon, session_id, 1, "user", {"type": "text", "text": "read it"}),
        add_message(daemon, session_id, 2, "assistant", {"type": "thinking", "thinking": "hm", "signature": "s"}, use),
        add_message(daemon, session_id, 3, "user", result),
        add_message(daemon, session_id, 4, "assistant", {"type": "text", "text": "done", "new_field": {"kept": True}}),
    ]
    return session_id, ids


def test_messages_come_oldest_first_in_pages_and_as_they_were(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        session_id, ids = create_session_with_history(daemon)
        first = daemon.call("session/messages", session_id=session_id, limit=3)
        rest = daemon.call("session/messages", session_id=session_id, limit=3, page=first["next"])
        assert [one["id"] for one in first["messages"] + rest["messages"]] == ids
        assert rest["next"] is None
        assert rest["messages"][0]["content"] == [{"type": "text", "text": "done", "new_field": {"kept": True}}]
        bare = daemon.call("session/messages", session_id=session_id, include_results=False)["messages"]
        assert bare[2]["content"] == [{"type": "tool_result", "tool_use_id": "toolu_1", "content": []}]


def test_a_fork_has_the_history_up_to_its_message_and_a_life_of_its_own(home: Path) -> None:
    with InProcessDaemon(home) as daemon:
        session_id, ids = create_session_with_history(daemon)
        fork = daemon.call("session/fork", session_id=session_id, message_id=ids[1], title="branch")
        assert (fork["title"], fork["root_id"], fork["parent_id"]) == ("branch", fork["id"], None)
        old = daemon.call("session/messages", session_id=session_id)["messages"]
        new = daemon.call("session/messages", session_id=fork["id"])["messages"]
        assert [one["content"] for one in new] == [one["content"] for one in old[:2]]
        assert not {one["id"] for one in new} & set(ids)
        whole = daemon.call("session/fork", session_id=session_id)
        assert len(daemon.call("session/messages", session_id=whole["id"])["messages"]) == 4
        error = daemon.expect_error("session/fork", session_id=fork["id"], message_id=ids[3])
        assert error["data"]["code"] == "message_not_found"


@pytest.mark.parametrize("wanted", ["jsonl", "json", "markdown"])
def test_an_export_is_the_whole_session_in_one_file(home: Path, wanted: str) -> None:
    with InProcessDaemon(home) as daemon:
        session_id, ids = create_session_with_history(daemon)
        for number in range(5, 250):
            ids.append(add_message(daemon, session_id, number, "user", {"type": "text", "text": f"word {number}"}))
        download = daemon.send_http("GET", f"/sessions/{session_id}/export?format={wanted}")
        export = daemon.call("session/export", session_id=session_id, format=wanted)
        text = download.body.decode()
        assert export["content"] == text
        assert export["filename"] in download.headers["content-disposition"]
        assert export["media_type"] == download.headers["content-type"]
        if wanted == "jsonl":
            head, *rest = [json.loads(line) for line in text.splitlines()]
            assert head["session"]["id"] == session_id
            assert [one["message"]["id"] for one in rest] == ids
        elif wanted == "json":
            assert [one["id"] for one in json.loads(text)["messages"]] == ids
        else:
            assert text.startswith("# with history\n")
            assert "````\n127.0.0.1 ```localhost```\n````" in text  # the fence is longer than what it holds
            assert text.rstrip().endswith("word 249")


def test_an_export_of_nothing_is_404_and_of_an_unknown_kind_400(shared_daemon: Daemon) -> None:
    missing = shared_daemon.send_http("GET", "/sessions/s_none/export")
    assert (missing.status, missing.json["error"]["data"]["code"]) == (404, "session_not_found")
    session_id = shared_daemon.call("session/create", cwd="/")["id"]
    bad = shared_daemon.send_http("GET", f"/sessions/{session_id}/export?format=pdf")
    assert (bad.status, bad.json["error"]["data"]["errors"][0]["path"]) == (400, "format")


def test_a_persisted_result_can_be_downloaded_and_goes_with_its_last_owner(home: Path) -> None:
    text = "zeile ünd 🐎\n" * 20_000
    with InProcessDaemon(home) as daemon:
        owner = daemon.call("session/create", cwd="/")["id"]
        result_id = ResultId("r_test")
        daemon.write(lambda tx: tx.results.put(result_id, SessionId(owner), text, tool="Bash"))
        fork = daemon.call("session/fork", session_id=owner)["id"]
        answer = daemon.send_http("GET", f"/results/{result_id}")
        assert answer.body.decode() == text
        assert "attachment" in answer.headers["content-disposition"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        daemon.call("session/delete", session_id=owner)
        assert daemon.send_http("GET", f"/results/{result_id}").status == 200
        daemon.call("session/delete", session_id=fork)
        assert daemon.send_http("GET", f"/results/{result_id}").json["error"]["data"]["code"] == "result_not_found"


def test_a_deleted_session_is_gone_and_stays_gone(daemon: Daemon) -> None:
    session_id = daemon.call("session/create", cwd="/", title="secret title", metadata={"a": "secret data"})["id"]
    daemon.call("session/update", session_id=session_id, title="secret title two")
    assert daemon.call("session/delete", session_id=session_id) == {"session_ids": [session_id]}
    assert daemon.expect_error("session/delete", session_id=session_id)["data"]["code"] == "session_not_found"
    assert daemon.send_http("GET", f"/events?session={session_id}").status == 404
    with daemon.follow("?after=0") as stream:
        (event,) = stream.take(1)
    assert (event["type"], event["session_id"]) == ("session.deleted", session_id)
    assert "secret" not in json.dumps(event)
    daemon.stop()
    assert b"secret data" not in (daemon.home / "ostler.db").read_bytes()


def test_a_retry_gets_the_same_answer_also_when_the_world_has_changed(daemon: Daemon, tmp_path: Path) -> None:
    folder = tmp_path / "soon gone"
    folder.mkdir()
    created = daemon.call("session/create", cwd=str(folder), idempotency_key="create")
    forked = daemon.call("session/fork", session_id=created["id"], idempotency_key="fork")
    folder.rmdir()
    assert daemon.call("session/create", cwd=str(folder), idempotency_key="create") == created
    daemon.call("session/delete", session_id=created["id"])
    assert daemon.call("session/fork", session_id=created["id"], idempotency_key="fork") == forked


def test_a_page_token_that_somebody_made_up_is_refused(shared_daemon: Daemon) -> None:
    from ostler.protocol.session import SessionMessages
    from ostler.server.rpc.paging import make_page_token

    session_id = shared_daemon.call("session/create", cwd="/")["id"]
    for position in (2**63, -1):
        token = make_page_token("session/messages", SessionMessages(session_id=session_id), [position])
        assert shared_daemon.expect_error("session/messages", session_id=session_id, page=token)["code"] == -32602
