"""The door's probes: whoever tries, nobody gets in, and nobody learns anything."""

from collections import Counter
from typing import Final

import pytest

from ostler.server.version import version
from tests.security import neighbours, pages, scanners
from tests.security.probe import Probe, answers_in, outcome_of, request, said_to
from tests.security.target import Target

PROBES: Final = [*pages.PROBES, *scanners.PROBES, *neighbours.PROBES]

_HEADERS: Final = {"content-length", "connection", "date"}
_OPEN: Final = {200: b'{"status":"ok"}', 405: b""}
"""What the probe that is open to all says, where a request was hidden behind it."""
_TALKATIVE: Final = ("traceback", "ostler", "uvicorn", "python", "httptools", "starlette", "fastapi", "line ")


@pytest.mark.parametrize("probe", PROBES, ids=str)
def test_nobody_gets_in_and_nobody_learns_anything(probed: Target, probe: Probe) -> None:
    before = probed.counts()
    said = probe.attempt(probed)
    assert outcome_of(said) in probe.outcomes
    _says_nothing(probed, said)
    if probe.who != "child":  # to be one, it needs a session of its own
        assert probed.counts() == {**before, "calls": before["calls"] + 1}
    assert not [secret for secret in probed.secrets() if secret in probed.log]
    ready = probed.daemon.http("GET", "/readyz")
    assert (ready.status, ready.json["pid"]) == (200, probed.daemon.pid)


def _says_nothing(target: Target, said: bytes) -> None:
    words = said.decode(errors="replace").lower()
    hidden = [*target.secrets(), target.session_id, str(target.daemon.home), f"/{version()}", *_TALKATIVE]
    assert not [one for one in hidden if one.lower() in words]
    assert "access-control" not in words
    for answer in answers_in(said) if said.startswith(b"HTTP/") else []:
        assert answer.body == _OPEN.get(answer.status, b"")
        assert answer.status in _OPEN or set(answer.headers) <= _HEADERS


def test_there_are_at_least_forty_probes_each_tried_once_and_all_four_try() -> None:
    assert len(PROBES) >= 40
    assert max(Counter(map(str, PROBES)).values()) == 1
    assert {probe.who for probe in PROBES} == {"page", "scanner", "child", "user"}


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
    answers = {line: answers_in(said_to(probed, probed.filled_in(request(line)))) for line in lines}
    shown = {
        line: [(one.status, one.body, {**one.headers, "date": ""}) for one in found] for line, found in answers.items()
    }
    assert len({str(one) for one in shown.values()}) == 1, shown
