"""The provider against a server that speaks the Messages API's wire format."""

import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import anyio
import anyio.lowlevel
import orjson
import pytest

from ostler.server.models.anthropic.provider import AnthropicProvider, AnthropicSettings
from tests.server.models.provider_requests import (
    KEY,
    collect_events,
    collect_failure,
    list_types,
    make_request,
    open_provider,
)
from tests.support.messages_api.behaviors import Act, Gate, Reply, Send
from tests.support.messages_api.failures import (
    fails,
    hangs,
    html,
    overloaded,
    rate_limited,
    resets,
    too_large,
    too_long,
    wrong_key,
)
from tests.support.messages_api.replies import (
    broken_event,
    calls,
    cut,
    cut_after,
    ends_after,
    error_event,
    event,
    hang,
    hold,
    message,
    reset_after,
    says,
    speaks_for_ever,
)
from tests.support.messages_api.scripts import attempts
from tests.support.messages_api.server import ScriptedApi

pytestmark = pytest.mark.anyio


@pytest.fixture
async def provider(api: ScriptedApi) -> AsyncIterator[AnthropicProvider]:
    async with open_provider(api.url) as made:
        yield made


async def test_events_come_as_the_api_sent_them(api: ScriptedApi, provider: AnthropicProvider) -> None:
    api.always(message(says("Hel", "lo"), calls("Read", {"file_path": "ä"}, id="toolu_1", piece_chars=2)))
    events = await collect_events(provider)
    assert list_types(events)[:4] == ["message_start", "content_block_start", "ping", "content_block_delta"]
    assert events[3]["delta"] == {"type": "text_delta", "text": "Hel"}
    pieces = [event["delta"]["partial_json"] for event in events if event.get("delta", {}).get("partial_json")]
    assert orjson.loads("".join(pieces)) == {"file_path": "ä"}
    assert events[-2]["usage"]["output_tokens"] == 20
    assert list_types(events)[-1] == "message_stop"


@pytest.mark.parametrize("text", ["hello", "é" * 500_000], ids=["short", "in parts"])
async def test_body_is_sent_byte_for_byte(api: ScriptedApi, provider: AnthropicProvider, text: str) -> None:
    api.always(message(says("hi")))
    await collect_events(provider, text)
    body = make_request(text).encode_body()
    assert api.requests[0].size == len(body)
    assert api.requests[0].body == orjson.loads(body)
    assert api.requests[0].headers["content-length"] == str(len(body))
    assert "transfer-encoding" not in api.requests[0].headers
    assert api.requests[0].headers["content-type"] == "application/json"
    assert KEY in api.requests[0].headers.get("authorization", "") + api.requests[0].headers.get("x-api-key", "")


async def test_nothing_leaves_before_the_disk_has_the_request(api: ScriptedApi, provider: AnthropicProvider) -> None:
    api.always(message(says("hi")))
    asked, written = anyio.Event(), anyio.Event()
    gone_early: list[int] = []

    async def stored() -> None:
        asked.set()
        await written.wait()

    async def ask() -> None:
        async with provider.stream(replace(make_request(), stored=stored)) as events:
            assert list_types([event async for event in events])[-1] == "message_stop"

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await asked.wait()
        await collect_events(provider, "another, which waits for nothing")
        gone_early.append(len(api.requests))
        written.set()
    assert (gone_early, len(api.requests)) == ([1], 2)


async def test_event_is_given_before_the_next_one_is_sent(api: ScriptedApi, provider: AnthropicProvider) -> None:
    gates = [Gate(), Gate()]
    api.always(message(says("one", hold(gates[0]), "two", hold(gates[1]), "three")))
    async with provider.stream(make_request()) as events:
        seen: list[str] = []
        async for event in events:
            if event["type"] == "content_block_delta":
                seen.append(event["delta"]["text"])
                if gates:
                    # It stands at the gate, so nothing after this delta has left the server.
                    await gates[0].wait_until_reached_async()
                    gates.pop(0).open()
    assert seen == ["one", "two", "three"]


STATUSES: dict[str, tuple[Reply, str, int]] = {
    "bad request": (fails(400, "max_tokens: too many"), "bad_request", 400),
    "too long": (too_long(), "too_long", 400),
    "no access": (wrong_key(), "access", 401),
    "no permission": (fails(403, "no"), "access", 403),
    "no such model": (fails(404, "model: nope"), "unknown_model", 404),
    "too large": (too_large(), "too_long", 413),
    "rate limited": (rate_limited(), "rate_limited", 429),
    "server": (fails(500, "oh no"), "server", 500),
    "bad gateway": (html(502), "server", 502),
    "overloaded": (overloaded(), "overloaded", 529),
    "page": (html(), "garbage", 200),
    "empty page": (Reply(headers={}, body=b""), "garbage", 200),
    "redirect": (Reply(status=304, headers={}, body=b""), "garbage", 304),
}


@pytest.mark.parametrize("name", STATUSES)
async def test_refusal_has_its_kind_and_status(api: ScriptedApi, provider: AnthropicProvider, name: str) -> None:
    reply, kind, status = STATUSES[name]
    api.always(reply)
    failure, seen = await collect_failure(provider)
    assert (failure.kind, failure.status, seen) == (kind, status, [])
    assert failure.request_id is not None
    assert "<" not in failure.message


async def test_another_address_that_the_provider_names_is_asked(api: ScriptedApi, provider: AnthropicProvider) -> None:
    elsewhere = Reply(status=307, headers={"location": "/v1/messages"}, body=b"")
    api.always(attempts(elsewhere, elsewhere, message(says("hi"))))
    events = await collect_events(provider)
    assert list_types(events)[-1] == "message_stop"
    assert [one.body for one in api.requests] == [orjson.loads(make_request().encode_body())] * 3


async def test_refusal_carries_what_the_provider_said(api: ScriptedApi, provider: AnthropicProvider) -> None:
    api.always(fails(429, "wait for the horses", request_id="req_7", retry_after="2.5"))
    failure, _ = await collect_failure(provider)
    assert failure.message == "The provider takes no more requests for now: wait for the horses"
    assert (failure.request_id, failure.retry_after_ms, failure.count_retries(5)) == ("req_7", 2500, 5)


@pytest.mark.parametrize(
    ("reply", "least", "most"),
    [
        (fails(529, retry_after_ms=1500, retry_after="9"), 1500, 1500),
        (fails(529, retry_after="0"), 0, 0),
        (fails(529, retry_after=format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)), 1e6, 3.6e6),
        (fails(529, retry_after=format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)), 0, 0),
    ],
)
async def test_wait_that_the_provider_asks_for_is_understood(
    api: ScriptedApi, provider: AnthropicProvider, reply: Reply, least: float, most: float
) -> None:
    api.always(reply)
    failure, _ = await collect_failure(provider)
    assert failure.retry_after_ms is not None
    assert least <= failure.retry_after_ms <= most


@pytest.mark.parametrize("given", ["soon", "inf", "nan", ""])
async def test_wait_that_makes_no_sense_is_none(api: ScriptedApi, provider: AnthropicProvider, given: str) -> None:
    api.always(fails(529, retry_after=given))
    failure, _ = await collect_failure(provider)
    assert failure.retry_after_ms is None


async def test_key_is_in_no_message(api: ScriptedApi, provider: AnthropicProvider) -> None:
    api.always(fails(401, f"the key {KEY} is not known {'x' * 5000}"))
    failure, _ = await collect_failure(provider)
    assert "is not known" in failure.message
    assert KEY not in failure.message
    assert len(failure.message) < 1300


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("overloaded_error", "Overloaded", "overloaded"),
        ("rate_limit_error", "slow down", "rate_limited"),
        ("api_error", "Internal server error", "server"),
        ("timeout_error", "took too long", "timeout"),
        ("invalid_request_error", "prompt is too long: 2 tokens > 1 maximum", "too_long"),
        ("invalid_request_error", "no", "bad_request"),
        ("authentication_error", "no", "access"),
        ("something_new", "?", "server"),
    ],
)
async def test_error_in_the_middle_of_a_stream_has_its_kind(
    api: ScriptedApi, provider: AnthropicProvider, kind: str, text: str, expected: str
) -> None:
    api.always(message(says("one"), error_event(kind, text)))
    failure, seen = await collect_failure(provider)
    assert failure.kind == expected
    assert text in failure.message
    assert failure.request_id is not None
    assert list_types(seen)[-1] == "content_block_stop"


@pytest.mark.parametrize("reply", [cut_after(message(says("one")), 4), reset_after(message(says("one")), 4)])
async def test_broken_connection_is_a_failure_after_the_events_that_came(
    api: ScriptedApi, provider: AnthropicProvider, reply: Reply
) -> None:
    api.always(reply)
    failure, seen = await collect_failure(provider)
    assert failure.kind == "connection"
    assert list_types(seen)[-1] == "content_block_delta"


async def test_reset_in_place_of_an_answer_is_a_connection_failure(
    api: ScriptedApi, provider: AnthropicProvider
) -> None:
    api.always(resets())
    failure, _ = await collect_failure(provider)
    assert failure.kind == "connection"


async def test_nobody_at_the_address_is_a_connection_failure() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with open_provider(f"http://127.0.0.1:{unused.getsockname()[1]}") as provider:
            failure, _ = await collect_failure(provider)
    assert failure.kind == "connection"
    assert failure.message.startswith("The provider at http://127.0.0.1:")
    assert " (ANTHROPIC_BASE_URL) cannot be reached: " in failure.message


async def test_stream_that_ends_early_is_no_failure_of_the_provider(
    api: ScriptedApi, provider: AnthropicProvider
) -> None:
    api.always(ends_after(message(says("one")), 4))
    assert list_types(await collect_events(provider))[-1] == "content_block_delta"


@pytest.mark.parametrize("reply", [hangs(), message(says("one", hang()))])
async def test_silence_is_a_timeout(api: ScriptedApi, reply: Reply) -> None:
    api.always(reply)
    async with open_provider(api.url, silence_seconds=0.1) as provider:
        failure, _ = await collect_failure(provider)
    assert failure.kind == "timeout"
    assert failure.message == "The provider said nothing for 0.1 s"
    assert await api.requests[0].wait_until_ended_async() == "left"


@pytest.mark.parametrize(("act", "kind"), [(hang(), "timeout"), (cut(), "connection")])
async def test_refusal_that_breaks_off_is_a_passing_failure(api: ScriptedApi, act: Act, kind: str) -> None:
    api.always(Reply((Send(b'{"type":'), act), status=400, headers={"content-type": "application/json"}))
    async with open_provider(api.url, silence_seconds=0.1) as provider:
        failure, _ = await collect_failure(provider)
    assert failure.kind == kind


async def test_connecting_has_its_own_time_limit() -> None:
    with socket.socket() as full:
        # A full queue of connections takes no further one, and says nothing about it.
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.create_connection(full.getsockname()):
            async with open_provider(f"http://127.0.0.1:{full.getsockname()[1]}", connect_seconds=0.1) as provider:
                failure, _ = await collect_failure(provider)
    assert failure.kind == "timeout"
    assert failure.message.startswith("No connection to the provider at http://127.0.0.1:")
    assert failure.message.endswith(" (ANTHROPIC_BASE_URL) in 0.1 s")


@pytest.mark.parametrize(
    "broken",
    [broken_event(), event("x", type=None), event("x", type=5)],
    ids=["no json", "no type", "a number for a type"],
)
async def test_event_that_cannot_be_read_is_garbage(api: ScriptedApi, provider: AnthropicProvider, broken: Act) -> None:
    api.always(message(says("one"), broken))
    failure, seen = await collect_failure(provider)
    assert failure.kind == "garbage"
    assert list_types(seen)[-1] == "content_block_stop"


async def test_nothing_set_is_missing() -> None:
    settings = AnthropicSettings.from_environment({}, connect_seconds=1, silence_seconds=1)
    failure, _ = await collect_failure(AnthropicProvider(settings))
    assert failure.kind == "missing"
    assert "ANTHROPIC_API_KEY" in failure.message
    assert failure.count_retries(5) == 0


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "127.0.0.1:8", "http://[", "http://127.0.0.1:99999999"])
async def test_address_that_cannot_be_used_is_missing(url: str) -> None:
    async with open_provider(url) as provider:
        failure, _ = await collect_failure(provider)
    assert failure.kind == "missing"


@pytest.mark.parametrize("key", ["schlüssel-aus-gold", "two\nlines-of-a-key"])
async def test_key_that_cannot_be_sent_is_missing_and_not_shown(api: ScriptedApi, key: str) -> None:
    async with open_provider(api.url, key=key) as provider:
        failure, _ = await collect_failure(provider)
    assert failure.kind == "missing"
    assert key not in failure.message


async def test_base_url_without_a_key_is_enough(api: ScriptedApi) -> None:
    api.always(message(says("hi")))
    async with open_provider(api.url, key=None) as provider:
        assert list_types(await collect_events(provider))[-1] == "message_stop"


async def test_token_is_sent_where_no_key_is_set(api: ScriptedApi) -> None:
    api.always(message(says("hi")))
    environment = {"ANTHROPIC_BASE_URL": f"{api.url}/", "ANTHROPIC_AUTH_TOKEN": "token-of-ours"}
    provider = AnthropicProvider(AnthropicSettings.from_environment(environment, connect_seconds=9, silence_seconds=9))
    await collect_events(provider)
    await provider.close()
    assert api.requests[0].headers["authorization"] == "Bearer token-of-ours"


def test_settings_do_not_show_the_key() -> None:
    environment = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_AUTH_TOKEN": KEY}
    assert KEY not in repr(AnthropicSettings.from_environment(environment, connect_seconds=1, silence_seconds=1))


async def test_nothing_is_tried_again_here(api: ScriptedApi, provider: AnthropicProvider) -> None:
    api.always(attempts(overloaded(), message(says("hi"))))
    failure, _ = await collect_failure(provider)
    assert failure.kind == "overloaded"
    assert len(api.requests) == 1


async def test_leaving_ends_the_request(api: ScriptedApi, provider: AnthropicProvider) -> None:
    api.always(speaks_for_ever())
    async with provider.stream(make_request()) as events:
        async for _ in events:
            break
    assert await api.requests[0].wait_until_ended_async() == "left"


async def test_interrupt_ends_the_request(api: ScriptedApi, provider: AnthropicProvider) -> None:
    gate = Gate()
    api.always(message(says("one", hold(gate), "two")))
    async with anyio.create_task_group() as group:
        group.start_soon(collect_events, provider)
        await gate.wait_until_reached_async()
        group.cancel_scope.cancel()
    assert await api.requests[0].wait_until_ended_async() == "left"


async def test_connection_is_used_again_by_who_leaves_at_message_stop(
    api: ScriptedApi, provider: AnthropicProvider
) -> None:
    api.always(message(says("hi")))
    for _ in range(5):
        async with provider.stream(make_request()) as events:
            async for event in events:
                if event["type"] == "message_stop":
                    break
    assert api.open_connections == 1
    assert len(api.requests) == 5


async def test_hundred_streams_run_at_once(api: ScriptedApi, provider: AnthropicProvider) -> None:
    gate = Gate()
    api.always(message(says("one", hold(gate), "two")))
    ended: list[str] = []

    async def one(number: int) -> None:
        ended.append(list_types(await collect_events(provider, f"conversation {number}"))[-1])

    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(one, number)
        await api.wait_for_requests_async(100)
        assert ended == []
        gate.open()
    assert ended == ["message_stop"] * 100


async def test_request_that_comes_before_the_client_waits_for_it(api: ScriptedApi, provider: AnthropicProvider) -> None:
    api.always(message(says("hi")))
    async with anyio.create_task_group() as group:
        group.start_soon(provider.warm_up)
        await anyio.lowlevel.checkpoint()
        assert list_types(await collect_events(provider))[-1] == "message_stop"


async def test_closed_provider_asks_nobody(api: ScriptedApi, provider: AnthropicProvider) -> None:
    await provider.warm_up()
    await provider.close()
    failure, _ = await collect_failure(provider)
    assert failure.kind == "missing"
    assert api.requests == []


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, ostler.server.models.anthropic.provider; "
        "print([n for n in ('anthropic', 'httpx2', 'httptools') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
