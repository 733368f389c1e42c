"""The scripted server keeps what the tests that use it rely on."""

import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.messages_api.behaviors import Gate, Reply
from tests.support.messages_api.failures import fails, hangs, html, overloaded, resets, too_long
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import (
    after,
    broken_event,
    calls,
    calls_raw,
    clock,
    cut_after,
    ends_after,
    error_event,
    hold,
    message,
    pause,
    refuses,
    reset_after,
    says,
    says_nothing,
    slowly,
    speaks_for_ever,
    thinks,
    thinks_unseen,
)
from tests.support.messages_api.requests import (
    HEADERS,
    UNENCRYPTED,
    assistant,
    body,
    parse_events,
    post,
    result,
    use,
    user,
)
from tests.support.messages_api.scripts import attempts, loop
from tests.support.messages_api.server import ScriptedApi


def test_message_is_told_in_the_events_of_the_real_api(api: ScriptedApi) -> None:
    api.always(message(thinks("Hm.", signature="s"), says("Hel", "lo"), calls("Read", {"a": 1}, id="toolu_7")))
    response = post(api)
    told = parse_events(response)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["request-id"].startswith("req_")
    assert [event["type"] for event in told] == [
        "message_start",
        *("content_block_start", "ping", "content_block_delta", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        "message_delta",
        "message_stop",
    ]
    assert told[0]["message"]["model"] == "m"
    assert told[0]["message"]["usage"]["input_tokens"] == 100
    assert told[4]["delta"] == {"type": "signature_delta", "signature": "s"}
    assert told[10]["content_block"] == {"type": "tool_use", "id": "toolu_7", "name": "Read", "input": {}}
    assert told[12]["delta"] == {"type": "input_json_delta", "partial_json": '{"a":1}'}
    assert told[14]["delta"]["stop_reason"] == "tool_use"
    assert told[14]["usage"]["output_tokens"] == 20


def test_event_name_and_type_are_the_same_on_the_wire(api: ScriptedApi) -> None:
    api.always(message(says("hello")))
    lines = post(api).text.splitlines()
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert names == [json.loads(line[6:])["type"] for line in lines if line.startswith("data: ")]


def test_conversation_is_found_by_the_marker_in_its_first_text(api: ScriptedApi) -> None:
    api.script("one", message(says("for one")))
    api.script("two", message(says("for two")))
    api.always(message(says("for the rest")))
    two = body(user("environment [unknown]", "do it [two:5]"))
    assert "for two" in post(api, two).text
    assert "for one" in post(api, body(user("[one] [two]"))).text
    assert "for the rest" in post(api, body(user("[three]"))).text
    assert [request.conversation for request in api.requests][:2] == ["two:5", "one"]
    assert api.list_requests("two:5")[0].body == two


def test_answer_depends_on_the_messages_and_not_on_what_was_asked_before(api: ScriptedApi) -> None:
    api.always(message(says("first")), message(says("second")))
    later = body(user("a"), assistant("first"), user("b"))
    assert "second" in post(api, later).text
    assert "first" in post(api, body(user("a"))).text
    api.may_rewrite = True


def test_attempts_are_counted_for_each_conversation(api: ScriptedApi) -> None:
    api.script("try", attempts(overloaded(), message(says("at last"))))
    told = [post(api, body(user(f"[try:{who}]"))).status_code for who in ("a", "b", "a", "a", "b")]
    assert told == [529, 529, 200, 200, 200]


def test_answer_can_be_made_from_the_request(api: ScriptedApi) -> None:
    def answer(request: RecordedRequest) -> Reply:
        return message(says(f"you said {request.messages[-1]['content'][0]['text']}"))

    api.always(answer)
    assert "you said hello" in post(api).text


def test_function_that_raises_is_a_violation(api: ScriptedApi) -> None:
    api.may_refuse = True
    api.always(lambda request: message(says(request.body["nothing"])))
    assert post(api).status_code == 400
    assert "KeyError" in api.violations[0].text


def test_step_without_an_answer_is_a_violation(api: ScriptedApi) -> None:
    api.may_refuse = True
    api.always(message(says("only one")))
    assert post(api, body(user("a"), assistant("only one"), user("b"))).status_code == 400
    assert "no answer number 1" in api.violations[0].text


def test_loop_calls_so_often_and_then_speaks_and_starts_again() -> None:
    with ScriptedApi(default=loop("loop", 2, "Bash", {"command": "true"}, parallel=3)) as api:
        history = [user("go")]
        reasons: list[str] = []
        ids: list[str] = []
        for _ in range(4):
            told = parse_events(post(api, body(*history)))
            reasons.append(told[-2]["delta"]["stop_reason"])
            ids = [event["content_block"]["id"] for event in told if event.get("content_block", {}).get("id")]
            history += [assistant("x", *map(use, ids)), user(*map(result, ids), "and")]
    assert reasons == ["tool_use", "tool_use", "end_turn", "tool_use"]
    assert len(ids) == len(set(ids)) == 3
    assert not api.violations


def test_gate_holds_the_stream_in_the_middle(api: ScriptedApi) -> None:
    gate = Gate()
    api.always(message(says("before ", hold(gate), "after")))
    with httpx2.stream("POST", f"{api.url}/v1/messages", json=body(), headers=HEADERS, verify=UNENCRYPTED) as response:
        chunks = response.iter_text()
        seen = ""
        while "before" not in seen:
            seen += next(chunks)
        gate.wait_until_reached()
        assert "after" not in seen
        assert api.requests[0].end is None
        gate.open()
        assert "after" in "".join(chunks)
    assert api.requests[0].wait_until_ended() == "complete"


def test_gate_before_the_headers_holds_them(api: ScriptedApi) -> None:
    gate = Gate()
    api.always(after(message(says("hi")), hold(gate)))
    with ThreadPoolExecutor(1) as pool:
        response = pool.submit(post, api)
        gate.wait_until_reached()
        assert not response.done()
        gate.open()
        assert response.result(30).status_code == 200


def test_pauses_are_kept(api: ScriptedApi) -> None:
    api.always(slowly(message(says("a")), 0.01), message(says("a", pause(0.05), "b")))
    post(api)
    post(api, body(user("hello"), assistant("a"), user("more")))
    slow, paused = api.requests
    assert all(later - earlier >= 0.01 for earlier, later in zip(slow.sent, slow.sent[1:], strict=False))
    assert paused.last_sent - paused.first_sent >= 0.05


def test_clock_tells_when_it_was_sent(api: ScriptedApi) -> None:
    api.always(message(says("at ", clock())))
    told = parse_events(post(api))
    assert told[4]["delta"]["type"] == "text_delta"
    sent = int(told[4]["delta"]["text"])
    assert api.requests[0].first_sent * 1e9 <= sent <= api.requests[0].last_sent * 1e9


@pytest.mark.parametrize("broken", [cut_after, reset_after])
def test_broken_stream_gives_the_first_events_only(api: ScriptedApi, broken: Any) -> None:
    api.always(broken(message(says("hello")), 4))
    seen: list[str] = []
    with (
        httpx2.stream("POST", f"{api.url}/v1/messages", json=body(), headers=HEADERS, verify=UNENCRYPTED) as response,
        pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)),
    ):
        seen.extend(response.iter_text())
    assert "".join(seen).count("event: ") == 4
    assert api.requests[0].wait_until_ended() == "cut"


def test_answer_may_end_early_as_if_it_were_whole(api: ScriptedApi) -> None:
    api.always(ends_after(message(says("hello")), 3))
    assert [event["type"] for event in parse_events(post(api))] == ["message_start", "content_block_start", "ping"]


def test_client_that_leaves_is_noticed(api: ScriptedApi) -> None:
    api.always(speaks_for_ever())
    with httpx2.stream("POST", f"{api.url}/v1/messages", json=body(), headers=HEADERS, verify=UNENCRYPTED) as response:
        next(response.iter_bytes())
    assert api.requests[0].wait_until_ended() == "left"


def test_hanging_answer_lasts_until_the_client_leaves(api: ScriptedApi) -> None:
    api.always(hangs())
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(f"{api.url}/v1/messages", json=body(), headers=HEADERS, timeout=0.05, verify=UNENCRYPTED)
    assert api.requests[0].wait_until_ended() == "left"


def test_reset_in_place_of_an_answer(api: ScriptedApi) -> None:
    api.always(resets())
    with pytest.raises(httpx2.ReadError):
        post(api)


def test_failure_has_the_body_and_the_headers_of_the_real_api(api: ScriptedApi) -> None:
    api.always(attempts(fails(429, "slow down", retry_after="7"), too_long(5, 4), html(502), html()))
    limited, long, gateway, page = (post(api) for _ in range(4))
    assert limited.status_code == 429
    assert limited.headers["retry-after"] == "7"
    assert limited.json()["error"] == {"type": "rate_limit_error", "message": "slow down"}
    assert limited.json()["request_id"] == limited.headers["request-id"]
    assert "prompt is too long: 5 tokens > 4 maximum" in long.text
    assert (gateway.status_code, page.status_code) == (502, 200)
    assert page.headers["content-type"] == "text/html"


def test_odd_messages_can_be_told(api: ScriptedApi) -> None:
    api.always(
        attempts(
            message(calls_raw("Read", '{"file_', 'path": ')),
            message(broken_event()),
            message(error_event()),
            says_nothing(),
            refuses(),
            message(calls("Read", {}, id="same"), calls("Read", {}, id="same")),
            message(thinks_unseen("xyz")),
            message(*(calls("Read", {}) for _ in range(200))),
            message(says("a"), stop_reason="max_tokens"),
        )
    )
    texts = [post(api).text for _ in range(9)]
    assert r'"partial_json":"path\": "' in texts[0]
    assert '"del\n' in texts[1]
    assert '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}' in texts[2]
    assert "content_block" not in texts[3]
    assert '"stop_reason":"refusal"' in texts[4]
    assert texts[5].count('"id":"same"') == 2
    assert '"data":"xyz"' in texts[6]
    assert texts[7].count('"tool_use","id"') == 200
    assert '"stop_reason":"max_tokens"' in texts[8]


def test_input_of_ten_megabytes_in_pieces_arrives_whole(api: ScriptedApi) -> None:
    arguments = {"content": "ä" * 5_000_000}
    api.always(message(calls("Write", arguments, piece_chars=60_000)))
    told = parse_events(post(api))
    text = "".join(event["delta"].get("partial_json", "") for event in told if event["type"] == "content_block_delta")
    assert json.loads(text) == arguments


def test_connection_is_used_again(api: ScriptedApi) -> None:
    api.always(message(says("hi")))
    with httpx2.Client(verify=UNENCRYPTED) as client:
        for _ in range(3):
            client.post(f"{api.url}/v1/messages", json=body(), headers=HEADERS)
        assert api.open_connections == 1


def test_request_may_come_in_any_pieces(api: ScriptedApi) -> None:
    api.always(message(says("hi")))
    host, port = api.url.removeprefix("http://").split(":")
    sent = json.dumps(body()).encode()
    headers = {**HEADERS, "Content-Type": "application/json", "Content-Length": str(len(sent))}
    lines = ["POST /v1/messages HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    whole = ("\r\n".join(lines) + "\r\n\r\n").encode() + sent
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(whole)):
            connection.send(whole[at : at + 1])
        assert connection.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")
    assert api.requests[0].began < api.requests[0].received


def test_server_runs_as_its_own_process(tmp_path: Path) -> None:
    told = {
        "default": {"loop": {"times": 1, "tool": "Read", "input": {"file_path": "a"}}},
        "scripts": [
            {
                "name": "s",
                "replies": [
                    {"attempts": [{"status": 529, "text": "Overloaded"}, {"parts": [{"says": ["a", {"clock": True}]}]}]}
                ],
            }
        ],
    }
    script = tmp_path / "script.json"
    script.write_text(json.dumps(told))
    command = [sys.executable, "-m", "tests.support.messages_api", "--script", str(script), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        answers = [
            httpx2.post(f"{url}/v1/messages", json=body(user(text)), headers=HEADERS, verify=UNENCRYPTED)
            for text in ("[s]", "[s]", "x")
        ]
        record = httpx2.get(f"{url}/record", verify=UNENCRYPTED).json()
        process.terminate()
        assert process.wait(30) == 0
    assert [answer.status_code for answer in answers] == [529, 200, 200]
    assert '"name":"Read"' in answers[2].text
    assert [request["conversation"] for request in record["requests"]][:2] == ["s", "s"]
    assert record["violations"] == []


def test_waiting_for_requests_ends_when_they_have_come(api: ScriptedApi) -> None:
    api.always(message(says("hi")))
    with ThreadPoolExecutor(2) as pool:
        pool.submit(post, api)
        pool.submit(post, api)
        assert len(api.wait_for_requests(2)) == 2
    with pytest.raises(TimeoutError, match="2 requests came"):
        api.wait_for_requests(3, seconds=0.01)


def test_server_that_keeps_only_the_beginning_of_requests_answers_them_all_the_same() -> None:
    class Glancing(ScriptedApi):
        kept_bytes = 100

        def read(self, body: memoryview) -> dict[str, Any] | None:
            return {"model": "m", "messages": [{"role": "user", "content": bytes(body).decode()}]}

    with Glancing(strict=False) as api, httpx2.Client(verify=UNENCRYPTED, trust_env=False) as client:
        api.always(message(says("hello")))
        for size in (20, 100, 1_000_000, 101):
            response = client.post(f"{api.url}/v1/messages", content=b"x" * size, headers=HEADERS)
            assert response.status_code == 200
    assert [request.size for request in api.requests] == [20, 100, 1_000_000, 101]
    assert [len(request.messages[0]["content"]) for request in api.requests] == [20, 100, 100, 100]
