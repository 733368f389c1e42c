"""Measures what a compaction costs beside its model, and how much of what is sent is found in the provider's cache."""

import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

import orjson

from ostler.storage.snapshot import Snapshot
from ostler.storage.sqlite.database import open_database
from tests.bench.histories import MODEL
from tests.bench.processes import Bench
from tests.bench.table import Row
from tests.bench.turns import list_sessions_by_title, prepare_project
from tests.support.daemon import Daemon
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import message, says
from tests.support.messages_api.server import ScriptedApi
from tests.support.messages_api.token_meter import CountedRequest, TokenMeter
from tests.support.model_replies import bash

_COMPACTION_AIM_MS: Final = 50.0
_CACHED_AIM: Final = 95.0
_ASKED: Final = "The window of this conversation is nearly full."
_SUMMARY: Final = message(says("The mare was fed."))
_DAY_WINDOW: Final = 60_000
_CALLS: Final = 2
"""Of each turn."""


def measure_compaction(bench: Bench) -> list[Row]:
    """From the method to its answer, without the time that the model takes; the floor reads and decodes the history."""
    count, rounds = max(bench.sizes.histories), bench.sizes.trip_rounds
    folder = prepare_project(bench)
    home = bench.homes.create_with_histories(folder, {f"compact{at}": count for at in range(rounds)})
    ours, floor = list[float](), list[float]()
    with ScriptedApi() as api:
        api.always(otherwise=_SUMMARY)
        with bench.run_settled_daemon(home, api.url) as daemon:
            ids = list_sessions_by_title(daemon)
            for title in (f"compact{at}" for at in range(rounds)):
                daemon.call("session/context", session_id=ids[title])  # it is in memory, as in the middle of its turns
                floor.append(_decode_history(home, ids[title]))
                began = time.monotonic()
                daemon.call("session/compact", session_id=ids[title])
                took = time.monotonic() - began
                request = api.requests[-1]
                ours.append((took - (request.last_sent - request.received)) * 1000)
    label = f"compaction of {count} messages, without its model"
    return [Row(label, "ms", median(ours), median(floor), _COMPACTION_AIM_MS, samples=ours)]


def _decode_history(home: Path, session_id: Any) -> float:
    database = open_database(home / "ostler.db")
    try:
        began = time.monotonic()
        for one in Snapshot(database.connection).messages.load_for_model(session_id):
            orjson.loads(one.content)
        return (time.monotonic() - began) * 1000
    finally:
        database.connection.close()


def measure_cached_share(bench: Bench) -> list[Row]:
    """A day of turns with calls, changes of mode and compactions; the floor is what could be cached at best."""
    turns = bench.sizes.day_turns
    with ScriptedApi() as api:
        api.meter = TokenMeter(_DAY_WINDOW)
        api.always(otherwise=_answer)
        environment = {"OSTLER_CONTEXT__WINDOW": str(_DAY_WINDOW), "OSTLER_MODEL__MAX_OUTPUT_TOKENS": "4000"}
        daemon = Daemon(
            bench.homes.create_empty(), environment={**bench.environment, **api.environment, **environment}, cold=True
        )
        with daemon:
            session = daemon.call(
                "session/create", cwd=str(prepare_project(bench)), model=MODEL, rules={"allow": ["Bash"]}
            )["id"]
            for at in range(turns):
                mode = "acceptEdits" if at % 20 < 10 else "default"
                daemon.call("run", session_id=session, input=f"[day] Turn {at}: go on.", mode=mode)
        counted = _skip_compactions(api.requests, api.meter.counted)
    share = 100 * sum(one.read for one in counted) / sum(one.total for one in counted)
    best = 100 * (1 - _sum_new(counted) / sum(one.total for one in counted))
    label = f"cached share of input, {turns} turns, between compactions"
    return [Row(label, "%", share, best, _CACHED_AIM, more_is_better=True)]


def _answer(request: RecordedRequest) -> Reply:
    if _ASKED in str(request.messages[-1]):
        return _SUMMARY
    last = request.messages[-1]["content"]
    results = sum(block["type"] == "tool_result" for block in last)
    if results and request.number % (_CALLS + 1) == 0:
        return message(says("Done."))
    return message(bash(f"seq -f '%.0f {request.number}' 1 200"))


def _skip_compactions(requests: list[RecordedRequest], counted: list[CountedRequest]) -> list[CountedRequest]:
    """Without the requests for summaries, and without the first of each conversation, which nothing can be known of."""
    kept: list[CountedRequest] = []
    before = None
    for request, one in zip(requests, counted, strict=True):
        if _ASKED in str(request.messages[-1]):
            continue
        opening = str(request.messages[0])[:200]
        if opening == before:
            kept.append(one)
        before = opening
    return kept


def _sum_new(counted: list[CountedRequest]) -> int:
    """What was sent for the first time: the growth from request to request."""
    grown = [max(0, later.total - earlier.total) for earlier, later in pairwise(counted)]
    return sum(grown)
