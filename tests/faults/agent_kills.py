"""SIGKILL among trees of agents: no call runs twice, each has one result, each end is told once, nothing is left."""

import contextlib
import itertools
import json
import os
import random
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.faults.caller import Caller, CallRefused, ConnectionLost
from tests.faults.database import check_database
from tests.faults.histories import (
    OUTCOME_UNKNOWN,
    check_effects,
    check_log,
    check_pairs,
    fetch_messages,
    get_text,
    read_whole_log,
)
from tests.faults.rows import Findings, Row
from tests.faults.task_kills import find_processes
from tests.support.daemon import Daemon, wait_until
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import Part, calls, message, pause, says
from tests.support.messages_api.scripts import Script
from tests.support.messages_api.server import ScriptedApi

_ROOTS: Final = 3
_MAX_DEPTH: Final = 3
_MAX_AGENTS: Final = 40
"""Agents of one trial: the model asks for no more then, so that a long trial ends."""
_MAX_REQUESTS: Final = 20
"""Requests to the model before a kill, at most."""
_REQUESTS_SECONDS: Final = 6.0
_MAX_WAIT_SECONDS: Final = 0.1
_JOIN_SECONDS: Final = 60.0
_FINISH_SECONDS: Final = 40.0
_NESTER: Final = """---
name: nester
description: Hands on what it is given.
tools: [Agent, Bash, Read, Write, TestingPermission]
---
Do what you are told, or let others do it.
"""
_NOTIFIED_PATTERN: Final = re.compile(r"^<ostler-note>\nThe background task (a\w+) ", re.MULTILINE)
_NEVER_BEGAN: Final = "before the agent began"
_AGENT_PATTERN: Final = re.compile(r"\(agent (s_\w+)\)")

Json = dict[str, Any]


class _Model:
    """Builds trees: an agent works, asks, and hands work on, down to three below the session of the person."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.marks = folder / "marks"
        self.text_only = False
        self.agents = 0
        self._seed = seed
        self._serial = itertools.count()

    @property
    def script(self) -> Script:
        return Script("tree", (), self._answer)

    def _answer(self, request: RecordedRequest) -> Reply:
        rng = random.Random(f"{self._seed} {request.conversation} {request.step} {request.message_count}")
        depth = int(request.conversation.partition(":d")[2].partition("-")[0])
        if self.text_only or rng.random() < 0.1 + 0.1 * (request.step if depth else 0):
            return message(says("I am done with ", pause(rng.choice((0, 0.02))), f"{request.conversation}."))
        parts: list[Part] = []
        for _ in range(rng.randint(1, 3)):
            parts += [self._build_call(request, depth, rng), pause(rng.choice((0, 0, 0.02)))]
        return message(*parts)

    def _build_call(self, request: RecordedRequest, depth: int, rng: random.Random) -> Part:
        kinds = ["bash", "bash", "ask"]
        if depth < _MAX_DEPTH and self.agents < _MAX_AGENTS:
            kinds += ["agent"] * 4
        match rng.choice(kinds):
            case "agent":
                return self._build_resumed(request, rng) or self._build_agent(depth, rng)
            case "ask":
                return calls("TestingPermission", {})
            case _:
                command = f"echo token-{next(self._serial)} >> {self.marks}; sleep {rng.choice((0, 0, 0.2))}"
                return calls("Bash", {"command": command})

    def _build_resumed(self, request: RecordedRequest, rng: random.Random) -> Part | None:
        """Sends an agent that this conversation has had to work once more, now and then."""
        known = sorted(set(_AGENT_PATTERN.findall(json.dumps(request.messages))))
        if not known or rng.random() < 0.7:
            return None
        given: Json = {"description": "once more", "prompt": "Go on.", "resume": rng.choice(known)}
        return calls("Agent", given | ({"run_in_background": True} if rng.random() < 0.5 else {}))

    def _build_agent(self, depth: int, rng: random.Random) -> Part:
        self.agents += 1
        name = f"d{depth + 1}-{next(self._serial)}"
        given: Json = {"description": name, "prompt": f"[tree:{name}] Go on.", "name": name}
        # Below the session of a person it is refused.
        background = self.agents % 2 == 0 if depth == 0 else rng.random() < 0.1
        given |= {"run_in_background": True} if background else {"subagent_type": "nester"}
        if rng.random() < 0.3:
            given["isolation"] = "worktree"
        return calls("Agent", given)


class _Trial:
    def __init__(self, folder: Path, seed: int, api: ScriptedApi, model: _Model) -> None:
        self.findings = Findings()
        self.counts: Counter[str] = Counter()
        self.kills = 0
        self._folder = folder
        self._api = api
        self._model = model
        self._random = random.Random(seed)
        settings = {
            "OSTLER_TESTING": "1",
            "OSTLER_MODEL__FIRST_WAIT_SECONDS": "0.05",
            "OSTLER_AGENTS__MAX_RUNNING": "4",
        }
        self.daemon = Daemon(folder / "home", environment={**api.environment, **settings})
        self._roots: dict[str, str] = {}
        """The name of each session of a person, and its id."""

    def prepare(self) -> None:
        kinds = self.daemon.home / "agents"
        self.daemon.home.mkdir(mode=0o700, exist_ok=True)
        kinds.mkdir()
        (kinds / "nester.md").write_text(_NESTER)
        with self.daemon, Caller(self.daemon) as caller:
            for number in range(_ROOTS):
                project = self._folder / f"p{number}"
                make_repository(project)
                options: Json = {"on_restart": "resume"} if number != 1 else {}
                options["wake_on_task_end"] = "none" if number == 2 else "agents"
                rules, env = {"allow": ["Bash"]}, {"FAULTS_TRIAL": str(self._folder)}
                created = caller.call("session/create", cwd=str(project), rules=rules, env=env, **options)
                self._roots[f"d0-{number}"] = created["id"]
            self.daemon.stop()

    def run_cycle(self) -> None:
        """One kill while people start turns and answer what the agents ask."""
        self.daemon.start()
        with ThreadPoolExecutor(_ROOTS) as pool:
            seeds = [self._random.random() for _ in self._roots]
            working = [
                pool.submit(self._work_until_lost, name, random.Random(each))
                for name, each in zip(self._roots, seeds, strict=True)
            ]
            if self._random.random() < 0.8:
                # So many requests, and not so many seconds: how fast they come depends on the machine.
                wanted = len(self._api.requests) + self._random.randint(1, _MAX_REQUESTS)
                with contextlib.suppress(TimeoutError):
                    self._api.wait_for_requests(wanted, _REQUESTS_SECONDS)
            threading.Event().wait(self._random.uniform(0, _MAX_WAIT_SECONDS))
            self.daemon.kill()
            for each in working:
                each.result(_JOIN_SECONDS)
        self.kills += 1

    def _work_until_lost(self, name: str, rng: random.Random) -> None:
        with contextlib.suppress(ConnectionLost), Caller(self.daemon) as caller:
            while True:
                self._take_step(caller, name, rng)

    def _take_step(self, caller: Caller, name: str, rng: random.Random) -> None:
        session = caller.call("session/get", session_id=self._roots[name])
        asks, turn = session["asks"], session["turn"]
        if asks and rng.random() < 0.5:
            self._answer(caller, rng.choice(asks), rng)
        elif turn is None:
            with contextlib.suppress(CallRefused):  # one that the end of an agent has begun meanwhile
                caller.call("turn/start", session_id=session["id"], input=f"[tree:{name}] Go on.")
        else:
            caller.call("turn/wait", turn_id=turn["id"], timeout_ms=rng.choice((10, 50, 100)))

    def _answer(self, caller: Caller, ask: Json, rng: random.Random) -> None:
        answers: tuple[Json, ...] = ({"choice": "allow"}, {"choice": "deny", "message": "No."})
        try:
            caller.call("ask/resolve", ask_id=ask["id"], answer=rng.choices(answers, weights=(4, 1))[0])
            self.counts["answers"] += 1
        except CallRefused as refused:
            self.findings.expect(refused.code == "ask_resolved", f"{ask['id']}: {refused.code} {refused}")

    def finish(self) -> None:
        """Let everything come to its end, and look at what there is."""
        self._model.text_only = True
        self.daemon.start()
        with Caller(self.daemon) as caller:
            try:
                wait_until(lambda: self._settle(caller), _FINISH_SECONDS)
            except (AssertionError, TimeoutError):
                self.findings.expect(False, f"it did not come to an end: {self._describe_unfinished(caller)}")
            # A turn for what nobody was woken for: now each end is told.
            for name, session_id in self._roots.items():
                turn = caller.call("turn/start", session_id=session_id, input=f"[tree:{name}] Go on.", queue=True)
                caller.call("turn/wait", turn_id=turn["id"], timeout_ms=20_000)
            wait_until(lambda: self._settle(caller), _FINISH_SECONDS)
            wait_until(lambda: not find_processes(self._folder))
            self._compare(caller)
            for session_id in self._roots.values():
                caller.call("session/delete", session_id=session_id)
        left = os.listdir(self.daemon.home / "tasks") if (self.daemon.home / "tasks").exists() else []
        self.findings.expect(not left, f"files were left: {left[:3]}")
        self.findings.expect(not self._api.violations, f"the API refused: {self._api.violations[:2]}")
        self.findings.expect(not self._api.prefix_changes, f"the past changed: {self._api.prefix_changes[:2]}")
        self.findings.expect(self.daemon.stop() == 0, "the last stop failed")
        check_database(self.daemon.home / "ostler.db", self.findings)

    def _settle(self, caller: Caller) -> bool:
        """Answer what is open; true when nothing is at work any more."""
        done = True
        for session_id in self._roots.values():
            session = caller.call("session/get", session_id=session_id)
            for ask in session["asks"]:
                self._answer(caller, ask, random.Random(0))
            busy = [one for one in list_agents(caller, session_id) if one["status"] in {"queued", "running", "waiting"}]
            done = done and not session["asks"] and session["turn"] is None and not busy
        return done and caller.call("task/list", status="running")["tasks"] == []

    def _describe_unfinished(self, caller: Caller) -> list[Json]:
        found: list[Json] = []
        for session_id in self._roots.values():
            session = caller.call("session/get", session_id=session_id)
            turn = session["turn"] and {key: session["turn"][key] for key in ("id", "status")}
            agents = [(one["agent_id"], one["status"]) for one in list_agents(caller, session_id)]
            busy = [one for one in agents if one[1] in {"queued", "running", "waiting"}]
            found.append({"id": session_id, "status": session["status"], "turn": turn, "busy": busy})
        return [*found, {"tasks": [one["id"] for one in caller.call("task/list", status="running")["tasks"]]}]

    # What has to hold.

    def _compare(self, caller: Caller) -> None:
        marks = Counter(self._model.marks.read_text().split()) if self._model.marks.exists() else Counter()
        self.findings.expect(all(runs == 1 for runs in marks.values()), f"ran twice: {marks.most_common(3)}")
        known: set[str] = set()
        for name, session_id in self._roots.items():
            agents = {one["agent_id"]: one for one in list_agents(caller, session_id) if one["agent_id"]}
            for each_id, each_name in {session_id: name, **{one: agents[one]["name"] for one in agents}}.items():
                messages = fetch_messages(caller, each_id)
                check_pairs(messages, each_name, self.findings, running=False)
                known |= check_effects(messages, each_name, marks, self.findings)
                self._check_calls(each_name, messages, agents)
            self._check_agents(caller, session_id, agents)
        self.findings.expect(marks.keys() <= known, f"ran, and no history says so: {marks.keys() - known}")
        self._check_tasks(caller)
        log = read_whole_log(self.daemon)
        check_log(log, self.findings)
        self.counts.update(event["type"] for event in log)

    def _check_calls(self, name: str, messages: list[Json], agents: dict[str, Json]) -> None:
        """Each call of an agent says what became of it; what is unknown was never begun."""
        results = {
            block["tool_use_id"]: get_text(block)
            for one in messages
            for block in one["content"]
            if block["type"] == "tool_result"
        }
        by_call = {one["call_id"]: one for one in agents.values()}
        for one in messages:
            for index, block in enumerate(one["content"]):
                if block["type"] != "tool_use" or block["name"] != "Agent":
                    continue
                self.counts["calls of agents"] += 1
                text, agent = results.get(block["id"], ""), by_call.get(f"{one['id']}#{index}")
                began = _NEVER_BEGAN not in text
                self.counts["never began"] += not began
                self.findings.expect(
                    OUTCOME_UNKNOWN not in text, f"{name}: what became of an agent is not known: {text!r}"
                )
                if agent is None or (not began and "resume" in block["input"]):
                    continue  # one that was to work once more had ended before
                if agent["status"] == "completed" and not block["input"].get("run_in_background"):
                    said = f"I am done with tree:{agent['name']}." in text or "in background as" in text
                    self.findings.expect(said, f"{name}: {agent['agent_id']} has completed, and told: {text!r}")

    def _check_agents(self, caller: Caller, session_id: str, agents: dict[str, Json]) -> None:
        ended = {"completed", "failed", "killed", "interrupted"}
        for one in agents.values():
            self.counts[f"agent {one['status']}"] += 1
            self.counts["deepest"] += one["name"].startswith(f"d{_MAX_DEPTH}-")
            self.findings.expect(one["status"] in ended, f"{one['agent_id']} is {one['status']} at the end")
            turns = caller.call("turn/list", session_id=one["agent_id"], limit=500)["turns"]
            self.findings.expect(all(turn["status"] == "ended" for turn in turns), f"{one['agent_id']}: {turns[-1:]}")

    def _check_tasks(self, caller: Caller) -> None:
        """Each agent in the background is one task, which began and ended once, and was told of once."""
        tasks = {task["id"]: task for task in list_tasks(caller)}
        notified: Counter[str] = Counter()
        children: Counter[str] = Counter(f"{task['agent_id']} {task['call_id']}" for task in tasks.values())
        twice = [one for one, count in children.items() if count > 1]
        self.findings.expect(not twice, f"two tasks for one call of an agent: {twice}")
        listed = {
            one["agent_id"]: one
            for root in self._roots.values()
            for one in list_agents(caller, root)
            if one["agent_id"]
        }
        sessions = {*self._roots.values(), *listed}
        for session_id in sessions:
            for one in fetch_messages(caller, session_id):
                if one["role"] == "user":
                    texts = [block["text"] for block in one["content"] if block["type"] == "text"]
                    notified.update(found for text in texts for found in _NOTIFIED_PATTERN.findall(text))
        self.counts["tasks"] = len(tasks)
        self.findings.expect(max(notified.values(), default=1) == 1, f"told too often: {notified.most_common(3)}")
        ends_of_roots = {one for one, task in tasks.items() if task["session_id"] in self._roots.values()}
        never = [(one, tasks[one]["status"]) for one in ends_of_roots - notified.keys()]
        self.findings.expect(not never, f"{len(never)} ends were never told: {never[:3]}")
        seen: Counter[tuple[str, str]] = Counter()
        for event in read_whole_log(self.daemon):
            if event["type"] in {"task.started", "task.ended"}:
                seen[event["type"], event["data"]["task"]["id"]] += 1
        wanted = Counter((kind, one) for one in tasks for kind in ("task.started", "task.ended"))
        self.findings.expect(seen == wanted, f"the log tells {(seen - wanted) or (wanted - seen)} too often or never")
        self._check_worktrees(listed)

    def _check_worktrees(self, agents: dict[str, Json]) -> None:
        """Nothing has changed in any worktree, so that none is kept."""
        for number in range(_ROOTS):
            project = self._folder / f"p{number}"
            listed = run_git(project, "worktree", "list", "--porcelain").strip().split("\n\n")
            self.findings.expect(len(listed) == 1, f"p{number} has worktrees left: {listed[1:]}")
            folder = project / ".ostler" / "worktrees"
            left = os.listdir(folder) if folder.exists() else []
            self.findings.expect(not left, f"p{number} has folders left: {left[:3]}")
            branches = run_git(project, "branch", "--format=%(refname:short)").split()
            self.findings.expect(branches == ["main"], f"p{number} has branches left: {branches}")


def make_repository(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.txt").write_text("Something to read.\n")
    run_git(folder, "init", "-q", "-b", "main")
    run_git(folder, "add", ".")
    run_git(folder, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "first")


def run_git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def list_agents(caller: Caller, session_id: str) -> list[Json]:
    return _list_pages(caller, "agent/list", "agents", session_id=session_id)


def list_tasks(caller: Caller) -> list[Json]:
    return _list_pages(caller, "task/list", "tasks")


def _list_pages(caller: Caller, method: str, name: str, **params: Any) -> list[Json]:
    found: list[Json] = []
    page: str | None = None
    while True:
        answer = caller.call(method, limit=500, page=page, **params)
        found += answer[name]
        page = answer["next"]
        if page is None:
            return found


def kill_among_agents(
    folder: Path, *, count: int, seed: int, report: Callable[[str], None], seconds: float = 400
) -> Row:
    """Kill a daemon `count` times, or for so many seconds, while trees of agents are at work; new trees each ten."""
    deadline = time.monotonic() + seconds
    findings = Findings()
    counts: Counter[str] = Counter()
    kills = trees = 0
    while kills < count and time.monotonic() < deadline:
        place = folder / f"grove{trees}"
        place.mkdir()
        trial = _run_trial(place, seed + trees, min(10, count - kills), deadline, report)
        for problem in trial.findings.problems:
            findings.expect(False, f"seed {seed + trees}: {problem}")
        counts += trial.counts
        kills, trees = kills + trial.kills, trees + 1
    findings.expect(kills == count, f"only {kills} of {count} kills in time")
    findings.expect(counts["tasks"] > 0, "no agent went to the background")
    return findings.build_row(
        "SIGKILL among agents",
        f"{_ROOTS} sessions at a time, agents {_MAX_DEPTH} deep, seed {seed}",
        kills=kills,
        agents=sum(number for name, number in counts.items() if name.startswith("agent ")),
        completed=counts["agent completed"],
        deepest=counts["deepest"],
        in_background=counts["tasks"],
        asks=f"{counts['ask.opened']} ({counts['answers']} answered)",
        calls=f"{counts['tool.queued']} ({counts['tool.started']} started)",
        never_began=counts["never began"],
    )


def _run_trial(folder: Path, seed: int, count: int, deadline: float, report: Callable[[str], None]) -> _Trial:
    model = _Model(folder, seed)
    with ScriptedApi(model.script, keep=False) as api:
        trial = _Trial(folder, seed, api, model)
        try:
            trial.prepare()
            while trial.kills < count and time.monotonic() < deadline:
                trial.run_cycle()
                report(f"seed {seed}: {trial.kills} kills among agents")
            trial.finish()
        except Exception as error:
            raise RuntimeError(f"seed {seed}, after {trial.kills} kills: {trial.findings.problems}") from error
        finally:
            trial.daemon.kill()
            trial.daemon.end_commands()
    return trial
