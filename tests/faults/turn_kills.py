"""SIGKILL at random points of turns: nothing acknowledged is lost, no command runs twice, every turn ends."""

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
    OUTCOME_UNKNOWN,
    check_acknowledged,
    check_effects,
    check_inputs,
    check_log,
    check_pairs,
    fetch_messages,
    read_whole_log,
)
from tests.faults.mixed_model import MixedModel
from tests.faults.person import Person
from tests.faults.rows import Findings, Row
from tests.support.daemon import Daemon, wait_until
from tests.support.messages_api.server import ScriptedApi

_DAEMONS: Final = 2
"""Daemons that are killed in parallel: one of them loads the SDK while the other one works."""
_PEOPLE: Final = 4
_JOIN_SECONDS: Final = 60.0
_FINISH_SECONDS: Final = 60.0
_FIRST_REQUEST_SECONDS: Final = 8.0


class _Trial:
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
        """Kills before the first request after a start: they hit recovery, inputs and answers, which need no model."""
        environment = {
            **api.environment,
            "OSTLER_TESTING": "1",
            "OSTLER_MODEL__FIRST_WAIT_SECONDS": "0.05",
            "OSTLER_MODEL__MAX_WAIT_SECONDS": "0.2",
        }
        self.daemon = Daemon(folder / "home", environment=environment)
        self.people = [Person(f"p{number}", folder, seed) for number in range(_PEOPLE)]
        self._random = random.Random(seed)

    def run_cycle(self) -> None:
        """One kill, and what has to hold after the one before."""
        leftover = _find_processes(self.folder)
        requests = len(self.api.requests)
        self.daemon.start()
        chance = self._random.random()
        if chance < 0.1:
            self._wait(0.3)
            self.daemon.kill()
        else:
            self._check(leftover)
            self._kill_at_work(at_once=chance < 0.55)
        self.kills += 1
        self.early += len(self.api.requests) == requests

    def _check(self, leftover: set[int]) -> None:
        with Caller(self.daemon) as caller:
            for person in self.people:
                person.ledger.settle_pending(caller)
                for expected in person.ledger.sessions[-1:]:
                    check_acknowledged(caller, expected, self.findings)
        wait_until(lambda: not leftover & _find_processes(self.folder))
        self._check_model()

    def _check_model(self) -> None:
        self.findings.expect(not self.api.violations, f"the API refused: {self.api.violations[:2]}")
        self.findings.expect(not self.api.prefix_changes, f"the past changed: {self.api.prefix_changes[:2]}")

    def _kill_at_work(self, *, at_once: bool) -> None:
        with ThreadPoolExecutor(_PEOPLE) as pool:
            running = [pool.submit(person.run, self.daemon) for person in self.people]
            if not at_once:
                # How long it takes until the first request depends on the machine.
                with contextlib.suppress(TimeoutError):
                    self.api.wait_for_requests(len(self.api.requests) + 1, _FIRST_REQUEST_SECONDS)
            self._wait(0.8)
            self.daemon.kill()
            for one in running:
                one.result(_JOIN_SECONDS)

    def _wait(self, max_seconds: float) -> None:
        threading.Event().wait(self._random.uniform(0, max_seconds))

    # The end.

    def finish(self) -> None:
        self.model.text_only = True
        self.daemon.start()
        try:
            self._check(set())
            wait_until(lambda: _finish_all(self.people, self.daemon), _FINISH_SECONDS)
            wait_until(lambda: not _find_processes(self.folder))
            self._compare()
        finally:
            self._check_model()
        self.findings.expect(self.daemon.stop() == 0, "the last stop failed")
        check_database(self.daemon.home / "ostler.db", self.findings)
        for problem in (problem for person in self.people for problem in person.ledger.problems):
            self.findings.expect(False, problem)

    def _compare(self) -> None:
        marks = Counter(self.model.marks.read_text().split()) if self.model.marks.exists() else Counter()
        self.findings.expect(all(runs == 1 for runs in marks.values()), f"ran twice: {marks.most_common(3)}")
        known: set[str] = set()
        with Caller(self.daemon) as caller:
            for expected in (expected for person in self.people for expected in person.ledger.sessions):
                check_acknowledged(caller, expected, self.findings)
                messages = fetch_messages(caller, expected.id)
                check_pairs(messages, expected.name, self.findings, running=False)
                check_inputs(messages, expected, self.findings)
                known |= check_effects(messages, expected.name, marks, self.findings)
                self._count_turns(caller.call("turn/list", session_id=expected.id, limit=500)["turns"])
                self.counts["cut"] += sum(_was_cut(message) for message in messages)
        self.findings.expect(marks.keys() <= known, f"ran, and the history says nothing: {marks.keys() - known}")
        log = read_whole_log(self.daemon)
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
        self.counts["unknown"] += sum(OUTCOME_UNKNOWN in str(call["content"]) for call in ended)
        for person in self.people:
            self.counts.update(person.ledger.call_counts)
            self.counts["lost"] += person.ledger.lost_calls


def _finish_all(people: list[Person], daemon: Daemon) -> bool:
    """Every person is called, also after one who is not done."""
    done = [person.finish(daemon) for person in people]
    return all(done)


def _was_cut(message: dict[str, Any]) -> bool:
    return message["role"] == "assistant" and message["stop_reason"] is None


def _find_processes(folder: Path) -> set[int]:
    """The processes of the commands of this trial's sessions, and those that they have started."""
    mark = f"FAULTS_TRIAL={folder}".encode()
    return {int(name) for name in os.listdir("/proc") if name.isdigit() and mark in _read_environment(name)}


def _read_environment(pid: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def kill_during_turns(
    folder: Path, *, count: int, seed: int, report: Callable[[str], None], seconds: float = 900
) -> Row:
    """Kill daemons `count` times in all while their sessions are at work."""
    deadline = time.monotonic() + seconds
    folders = [folder / f"room{number}" for number in range(_DAEMONS)]
    with ThreadPoolExecutor(_DAEMONS) as pool:
        total = [0]

        def count_kill() -> None:
            total[0] += 1
            report(f"{total[0]} of {count} kills in turns")

        shares = [count // _DAEMONS + (number < count % _DAEMONS) for number in range(_DAEMONS)]
        running = [
            pool.submit(_run_trial, trial_folder, seed + number, share, deadline, count_kill)
            for number, (trial_folder, share) in enumerate(zip(folders, shares, strict=True))
        ]
        trials = [one.result() for one in running]
    return _build_row(trials, count, seed)


def _run_trial(folder: Path, seed: int, count: int, deadline: float, on_kill: Callable[[], None]) -> _Trial:
    folder.mkdir(parents=True)
    model = MixedModel(folder, seed)
    with ScriptedApi(model.script, keep=False) as api:
        trial = _Trial(folder, seed, api, model)
        try:
            while trial.kills < count and time.monotonic() < deadline:
                trial.run_cycle()
                on_kill()
            trial.finish()
        except Exception as error:
            raise RuntimeError(f"seed {seed}, after {trial.kills} kills: {trial.findings.problems}") from error
        finally:
            trial.daemon.kill()
    trial.findings.expect(trial.kills == count, f"only {trial.kills} of {count} kills in time")
    return trial


def _build_row(trials: list[_Trial], count: int, seed: int) -> Row:
    findings = Findings()
    for problem in (f"seed {trial.seed}: {problem}" for trial in trials for problem in trial.findings.problems):
        findings.expect(False, problem)
    counts: Counter[str] = sum((trial.counts for trial in trials), Counter())
    return findings.build_row(
        "SIGKILL in turns",
        f"{_DAEMONS} daemons, {_PEOPLE} people each, seed {seed}",
        kills=sum(trial.kills for trial in trials),
        early=sum(trial.early for trial in trials),
        turns=f"{counts['turn.started']} ({counts['turn completed']} completed)",
        queued=counts["turn.queued"],
        steers=counts["turn/steer"],
        calls=f"{counts['tool.queued']} ({counts['tool.started']} started)",
        asks=f"{counts['ask.opened']} ({counts['ask/resolve']} answered)",
        unacknowledged=counts["lost"],
        aborted=counts["message.aborted"],
        cut=counts["cut"],
        outcome_unknown=counts["unknown"],
        requests=sum(len(trial.api.requests) for trial in trials),
    )
