"""SIGKILL at random points of turns: nothing acknowledged is lost, nothing runs twice, every turn comes to an end."""

import contextlib
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.faults.caller import Caller
from tests.faults.database import check_database
from tests.faults.histories import (
    UNKNOWN,
    check_acknowledged,
    check_effects,
    check_log,
    check_pairs,
    check_words,
    history,
    whole_log,
)
from tests.faults.mixed_model import MixedModel
from tests.faults.person import Person
from tests.faults.rows import Findings, Row
from tests.support.daemon import Daemon, wait_until
from tests.support.messages_api.server import ScriptedApi

_ROOMS: Final = 2
"""Daemons that are killed side by side: one of them loads the SDK while the other one works."""
_PEOPLE: Final = 4
_JOIN_SECONDS: Final = 60.0
_FINISH_SECONDS: Final = 60.0
_FIRST_REQUEST_SECONDS: Final = 8.0


class _Room:
    """One daemon, its model, and the people who use it."""

    def __init__(self, folder: Path, seed: int, api: ScriptedApi, model: MixedModel) -> None:
        self.folder = folder
        self.seed = seed
        self.api = api
        self.model = model
        self.findings = Findings()
        self.counts: Counter[str] = Counter()
        self.kills = 0
        self.early = 0
        """Kills before the first request after a start: what is recovered, said and answered then needs no model."""
        environment = {
            **api.environment,
            "OSTLER_TESTING": "1",
            "OSTLER_MODEL__FIRST_WAIT_SECONDS": "0.05",
            "OSTLER_MODEL__MAX_WAIT_SECONDS": "0.2",
        }
        self.daemon = Daemon(folder / "home", environment=environment)
        self.people = [Person(f"p{number}", folder, seed) for number in range(_PEOPLE)]
        self._random = random.Random(seed)

    def cycle(self) -> None:
        """One kill, and what has to hold after the one before."""
        left = _processes(self.folder)
        requests = len(self.api.requests)
        self.daemon.start()
        moment = self._random.random()
        if moment < 0.1:
            self._wait(0.3)
            self.daemon.kill()
        else:
            self._check(left)
            self._kill_at_work(at_once=moment < 0.55)
        self.kills += 1
        self.early += len(self.api.requests) == requests

    def _check(self, left: set[int]) -> None:
        with Caller(self.daemon) as caller:
            for person in self.people:
                person.diary.settle(caller)
                for kept in person.diary.sessions[-1:]:
                    check_acknowledged(caller, kept, self.findings)
        wait_until(lambda: not left & _processes(self.folder))
        self._check_model()

    def _check_model(self) -> None:
        self.findings.expect(not self.api.violations, f"the API refused: {self.api.violations[:2]}")
        self.findings.expect(not self.api.prefix_changes, f"the past changed: {self.api.prefix_changes[:2]}")

    def _kill_at_work(self, *, at_once: bool) -> None:
        with ThreadPoolExecutor(_PEOPLE) as pool:
            running = [pool.submit(person.run, self.daemon) for person in self.people]
            if not at_once:
                # How long it takes until the model can be asked anything depends on the machine.
                with contextlib.suppress(TimeoutError):
                    self.api.wait_for_requests(len(self.api.requests) + 1, _FIRST_REQUEST_SECONDS)
            self._wait(0.8)
            self.daemon.kill()
            for one in running:
                one.result(_JOIN_SECONDS)

    def _wait(self, most: float) -> None:
        threading.Event().wait(self._random.uniform(0, most))

    # The end.

    def finish(self) -> None:
        self.model.brief = True
        self.daemon.start()
        try:
            self._check(set())
            wait_until(lambda: _all_finish(self.people, self.daemon), _FINISH_SECONDS)
            wait_until(lambda: not _processes(self.folder))
            self._compare()
        finally:
            self._check_model()
        self.findings.expect(self.daemon.stop() == 0, "the last stop failed")
        check_database(self.daemon.home / "ostler.db", self.findings)
        for problem in (problem for person in self.people for problem in person.diary.problems):
            self.findings.expect(False, problem)

    def _compare(self) -> None:
        marks = Counter(self.model.marks.read_text().split()) if self.model.marks.exists() else Counter()
        self.findings.expect(all(runs == 1 for runs in marks.values()), f"ran twice: {marks.most_common(3)}")
        known: set[str] = set()
        with Caller(self.daemon) as caller:
            for kept in (kept for person in self.people for kept in person.diary.sessions):
                check_acknowledged(caller, kept, self.findings)
                messages = history(caller, kept.id)
                check_pairs(messages, kept.name, self.findings, running=False)
                check_words(messages, kept, self.findings)
                known |= check_effects(messages, kept.name, marks, self.findings)
                self._count_turns(caller.call("turn/list", session_id=kept.id, limit=500)["turns"])
                self.counts["cut"] += sum(_was_cut(message) for message in messages)
        self.findings.expect(marks.keys() <= known, f"ran, and the history says nothing: {marks.keys() - known}")
        log = whole_log(self.daemon)
        check_log(log, self.findings)
        self._count_log(log)

    def _count_turns(self, turns: list[dict[str, Any]]) -> None:
        for turn in turns:
            self.counts[f"turn {turn['reason']}"] += 1
            wrong = turn["reason"] not in {"completed", "interrupted"}
            self.findings.expect(not wrong, f"{turn['id']} ended as {turn['reason']}: {turn['error']}")

    def _count_log(self, log: list[dict[str, Any]]) -> None:
        self.counts.update(event["type"] for event in log)
        ended = [event["data"]["call"] for event in log if event["type"] == "tool.completed"]
        self.counts["unknown"] += sum(UNKNOWN in str(call["content"]) for call in ended)
        for person in self.people:
            self.counts.update(person.diary.done)
            self.counts["lost"] += person.diary.lost


def _all_finish(people: list[Person], daemon: Daemon) -> bool:
    """Everybody gets their chance, also behind one who is not done."""
    done = [person.finish(daemon) for person in people]
    return all(done)


def _was_cut(message: dict[str, Any]) -> bool:
    return message["role"] == "assistant" and message["stop_reason"] is None


def _processes(folder: Path) -> set[int]:
    """What the commands of this room's sessions are, and have started."""
    mark = f"FAULTS_TRIAL={folder}".encode()
    return {int(name) for name in os.listdir("/proc") if name.isdigit() and mark in _environment(name)}


def _environment(pid: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def turn_kills(folder: Path, *, count: int, seed: int, say: Callable[[str], None], seconds: float = 900) -> Row:
    """Kill daemons `count` times in all while their sessions are at work."""
    deadline = time.monotonic() + seconds
    places = [folder / f"room{number}" for number in range(_ROOMS)]
    with ThreadPoolExecutor(_ROOMS) as pool:
        total = [0]

        def killed() -> None:
            total[0] += 1
            say(f"{total[0]} of {count} kills in turns")

        shares = [count // _ROOMS + (number < count % _ROOMS) for number in range(_ROOMS)]
        running = [
            pool.submit(_one_room, place, seed + number, share, deadline, killed)
            for number, (place, share) in enumerate(zip(places, shares, strict=True))
        ]
        rooms = [one.result() for one in running]
    return _row(rooms, count, seed)


def _one_room(folder: Path, seed: int, count: int, deadline: float, killed: Callable[[], None]) -> _Room:
    folder.mkdir(parents=True)
    model = MixedModel(folder, seed)
    with ScriptedApi(model.script, keep=False) as api:
        room = _Room(folder, seed, api, model)
        try:
            while room.kills < count and time.monotonic() < deadline:
                room.cycle()
                killed()
            room.finish()
        except Exception as error:
            raise RuntimeError(f"seed {seed}, after {room.kills} kills: {room.findings.problems}") from error
        finally:
            room.daemon.kill()
    room.findings.expect(room.kills == count, f"only {room.kills} of {count} kills in time")
    return room


def _row(rooms: list[_Room], count: int, seed: int) -> Row:
    findings = Findings()
    for problem in (f"seed {room.seed}: {problem}" for room in rooms for problem in room.findings.problems):
        findings.expect(False, problem)
    counts: Counter[str] = sum((room.counts for room in rooms), Counter())
    return findings.row(
        "SIGKILL in turns",
        f"{_ROOMS} daemons, {_PEOPLE} people each, seed {seed}",
        kills=sum(room.kills for room in rooms),
        early=sum(room.early for room in rooms),
        turns=f"{counts['turn.started']} ({counts['turn completed']} completed)",
        queued=counts["turn.queued"],
        steers=counts["turn/steer"],
        calls=f"{counts['tool.queued']} ({counts['tool.started']} started)",
        asks=f"{counts['ask.opened']} ({counts['ask/resolve']} answered)",
        unacknowledged=counts["lost"],
        aborted=counts["message.aborted"],
        cut=counts["cut"],
        outcome_unknown=counts["unknown"],
        requests=sum(len(room.api.requests) for room in rooms),
    )
