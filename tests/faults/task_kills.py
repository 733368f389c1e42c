"""SIGKILL while background tasks start, run and end: none is lost, none is reported twice, no file of them is left."""

import contextlib
import itertools
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.faults.caller import Caller, CallRefused, ConnectionLost
from tests.faults.database import check_database
from tests.faults.histories import check_pairs, fetch_messages, get_text, read_whole_log
from tests.faults.rows import Findings, Row
from tests.support.daemon import Daemon, wait_until
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import calls, message, says
from tests.support.messages_api.scripts import Script
from tests.support.messages_api.server import ScriptedApi

_SESSIONS: Final = 3
_MAX_AT_ONCE: Final = 3
_MAX_SECONDS: Final = 0.6
_FIRST_REQUEST_SECONDS: Final = 8.0
_JOIN_SECONDS: Final = 60.0
_STARTED_PATTERN: Final = re.compile(r"Running in background as (\w+)\.")
_NOTIFIED_PATTERN: Final = re.compile(r"^<ostler-note>\nThe background task (\w+) ")

Json = dict[str, Any]


class _Model:
    """Starts commands in the background; each has a token, and an exit code of its own."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.marks = folder / "marks"
        self.text_only = False
        self._seed = seed
        self._serial = itertools.count()

    @property
    def script(self) -> Script:
        return Script("tasks", (), self._answer)

    def _answer(self, request: RecordedRequest) -> Reply:
        rng = random.Random(f"{self._seed} {request.conversation} {request.step} {request.message_count}")
        if self.text_only or rng.random() < 0.3:
            return message(says("Done."))
        commands = [self._build_command(rng) for _ in range(rng.randint(1, _MAX_AT_ONCE))]
        return message(*(calls("Bash", {"command": each, "run_in_background": True}) for each in commands))

    def _build_command(self, rng: random.Random) -> str:
        token = f"token-{next(self._serial)}"
        seconds = rng.choice((0, 0, rng.uniform(0, _MAX_SECONDS)))
        script = (
            f"echo begin-{token} >> {self.marks}; sleep {seconds:.2f}; echo {token}; echo end-{token} >> {self.marks}"
        )
        return f"{script}; exit {rng.choice((0, 0, 3))}"


class _Trial:
    def __init__(self, folder: Path, seed: int, api: ScriptedApi, model: _Model) -> None:
        self.findings = Findings()
        self.counts: Counter[str] = Counter()
        self.kills = 0
        self._folder = folder
        self._api = api
        self._model = model
        self._random = random.Random(seed)
        self.daemon = Daemon(folder / "home", environment=api.environment)
        self._sessions: list[str] = []

    def prepare(self) -> None:
        with self.daemon, Caller(self.daemon) as caller:
            for number in range(_SESSIONS):
                cwd = self._folder / f"p{number}"
                cwd.mkdir()
                rules, env = {"allow": ["Bash"]}, {"FAULTS_TRIAL": str(self._folder)}
                created = caller.call("session/create", cwd=str(cwd), rules=rules, env=env, on_restart="resume")
                self._sessions.append(created["id"])
            self.daemon.stop()

    def run_cycle(self) -> None:
        self.daemon.start()
        with ThreadPoolExecutor(_SESSIONS) as pool:
            working = [pool.submit(self._run_turns_until_lost, session_id) for session_id in self._sessions]
            with contextlib.suppress(TimeoutError):
                self._api.wait_for_requests(len(self._api.requests) + 1, _FIRST_REQUEST_SECONDS)
            threading.Event().wait(self._random.uniform(0, 2 * _MAX_SECONDS))
            self.daemon.kill()
            for each in working:
                each.result(_JOIN_SECONDS)
        self.kills += 1

    def _run_turns_until_lost(self, session_id: str) -> None:
        """Turn after turn, until the daemon is gone."""
        with contextlib.suppress(ConnectionLost), Caller(self.daemon) as caller:
            while True:
                _run_turn(caller, session_id)

    def finish(self) -> None:
        self._model.text_only = True
        self.daemon.start()
        with Caller(self.daemon) as caller:
            # The first may be one that was resumed: it starts more, or has made its last request already.
            self._run_turns(caller)
            wait_until(lambda: caller.call("task/list", status="running")["tasks"] == [], 60)
            wait_until(lambda: not find_processes(self._folder))
            self._run_turns(caller)
            self._compare(caller)
            for session_id in self._sessions:
                caller.call("session/delete", session_id=session_id)
        left = os.listdir(self.daemon.home / "tasks")
        self.findings.expect(not left, f"files were left: {left[:3]}")
        self.findings.expect(not self._api.violations, f"the API refused: {self._api.violations[:2]}")
        self.findings.expect(self.daemon.stop() == 0, "the last stop failed")
        check_database(self.daemon.home / "ostler.db", self.findings)

    def _run_turns(self, caller: Caller) -> None:
        for session_id in self._sessions:
            _run_turn(caller, session_id)

    # What has to hold.

    def _compare(self, caller: Caller) -> None:
        tasks = {task["id"]: task for task in _list_tasks(caller)}
        notified: Counter[str] = Counter()
        started: Counter[str] = Counter()
        for session_id in self._sessions:
            messages = fetch_messages(caller, session_id)
            check_pairs(messages, session_id, self.findings, running=False)
            notified.update(_find_in_blocks(messages, "text", _NOTIFIED_PATTERN))
            started.update(_find_in_blocks(messages, "tool_result", _STARTED_PATTERN))
        marks = Counter(self._model.marks.read_text().split()) if self._model.marks.exists() else Counter()
        self.findings.expect(all(runs == 1 for runs in marks.values()), f"ran twice: {marks.most_common(3)}")
        self.findings.expect(started.keys() <= tasks.keys(), f"tasks were lost: {started.keys() - tasks.keys()}")
        self.findings.expect(max(notified.values(), default=1) == 1, f"told too often: {notified.most_common(3)}")
        unnotified = [tasks[task_id] for task_id in tasks.keys() - notified.keys()]
        self.findings.expect(not unnotified, f"{len(unnotified)} never told: {unnotified[:3]}")
        self.findings.expect(notified.keys() <= tasks.keys(), f"told of unknown ones: {notified.keys() - tasks.keys()}")
        for task in tasks.values():
            self._check_end(task, marks)
        self._check_log(tasks)
        self.counts.update(task["status"] for task in tasks.values())
        self.counts["tasks"] = len(tasks)

    def _check_end(self, task: Json, marks: Counter[str]) -> None:
        """Tasks survive the kill of their daemon: each ran to its end, and left its exit code."""
        token = re.findall(r"begin-(token-\d+)", task["command"])[0]
        code = int(task["command"].rpartition(" ")[2])
        self.findings.expect(marks[f"end-{token}"] == 1, f"{task['id']} did not come to its end: {task}")
        self.findings.expect(task["exit_code"] == code, f"{task['id']} ended with {code}, and is {task}")
        self.findings.expect(task["output_bytes"] == len(token) + 1, f"{task['id']} printed {task['output_bytes']}")

    def _check_log(self, tasks: dict[str, Json]) -> None:
        seen: Counter[tuple[str, str]] = Counter()
        for event in read_whole_log(self.daemon):
            if event["type"] in {"task.started", "task.ended"}:
                seen[event["type"], event["data"]["task"]["id"]] += 1
        wanted = Counter((kind, task_id) for task_id in tasks for kind in ("task.started", "task.ended"))
        self.findings.expect(seen == wanted, f"the log tells {(seen - wanted) or (wanted - seen)} too often or never")


def _run_turn(caller: Caller, session_id: str) -> None:
    """One turn to its end, or the one that runs already."""
    try:
        turn = caller.call("turn/start", session_id=session_id, input=f"[tasks:{session_id}] go on")
        turn_id = turn["id"]
    except CallRefused as refused:
        if refused.code != "turn_running":
            raise
        turn_id = caller.call("turn/list", session_id=session_id, limit=500)["turns"][-1]["id"]
    caller.call("turn/wait", turn_id=turn_id, timeout_ms=20_000)


def _list_tasks(caller: Caller) -> list[Json]:
    tasks: list[Json] = []
    page: str | None = None
    while True:
        answer = caller.call("task/list", limit=500, page=page)
        tasks += answer["tasks"]
        page = answer["next"]
        if page is None:
            return tasks


def _find_in_blocks(messages: list[Json], kind: str, pattern: re.Pattern[str]) -> list[str]:
    blocks = [block for one in messages for block in one["content"] if block["type"] == kind]
    texts = (block["text"] if kind == "text" else get_text(block) for block in blocks)
    return [name for text in texts for name in pattern.findall(text)]


def find_processes(folder: Path) -> set[int]:
    """The processes of the sessions of a trial."""
    mark = f"FAULTS_TRIAL={folder}".encode()
    return {int(name) for name in os.listdir("/proc") if name.isdigit() and mark in _read_environment(name)}


def _read_environment(pid: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def kill_during_tasks(
    folder: Path, *, count: int, seed: int, report: Callable[[str], None], seconds: float = 30
) -> Row:
    """Kill a daemon `count` times, or for so many seconds, while its tasks start and end."""
    deadline = time.monotonic() + seconds
    model = _Model(folder, seed)
    with ScriptedApi(model.script, keep=False) as api:
        trial = _Trial(folder, seed, api, model)
        try:
            trial.prepare()
            while trial.kills < count and time.monotonic() < deadline:
                trial.run_cycle()
                report(f"{trial.kills} kills among tasks")
            trial.finish()
        finally:
            trial.daemon.kill()
            trial.daemon.end_commands()
    trial.findings.expect(trial.counts["tasks"] > 0, "no task was ever started")
    return trial.findings.build_row(
        "SIGKILL among tasks",
        f"{_SESSIONS} sessions, up to {_MAX_AT_ONCE} tasks a message, seed {seed}",
        kills=trial.kills,
        tasks=trial.counts["tasks"],
        completed=trial.counts["completed"],
        failed=trial.counts["failed"],
    )
