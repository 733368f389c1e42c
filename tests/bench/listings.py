"""Measures `session/list` where there are many sessions."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from ostler.protocol.limits import MAX_PAGE
from tests.bench.homes import RARE_WORD
from tests.bench.processes import Bench
from tests.bench.table import Row
from tests.bench.wire import Caller, build_call_request
from tests.support.daemon import Daemon

_QUERY = "SELECT * FROM sessions{where} ORDER BY updated_at DESC, id DESC LIMIT {limit}"


def measure_listings(bench: Bench) -> list[Row]:
    home = bench.homes.create_with_sessions(bench.sizes.sessions)
    rare = f" WHERE instr(search_text, '{RARE_WORD}') > 0"
    with bench.run_settled_daemon(home) as daemon:
        kinds = {
            "first page": (_measure_first_page(bench, daemon), _QUERY.format(where="", limit=51)),
            "text filter": (_measure_first_page(bench, daemon, text=RARE_WORD), _QUERY.format(where=rare, limit=51)),
            f"all, by {MAX_PAGE}": (_measure_all_pages(bench, daemon), _QUERY.format(where="", limit=MAX_PAGE + 1)),
        }
    sessions = f"session/list of {bench.sizes.sessions:,}"
    return [
        Row(
            f"{sessions}, {name}",
            "ms",
            ours.median_ms,
            ours.measure_floor(bench, home / "ostler.db", query),
            samples=ours.samples,
        )
        for name, (ours, query) in kinds.items()
    ]


class _Listing:
    """How long a listing took, and what its floor is measured with."""

    def __init__(self, samples: list[float], request: bytes, answer_bytes: int, calls: int) -> None:
        self.samples = samples
        self._request = request
        self._answer_bytes = answer_bytes
        self._calls = calls

    @property
    def median_ms(self) -> float:
        return median(self.samples)

    def measure_floor(self, bench: Bench, database: Path, query: str) -> float:
        """Milliseconds of a bare server that runs the query and moves as many bytes."""
        order = {
            "request_bytes": len(self._request),
            "answer_bytes": self._answer_bytes,
            "database": str(database),
            "query": query,
        }
        with bench.start_child("floors", order) as floor, Caller(floor.first_answer["port"]) as caller:
            one_call_ms = median(_time_calls(lambda: caller.call(self._request), bench.sizes.pages))
        return one_call_ms * self._calls


def _measure_first_page(bench: Bench, daemon: Daemon, **params: str) -> _Listing:
    request = build_call_request(daemon.port, daemon.token, "session/list", **params)
    with Caller(daemon.port) as caller:
        answer = caller.call(request)
        samples = _time_calls(lambda: caller.call(request), bench.sizes.pages)
    return _Listing(samples, request, len(answer), 1)


def _measure_all_pages(bench: Bench, daemon: Daemon) -> _Listing:
    pages: list[bytes] = []

    def walk(caller: Caller) -> None:
        pages.clear()
        page: str | None = None
        while page is not None or not pages:
            request = build_call_request(daemon.port, daemon.token, "session/list", limit=MAX_PAGE, page=page)
            pages.append(caller.call(request))
            page = _parse_next_page(pages[-1])

    with Caller(daemon.port) as caller:
        samples = _time_calls(lambda: walk(caller), max(1, bench.sizes.pages // 8))
    request = build_call_request(daemon.port, daemon.token, "session/list", limit=MAX_PAGE)
    return _Listing(samples, request, len(pages[0]), len(pages))


def _parse_next_page(answer: bytes) -> str | None:
    """The token at the end of a page; the page itself is not parsed, so as not to time our own JSON."""
    fields: dict[str, Any] = json.loads(b"{" + answer[answer.rindex(b'"next":') :].rstrip(b"}") + b"}")
    token: str | None = fields["next"]
    return token


def _time_calls(work: Callable[[], object], count: int) -> list[float]:
    milliseconds: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        milliseconds.append((time.perf_counter() - began) * 1000)
    return milliseconds
