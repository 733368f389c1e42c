"""`make demo`: an agent at work, two terminals on it, a question, a plan for two agents, crashes, and nothing lost.

Everything happens in a temporary folder, with the embedded `rehearsal` model: no key, no network. What both terminals
see is printed once, by the first of them; the second one answers.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from ostler.clients import Ostler, connect
from ostler.protocol.ask import Allow, Answer, Approve, AskResolve
from ostler.protocol.events import Event
from ostler.protocol.methods import ASK_RESOLVE, SESSION_CREATE, TURN_START
from ostler.protocol.session import SessionCreate
from ostler.protocol.turn import TurnStart
from ostler.tools.sandbox.probe import probe_sandbox

PROJECT = Path(__file__).parent / "demo_project"
COLOURS = {"daemon": "33", "you": "1", "agent": "36", "agent 1": "32", "agent 2": "34", "terminal B": "35"}
PLAIN = not sys.stdout.isatty() or "NO_COLOR" in os.environ
STARTED = time.monotonic()

FIRST = "find hay in *.py then replace hay with oats in stable.py then run python3 -m unittest -q"
SECOND = "run python3 stable.py"
THIRD = (
    "plan make a list: ask a background agent in a worktree to replace hay with barley in stable.py then run"
    " python3 stable.py, ask a background agent in a worktree to replace mare with pony in stable.py, read stable.py"
)
SHOWN_LINES = 4
"""Of what a call found or printed."""
SHOWN_CHARS = 90
SIGNS = {"pending": " ", "in_progress": ">", "completed": "x"}
HIDDEN = {"TaskCreate", "TaskUpdate"}
"""Calls whose effect is shown: the list."""
WORKTREE = re.compile(r"\.ostler/worktrees/[^/]+/")
ALLOW = Allow()


def paint(words: str, colour: str) -> str:
    return words if PLAIN or not words else f"\x1b[{colour}m{words}\x1b[0m"


def say(who: str, what: str) -> None:
    seconds = paint(f"{time.monotonic() - STARTED:5.1f} s", "2")
    print(f"{seconds}  {paint(f'{who:<10}', COLOURS[who])}  {what}", flush=True)


def show_below(lines: list[str]) -> None:
    """What belongs to the line above: what a call found, printed or changed."""
    for line in lines:
        print(" " * 23 + paint(line, {"-": "31", "+": "32"}.get(line[:1], "2")), flush=True)


def open_scene(title: str) -> None:
    print(f"\n{paint(title, '1')}\n", flush=True)


def start_daemon(home: Path, how: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-m", "ostler.server", "--home", str(home), "--port", "0", "--model", "rehearsal"]
    with (home / "daemon.log").open("ab") as log:
        daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    assert daemon.stdout is not None
    line = daemon.stdout.readline().decode().strip()
    if not line:
        sys.exit(f"The daemon did not start:\n{(home / 'daemon.log').read_text()}")
    say("daemon", f"{how}: pid {daemon.pid}, {line.split()[-1]}")
    return daemon


class Terminal:
    """Follows the events of a session; it reconnects by itself when the daemon restarts."""

    def __init__(self, name: str, project: Path, *, shows: bool) -> None:
        self.name = name
        self.cursors: list[int] = []
        self._agents: dict[str, str] = {}
        """What the agents are called here, by their sessions."""
        self._project = project
        self._shows = shows
        self._seen: list[Event] = []
        self._new_event = anyio.Event()

    async def follow(self, home: Path, session_id: str) -> None:
        async with connect(str(home), name=self.name) as ostler:
            async for event in ostler.events(session_id, after=0):
                if event.cursor is not None:
                    self.cursors.append(event.cursor)
                if self._shows:
                    self._show(event)
                self._seen.append(event)
                self._new_event.set()

    def _show(self, event: Event) -> None:
        data = event.data
        who = self._agents.get(event.session_id or "", "agent")
        match event.type:
            case "session.created" if data["session"]["parent_id"] is not None:
                self._agents[data["session"]["id"]] = f"agent {len(self._agents) + 1}"
            case "todo.changed":
                show_below([" ".join(f"[{SIGNS[todo['status']]}] {todo['id']}" for todo in data["todos"])])
            case "tool.started" if data["call"]["tool"] in HIDDEN:
                pass
            case "tool.started":
                say(who, self._describe(data["call"]))
            case "tool.completed" if data["call"]["tool"] in {"Grep", "Bash"}:
                show_below(list_printed_lines(data["call"]))
            case "file.changed":
                show_below([line for line in data["patch"].splitlines()[3:] if line[:1] in {"-", "+"}])
            case "turn.ended":
                reason = data["turn"]["reason"]
                say(who, "done" if reason == "completed" else f"stopped: {reason}")
            case _:
                pass

    def _describe(self, call: dict[str, Any]) -> str:
        summary: str = WORKTREE.sub("", call["summary"].replace(f"{self._project}/", ""))
        words = summary if summary.startswith(call["tool"]) else f"{call['tool']} {summary}"
        return words if len(words) <= SHOWN_CHARS else f"{words[: SHOWN_CHARS - 1]}…"

    async def wait_for_event(self, kind: str, session_id: str | None = None) -> Event:
        """Wait for the first event of a kind, perhaps in a certain session; events before it are dropped."""
        with anyio.fail_after(30):
            while True:
                for at, event in enumerate(self._seen):
                    if event.type == kind and session_id in {None, event.session_id}:
                        del self._seen[: at + 1]
                        return event
                self._new_event = anyio.Event()
                await self._new_event.wait()


def list_printed_lines(call: dict[str, Any]) -> list[str]:
    lines = [line for block in call["content"] for line in block.get("text", "").splitlines()]
    lines = [line for line in lines if line.strip("- ")]
    return lines[:SHOWN_LINES] + (["…"] if len(lines) > SHOWN_LINES else [])


async def create_session(ostler: Ostler, project: Path) -> str:
    params = {"cwd": str(project), "title": "the grey mare", "mode": "acceptEdits", "on_restart": "resume"}
    params["wake_on_task_end"] = "agents"
    return (await ostler.call(SESSION_CREATE, SessionCreate.model_validate(params))).id


async def start_turn(home: Path, session_id: str, words: str) -> None:
    async with connect(str(home), name="demo") as ostler:
        for number, line in enumerate(textwrap.wrap(words, SHOWN_CHARS)):
            show_below([line]) if number else say("you", line)
        await ostler.call(TURN_START, TurnStart.model_validate({"session_id": session_id, "input": words}))


async def wait_for_both(terminals: list[Terminal], kind: str, session_id: str | None = None) -> dict[str, Any]:
    return [await terminal.wait_for_event(kind, session_id) for terminal in terminals][-1].data


async def wait_for_question(terminals: list[Terminal], who: str = "agent") -> str:
    """The session that asks."""
    ask = (await wait_for_both(terminals, "ask.opened"))["ask"]
    say(who, f"asks, in both terminals: may I {ask['message'][:1].lower()}{ask['message'][1:]}")
    return str(ask["session_id"])


async def answer_question(home: Path, session_id: str, terminal: Terminal, words: str, answer: Answer = ALLOW) -> None:
    async with connect(str(home), name=terminal.name) as ostler:
        (ask,) = (await ostler.request("ask/list", {"session_id": session_id}))["asks"]
        say(terminal.name, words)
        await ostler.call(ASK_RESOLVE, AskResolve(ask_id=ask["id"], answer=answer))


async def wait_for_whole_message(home: Path, session_id: str) -> None:
    """An ask of an unfinished message would be lost with it in the crash."""
    async with connect(str(home), name="demo") as ostler:
        with anyio.fail_after(30):
            while (await ostler.request("session/get", {"session_id": session_id}))["message"]:  # noqa: ASYNC110 - another process has to come that far
                await anyio.sleep(0.02)


async def wait_for_plan(terminals: list[Terminal]) -> None:
    ask = (await wait_for_both(terminals, "ask.opened"))["ask"]
    say("agent", "shows its plan, in both terminals:")
    show_below([line for each in ask["plan"].splitlines()[2:] for line in textwrap.wrap(each, SHOWN_CHARS + 10)])


async def wait_for_reports(home: Path, session_id: str, terminals: list[Terminal]) -> None:
    """Both agents have ended, and the session that sent them has read their reports."""
    for _ in range(2):
        await wait_for_both(terminals, "task.ended")
    await wait_for_both(terminals, "turn.ended", session_id)
    async with connect(str(home), name="demo") as ostler:
        with anyio.fail_after(30):
            while (await ostler.request("session/get", {"session_id": session_id}))["turn"]:
                await wait_for_both(terminals, "turn.ended", session_id)


async def wait_for_agents(home: Path, session_id: str, count: int) -> None:
    async with connect(str(home), name="demo") as ostler:
        with anyio.fail_after(30):
            while len((await ostler.request("agent/list", {"session_id": session_id}))["agents"]) < count:  # noqa: ASYNC110 - as above
                await anyio.sleep(0.02)


async def run_demo(home: Path, project: Path) -> None:
    terminals = [Terminal("terminal A", project, shows=True), Terminal("terminal B", project, shows=False)]
    open_scene("1. An agent at work, and two terminals on it")
    daemon = start_daemon(home, "started")
    try:
        async with connect(str(home), name="demo") as ostler:
            session_id = await create_session(ostler, project)
        async with anyio.create_task_group() as group:
            for terminal in terminals:
                group.start_soon(terminal.follow, home, session_id)
            await wait_for_both(terminals, "session.created")
            await start_turn(home, session_id, FIRST)
            await wait_for_question(terminals)
            await answer_question(home, session_id, terminals[1], "allow (the first answer wins, from any terminal)")
            await wait_for_both(terminals, "turn.ended")

            open_scene("2. A crash, with a question open")
            await start_turn(home, session_id, SECOND)
            await wait_for_question(terminals)
            await wait_for_whole_message(home, session_id)
            daemon.kill()
            daemon.wait()
            say("daemon", "killed with SIGKILL, in the middle of the turn")
            daemon = start_daemon(home, "started again")
            await answer_question(home, session_id, terminals[1], "the question is still there: allow")
            await wait_for_both(terminals, "turn.ended")

            open_scene("3. A plan, two agents in worktrees of their own, and a crash among them")
            await start_turn(home, session_id, THIRD)
            await wait_for_plan(terminals)
            await answer_question(home, session_id, terminals[1], "approve", Approve())
            asking = await wait_for_question(terminals, "agent 1")
            await wait_for_agents(home, session_id, 2)
            await wait_for_whole_message(home, asking)
            daemon.kill()
            daemon.wait()
            say("daemon", "killed with SIGKILL, while all of them are at work")
            daemon = start_daemon(home, "started again")
            await answer_question(home, session_id, terminals[1], "the question of agent 1 is still there: allow")
            await wait_for_reports(home, session_id, terminals)
            await anyio.to_thread.run_sync(show_branches, project)
            group.cancel_scope.cancel()
    finally:
        stop_daemon(daemon)
    open_scene("4. Nothing lost")
    first, second = (terminal.cursors for terminal in terminals)
    assert first == second == sorted(set(first)), "the terminals did not see the same events, once and in order"
    print(
        f"Before and after the crashes, both terminals saw the same {len(first)} events: "
        "in order, none lost, none twice."
    )


def run_git(project: Path, *words: str) -> str:
    identity = ("-c", "user.name=ostler", "-c", "user.email=ostler@example.org")
    done = subprocess.run(["git", *identity, *words], cwd=project, check=True, capture_output=True, text=True)
    return done.stdout


def show_branches(project: Path) -> None:
    """What each of them has changed, and that none has met another."""
    for line in run_git(project, "worktree", "list").splitlines():
        folder = Path(line.split()[0])
        kept = (folder / "stable.py").read_text().splitlines()
        say("daemon", f"{'worktree' if folder != project else 'your folder'} {folder.name}")
        show_below([each.strip() for each in kept if "EVENING_FEED =" in each or "print" in each])


def stop_daemon(daemon: "subprocess.Popen[bytes]") -> None:
    if daemon.poll() is None:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(10)
    if daemon.stdout is not None:
        daemon.stdout.close()


OPENING = """
ostler looks after coding agents: they work in a daemon, and terminals come and go.
The model is `rehearsal`, embedded: no key, no network. The files, the commands and the crashes are real."""

NEXT = """
Your turn:

  export PATH="$PWD/.venv/bin:$PATH"
  ostler                        a chat in this folder; it starts the daemon
  ostler run 'read README.md'   one turn, for scripts
  ostler doctor                 whether it has all that it needs
  ostler --help                 the rest

With ANTHROPIC_API_KEY set when the daemon starts, a real model answers. docs/index.md takes you from here."""


def main() -> None:
    print(OPENING)
    sandbox = probe_sandbox()
    if not sandbox.works:
        print(f"Commands run without the sandbox here ({sandbox.reason.split('.')[0]}); the demo does not need it.")
    with tempfile.TemporaryDirectory(prefix="ostler-demo-") as folder:
        home, project = Path(folder) / "home", Path(folder) / "inn"
        home.mkdir(mode=0o700)
        shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("__pycache__"))
        run_git(project, "init", "-q", "-b", "main")
        run_git(project, "add", ".")
        run_git(project, "commit", "-qm", "The inn")
        anyio.run(run_demo, home, project)
    print(NEXT)


if __name__ == "__main__":
    main()
