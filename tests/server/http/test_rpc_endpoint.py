"""`POST /rpc`: every corner of JSON-RPC 2.0 over HTTP that the protocol names."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.protocol.generate.schema import build_wire_definitions
from ostler.protocol.limits import MAX_BODY_BYTES
from ostler.protocol.methods import Method
from ostler.protocol.wire import Nothing, Shape
from ostler.server.daemon.daemon import Daemon as RunningDaemon
from ostler.server.rpc.dispatcher import Caller
from ostler.server.rpc.param_errors import PATTERNS
from tests.support.daemon import Daemon, wait_until
from tests.support.inprocess import InProcessDaemon


def make_info_call(call_id: Any = 1, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call_id, "method": "server/info", **more}


def post_for_error(daemon: Daemon, body: Any) -> tuple[int, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = daemon.post(raw)
    assert answer.status == 200
    return answer.json["error"]["code"], answer.json["id"]


@pytest.mark.parametrize("call_id", [1, "one", 0, -7, 1.5, None, "", 2**53, 2**64 - 1, -(2**63)])
def test_an_answer_carries_the_id_of_its_request(shared_daemon: Daemon, call_id: Any) -> None:
    answer = shared_daemon.post(json.dumps(make_info_call(call_id)).encode()).json
    assert answer["id"] == call_id
    assert answer["jsonrpc"] == "2.0"
    assert answer["result"]["server"]["name"] == "ostler"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"jsonrpc": "2.0", "id": 1, "method": "server/info"',
        b'\xff\xfe{"a":1}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"server/info"}',
        b'{"jsonrpc":"2.0","id":1,"method":"server/info","x":"\xc3\x28"}',
        b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"server/info"}',
        b"[" * 101 + b"]" * 101,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"[" * 100_000,
    ],
)
def test_what_is_not_json_is_a_parse_error(shared_daemon: Daemon, body: bytes) -> None:
    assert post_for_error(shared_daemon, body) == (-32700, None)


def test_depth_counts_nesting_and_not_brackets(shared_daemon: Daemon) -> None:
    deep = json.loads("[" * 97 + "]" * 97)
    wide: list[Any] = [[] for _ in range(500)]
    text = "[" * 500 + '\\"' + "{" * 500
    metadata = {"deep": deep, "wide": wide, "text": text}
    answer = shared_daemon.send_rpc("session/create", {"cwd": "/", "metadata": metadata})
    assert answer["result"]["metadata"] == metadata
    shared_daemon.call("session/delete", session_id=answer["result"]["id"])


def test_too_many_values_are_refused_before_they_are_parsed(shared_daemon: Daemon) -> None:
    assert post_for_error(shared_daemon, b"[" + b"[]," * 5_000_000 + b"[]]") == (-32600, None)
    assert post_for_error(shared_daemon, b'{"a":[' + b"1," * 600_000 + b"1]}") == (-32600, None)
    words = "one, two, [three], " * 100_000  # as many commas, but in one string
    answer = shared_daemon.send_rpc("session/create", {"cwd": "/", "instructions": words})
    shared_daemon.call("session/delete", session_id=answer["result"]["id"])


@pytest.mark.parametrize(
    ("body", "call_id"),
    [
        ([], None),
        ("text", None),
        (7, None),
        (None, None),
        ({}, None),
        ({"id": 4, "method": "server/info"}, 4),
        ({"jsonrpc": "1.0", "id": 4, "method": "server/info"}, 4),
        ({"jsonrpc": "2.0", "id": 4}, 4),
        ({"jsonrpc": "2.0", "id": 4, "method": 5}, 4),
        (make_info_call(True), None),
        (make_info_call([1]), None),
        (make_info_call({"a": 1}), None),
        (make_info_call(2**64), None),
        (make_info_call(-(10**30)), None),
        (make_info_call(4, params="x"), 4),
        (make_info_call(4, params=5), 4),
        (make_info_call(4, params=None), 4),
        ([make_info_call(n) for n in range(51)], None),
    ],
)
def test_json_that_is_no_request_is_an_invalid_request(shared_daemon: Daemon, body: Any, call_id: Any) -> None:
    assert post_for_error(shared_daemon, body) == (-32600, call_id)


def test_an_unknown_method_is_named(shared_daemon: Daemon) -> None:
    error = shared_daemon.expect_error("session/explode")
    assert error["code"] == -32601
    assert "session/explode" in error["message"]


def test_params_by_position_are_refused_unless_there_are_none(shared_daemon: Daemon) -> None:
    assert "result" in shared_daemon.send_rpc("server/info", [])
    assert shared_daemon.send_rpc("server/info", [1])["error"]["code"] == -32602


def test_each_bad_field_is_named_with_its_path(shared_daemon: Daemon) -> None:
    error = shared_daemon.expect_error("session/create", cwd=5, rules={"allow": ["ok", 7]}, colour="red", mode="wild")
    assert error["code"] == -32602
    assert {one["path"] for one in error["data"]["errors"]} == {"cwd", "rules.allow.1", "colour", "mode"}
    assert all(one["reason"] for one in error["data"]["errors"])


@pytest.mark.parametrize(
    ("method", "params", "path", "reason"),
    [
        ("session/create", {}, "cwd", "is required"),
        ("session/create", {"colour": "red"}, "colour", "unknown field"),
        ("session/create", {"cwd": 5}, "cwd", "must be a string"),
        ("session/create", {"trust": "yes"}, "trust", "must be true or false"),
        ("session/create", {"on_ask": "shrug"}, "on_ask", "must be 'ask' or 'deny'"),
        ("session/create", {"max_budget_usd": "5,00"}, "max_budget_usd", 'must be an amount as "5.00", with'),
        ("session/create", {"idempotency_key": ""}, "idempotency_key", "must not be empty"),
        ("session/create", {"idempotency_key": "a b"}, "idempotency_key", "must be printable ASCII without spaces"),
        ("session/create", {"title": "a\nb"}, "title", "contains the control character"),
        ("session/create", {"env": {"1X": ""}}, "env.1X.[key]", "must be letters, digits and `_`"),
        ("session/list", {"limit": 0}, "limit", "must be at least 1"),
        ("session/list", {"limit": 1.5}, "limit", "must be a whole number"),
        ("session/list", {"cwd": "proj"}, "cwd", "'proj' is relative; give the absolute path of a folder"),
        ("turn/start", {"input": []}, "input.blocks", "must not be empty"),
        ("turn/start", {"tool_choice": {"type": "zzz"}}, "tool_choice", "must have a `type`: 'auto', 'any', 'none'"),
        ("turn/start", {"tool_choice": {"type": "tool"}}, "tool_choice", "needs the `name` of the tool"),
        ("rule/add", {"expires_at": "tomorrow"}, "expires_at", "must be a time with its zone, as 2026-01-31T12:00:00Z"),
        ("rule/add", {"expires_at": "2030-01-31T12:00:00"}, "expires_at", "must be a time with its zone"),
        ("ask/resolve", {"ask_id": "k_1", "answer": {"choice": "maybe"}}, "answer", "has the unknown 'choice' 'maybe'"),
    ],
)
def test_a_reason_says_in_plain_words_what_is_expected(
    shared_daemon: Daemon, method: str, params: dict[str, Any], path: str, reason: str
) -> None:
    errors = {one["path"]: one["reason"] for one in shared_daemon.expect_error(method, **params)["data"]["errors"]}
    assert errors[path].startswith(reason), errors


@pytest.mark.without_daemon
def test_every_pattern_of_the_wire_has_words() -> None:
    assert set(_find_patterns(build_wire_definitions(""))) <= set(PATTERNS)


def _find_patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        for inner in schema.values():
            yield from _find_patterns(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _find_patterns(inner)


@pytest.mark.parametrize(
    ("field", "given", "path"),
    [
        ("input", 5, "input.words"),
        ("input", "", "input.words"),
        ("input", "a\0b", "input.words"),
        ("input", [], "input.blocks"),
        ("input", [{"type": "text"}], "input.blocks.0.text.text"),
        ("tools", "some", "tools.preset"),
        ("tools", ["Read", 5], "tools.names.1"),
    ],
)
def test_the_path_of_a_bad_field_has_nothing_of_the_inside(
    shared_daemon: Daemon, field: str, given: Any, path: str
) -> None:
    error = shared_daemon.expect_error("run", **{"cwd": "/", "input": "x", field: given})
    assert error["code"] == -32602
    assert [one["path"] for one in error["data"]["errors"]] == [path]


def test_a_notification_is_never_answered(shared_daemon: Daemon) -> None:
    for call in (
        {"jsonrpc": "2.0", "method": "server/info"},
        {"jsonrpc": "2.0", "method": "no/such"},
        {"jsonrpc": "2.0", "method": "session/get", "params": {"session_id": "s_none"}},
        {"jsonrpc": "2.0", "method": "session/get", "params": 5},
    ):
        answer = shared_daemon.post(json.dumps(call).encode())
        assert (answer.status, answer.body) == (202, b"")


def test_a_batch_is_answered_in_order_without_its_notifications(shared_daemon: Daemon) -> None:
    calls = [
        make_info_call(1),
        {"jsonrpc": "2.0", "method": "server/info"},
        5,
        make_info_call(2, params=7),
        make_info_call("three"),
    ]
    answers = shared_daemon.post(json.dumps(calls).encode()).json
    assert [(one["id"], one.get("error", {}).get("code")) for one in answers] == [
        (1, None),
        (None, -32600),
        (2, -32600),
        ("three", None),
    ]


def test_a_batch_of_fifty_is_answered(shared_daemon: Daemon) -> None:
    answers = shared_daemon.post(json.dumps([make_info_call(n) for n in range(50)]).encode()).json
    assert [one["id"] for one in answers] == list(range(50))


def test_a_batch_of_notifications_has_no_answer(shared_daemon: Daemon) -> None:
    calls = [{"jsonrpc": "2.0", "method": "server/info"}] * 3
    answer = shared_daemon.post(json.dumps(calls).encode())
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_another_content_type_is_415(shared_daemon: Daemon, kind: str) -> None:
    answer = shared_daemon.post(json.dumps(make_info_call()).encode(), {"Content-Type": kind})
    assert answer.status == 415
    assert answer.body == b"Wanted: `Content-Type: application/json`, with a JSON-RPC 2.0 request as the body.\n"


def test_a_content_type_with_a_charset_is_json_too(shared_daemon: Daemon) -> None:
    answer = shared_daemon.post(
        json.dumps(make_info_call()).encode(), {"Content-Type": "Application/JSON; charset=utf-8"}
    )
    assert answer.status == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_rpc_is_only_posted(shared_daemon: Daemon, method: str) -> None:
    answer = shared_daemon.send_http(method, "/rpc")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


def test_a_body_over_the_limit_is_413_and_the_daemon_lives(shared_daemon: Daemon) -> None:
    assert shared_daemon.post(b" " * (MAX_BODY_BYTES + 1)).status == 413
    assert shared_daemon.call("server/info")


def test_a_body_is_counted_while_it_comes_in(shared_daemon: Daemon) -> None:
    with socket.create_connection(("127.0.0.1", shared_daemon.port)) as raw:
        head = f"POST /rpc HTTP/1.1\r\nHost: localhost:{shared_daemon.port}\r\nContent-Type: application/json\r\n"
        raw.sendall(f"{head}Authorization: Bearer {shared_daemon.token}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        for _ in range(33):
            raw.sendall(chunk)
        raw.sendall(b"0\r\n\r\n")
        raw.settimeout(20)
        assert raw.recv(100).startswith(b"HTTP/1.1 413")


def test_a_body_just_under_the_limit_is_read(shared_daemon: Daemon) -> None:
    padding = b" " * (MAX_BODY_BYTES - 100)
    answer = shared_daemon.post(json.dumps(make_info_call()).encode() + padding)
    assert answer.json["result"]["ready"]


def test_the_calls_of_a_batch_run_concurrently_and_a_waiting_one_ends_with_its_connection(home: Path) -> None:
    """No method of this version only waits, so one is added to the table."""
    waiting, left = threading.Event(), threading.Event()

    class Waited(Shape):
        done: bool = True

    async def wait(params: Nothing, caller: Caller) -> Waited:
        import anyio

        waiting.set()
        try:
            await anyio.sleep_forever()
        finally:
            left.set()
        return Waited()

    def add(daemon: RunningDaemon) -> None:
        daemon.dispatcher._handlers.bind(Method("test/wait", Nothing, Waited, "nothing", "", waits=True), wait)

    with InProcessDaemon(home, prepare=add) as daemon:
        calls = [{"jsonrpc": "2.0", "id": 1, "method": "test/wait"}, make_info_call(2)]
        connection = daemon.open_connection()
        headers = {"Authorization": f"Bearer {daemon.token}", "Content-Type": "application/json"}
        connection.request("POST", "/rpc", json.dumps(calls), headers)
        assert waiting.wait(10)
        wait_until(lambda: daemon.running.calls.total >= 1)  # the other call of the batch went on
        connection.close()
        assert left.wait(10)
        assert daemon.call("server/info")


def test_no_error_carries_a_trace_of_the_inside(home: Path) -> None:
    async def broken(params: Nothing, caller: Caller) -> Shape:
        raise ZeroDivisionError("secret inside")

    def add(daemon: RunningDaemon) -> None:
        daemon.dispatcher._handlers.bind(Method("test/broken", Nothing, Shape, "nothing", ""), broken)

    with InProcessDaemon(home, prepare=add) as daemon:
        error = daemon.expect_error("test/broken")
        assert error["code"] == -32603
        assert "secret" not in json.dumps(error)
        assert error["data"]["error_id"]


def test_an_answer_about_many_wrong_fields_stays_short(shared_daemon: Daemon) -> None:
    for params in (
        {f"field {n}": n for n in range(100_000)},
        {"cwd": "/", "env": {f"bad name {n}": n for n in range(100_000)}},
        {"cwd": "/", "rules": {"allow": list(range(900))}},
    ):
        call = {"jsonrpc": "2.0", "id": 1, "method": "session/create", "params": params}
        answer = shared_daemon.post(json.dumps(call).encode())
        assert answer.json["error"]["code"] == -32602
        assert len(answer.body) < 20_000


def test_json_that_is_absurdly_deep_is_a_parse_error_at_once(shared_daemon: Daemon) -> None:
    assert post_for_error(shared_daemon, b"[" * 10_000_000 + b"]" * 10_000_000) == (-32700, None)
