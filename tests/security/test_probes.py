"""Probes of the access guard: nobody gets in without the token, and no answer reveals anything."""

from collections import Counter
from typing import Final

import pytest

from ostler.server.version import get_version
from tests.security import neighbours, pages, scanners
from tests.security.probe import Probe, build_request, classify_outcome, parse_answers, send_raw
from tests.security.target import Target

PROBES: Final = [*pages.PROBES, *scanners.PROBES, *neighbours.PROBES]

_ALLOWED_HEADERS: Final = {"content-length", "connection", "date"}
_HEADERS_OF_401: Final = {*_ALLOWED_HEADERS, "content-type", "www-authenticate"}
_OPEN_ANSWERS: Final = {200: b'{"status":"ok"}', 405: b""}
"""What the probe that is open to all says, where a request was hidden behind it."""
_WANTED: Final = b"Wanted: `Authorization: Bearer TOKEN`, with the content of the file `token` in the home folder.\n"
"""The one line that everybody without the token is told, whatever it was that they wanted."""
_LEAKY_WORDS: Final = ("traceback", "ostler", "uvicorn", "python", "httptools", "starlette", "fastapi", "line ")


@pytest.mark.parametrize("probe", PROBES, ids=str)
def test_nobody_gets_in_and_nobody_learns_anything(probed: Target, probe: Probe) -> None:
    before = probed.fetch_counts()
    said = probe.attempt(probed)
    assert classify_outcome(said) in probe.outcomes
    _expect_nothing_leaked(probed, said)
    if probe.attacker != "child":  # to be one, it needs a session of its own
        assert probed.fetch_counts() == {**before, "calls": before["calls"] + 1}
    assert not [secret for secret in probed.list_secrets() if secret in probed.log]
    ready = probed.daemon.send_http("GET", "/readyz")
    assert (ready.status, ready.json["pid"]) == (200, probed.daemon.pid)


def _expect_nothing_leaked(target: Target, said: bytes) -> None:
    words = said.decode(errors="replace").lower()
    hidden = [*target.list_secrets(), target.session_id, str(target.daemon.home), f"/{get_version()}", *_LEAKY_WORDS]
    assert not [one for one in hidden if one.lower() in words]
    assert "access-control" not in words
    for answer in parse_answers(said) if said.startswith(b"HTTP/") else []:
        if answer.status == 401:
            assert answer.body in {_WANTED, b""}
            assert set(answer.headers) <= _HEADERS_OF_401
            continue
        assert answer.body == _OPEN_ANSWERS.get(answer.status, b"")
        assert answer.status in _OPEN_ANSWERS or set(answer.headers) <= _ALLOWED_HEADERS


def test_there_are_at_least_forty_probes_each_tried_once_and_all_four_try() -> None:
    assert len(PROBES) >= 40
    assert max(Counter(map(str, PROBES)).values()) == 1
    assert {probe.attacker for probe in PROBES} == {"page", "scanner", "child", "user"}


def test_a_stranger_cannot_tell_a_route_that_exists_from_one_that_does_not(probed: Target) -> None:
    lines = (
        "POST /rpc",
        "GET /events",
        "GET /metrics",
        "GET /openrpc.json",
        f"GET /sessions/{probed.session_id}/export",
        "GET /sessions/s_1/export",
        "GET /no/such/page",
        "POST /metrics",
    )
    answers = {line: parse_answers(send_raw(probed, probed.fill_in(build_request(line)))) for line in lines}
    shown = {
        line: [(one.status, one.body, {**one.headers, "date": ""}) for one in found] for line, found in answers.items()
    }
    assert len({str(one) for one in shown.values()}) == 1, shown
