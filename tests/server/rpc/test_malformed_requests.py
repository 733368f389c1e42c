"""Malformed requests: whatever is sent, the process stays up, and no error is a bug of ours."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ostler.protocol.methods import METHODS
from tests.support.daemon import Daemon

# Bounded, since every example is a request; the daemon is shared on purpose: rubbish must leave no trace.
BOUNDED = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=False,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
# Deleting, stopping and reconfiguring with lucky params would be no rubbish.
harmless = sorted(set(METHODS) - {"server/shutdown", "config/set"})
field_names = sorted({name for method in METHODS.values() for name in method.params.model_fields})


def check(daemon: Daemon, answer_body: bytes, status: int) -> None:
    assert status in {200, 202, 400, 413, 415}
    if status == 200:
        found = json.loads(answer_body)
        for answer in found if isinstance(found, list) else [found]:
            assert answer["jsonrpc"] == "2.0"
            assert ("result" in answer) != ("error" in answer)
            assert answer.get("error", {}).get("code") != -32603, answer
    assert daemon.process is not None
    assert daemon.process.poll() is None


@BOUNDED
@given(body=st.binary(max_size=200))
def test_any_bytes(shared_daemon: Daemon, body: bytes) -> None:
    answer = shared_daemon.post(body)
    check(shared_daemon, answer.body, answer.status)


@BOUNDED
@given(value=json_values)
def test_any_json(shared_daemon: Daemon, value: Any) -> None:
    answer = shared_daemon.post(json.dumps(value).encode())
    check(shared_daemon, answer.body, answer.status)


@BOUNDED
@given(
    calls=st.lists(
        st.fixed_dictionaries(
            {"jsonrpc": st.just("2.0"), "method": st.sampled_from(harmless)},
            optional={
                "id": json_values,
                "params": json_values
                | st.dictionaries(st.sampled_from(field_names) | st.text(max_size=5), json_values, max_size=6),
                "extra": json_values,
            },
        ),
        min_size=1,
        max_size=5,
    )
)
def test_any_calls(shared_daemon: Daemon, calls: list[Any]) -> None:
    answer = shared_daemon.post(json.dumps(calls).encode())
    check(shared_daemon, answer.body, answer.status)


@BOUNDED
@given(
    session=st.text(max_size=30),
    after=st.text(max_size=30),
    header=st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
)
def test_any_stream(shared_daemon: Daemon, session: str, after: str, header: str) -> None:
    from urllib.parse import quote

    query = f"/events?session={quote(session, errors='replace')}&after={quote(after, errors='replace')}"
    headers = {"Last-Event-ID": header, "Ostler-Client": header}
    assert shared_daemon.send_http("HEAD", query, headers=headers).status in {200, 400, 404}
    assert shared_daemon.process is not None
    assert shared_daemon.process.poll() is None


@BOUNDED
@given(path=st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), max_size=60))
def test_any_path(shared_daemon: Daemon, path: str) -> None:
    answer = shared_daemon.send_http("GET", "/" + path)
    assert answer.status in {200, 307, 400, 404, 405}
    assert shared_daemon.process is not None
    assert shared_daemon.process.poll() is None
