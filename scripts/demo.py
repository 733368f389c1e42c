"""`make demo`: an agent at work, two terminals on it, a question, a crash, and nothing lost.

Everything happens in a temporary folder, with the embedded `rehearsal` model: no key, no network.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from ostler.clients import Ostler, connect
from ostler.protocol.ask import Allow, AskResolve
from ostler.protocol.events import Event
from ostler.protocol.methods import ASK_RESOLVE, SESSION_CREATE, TURN_START
from ostler.protocol.session import SessionCreate
from ostler.protocol.turn import TurnStart

PROJECT = Path(__file__).parent / "demo_project"
COLOURS = {"daemon": "33", "you": "1", "terminal A": "36", "terminal B": "35"}
PLAIN = not sys.stdout.isatty() or "NO_COLOR" in os.environ
STARTED = time.monotonic()

FIRST = "read stable.py and find hay in *.py then replace hay with oats in stable.py then run python3 -m unittest -q"
SECOND = "read README.md then run python3 stable.py"


def say(who: str, what: str) -> None:
    name = f"{who:<10}" if PLAIN else f"\x1b[{COLOURS[who]}m{who:<10}\x1b[0m"
    for line in what.splitlines() or [""]:
        print(f"{time.monotonic() - STARTED:6.2f}s  {name}  {line}", flush=True)


def start_daemon(home: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-m", "ostler.server", "--home", str(home), "--port", "0", "--model", "rehearsal"]
    with (home / "daemon.log").open("ab") as log:
        daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    assert daemon.stdout is not None
    line = daemon.stdout.readline().decode().strip()
    if not line:
        sys.exit(f"The daemon did not start:\n{(home / 'daemon.log').read_text()}")
    say("daemon", f"{line} (pid {daemon.pid})")
    return daemon


class Terminal:
    """Prints the events of a session as they happen; it reconnects by itself when the daemon restarts."""

    def __init__(self, name: str, *, brief: bool = False) -> None:
        self.name = name
        self._brief = brief
        """Print calls and asks only, no text and no patches."""
        self.cursors: list[int] = []
        self._seen: list[Event] = []
        self._new_event = anyio.Event()
        self._partial_line = ""

    async def follow(self, home: Path, session_id: str) -> None:
        async with connect(str(home), name=self.name) as ostler:
            async for event in ostler.events(session_id, after=0):
                self._handle_event(event)

    def _handle_event(self, event: Event) -> None:
        if event.type == "message.delta":
            self._write(event.data)
        elif event.cursor is not None:
            self.cursors.append(event.cursor)
            self._show(event)
        self._seen.append(event)
        self._new_event.set()

    def _write(self, delta: dict[str, Any]) -> None:
        """Print text as it is streamed, a line at a time."""
        if delta["kind"] != "text" or self._brief:
            return
        self._partial_line += delta["text"]
        *whole, self._partial_line = self._partial_line.split("\n")
        for line in whole:
            say(self.name, f"  {line}")

    def _flush(self) -> None:
        if self._partial_line.strip():
            say(self.name, f"  {self._partial_line}")
        self._partial_line = ""

    def _show(self, event: Event) -> None:
        data = event.data
        match event.type:
            case "message.completed" | "message.aborted":
                self._flush()
            case "tool.started":
                say(self.name, f"● {data['call']['tool']}: {data['call']['summary']}")
            case "tool.completed":
                say(self.name, f"{'✗' if data['call']['is_error'] else '✓'} {data['call']['tool']}")
            case "file.changed" if not self._brief:
                say(self.name, "\n".join(f"    {line}" for line in (data["patch"] or "").splitlines()[2:]))
            case "ask.opened":
                say(self.name, f"? {data['ask']['message']}")
            case "ask.resolved":
                say(self.name, f"! the ask was answered: {(data['ask']['answer'] or {}).get('choice')}")
            case "turn.ended":
                say(self.name, f"■ the turn ended: {data['turn']['reason']}")
            case _:
                pass

    async def wait_for_event(self, wanted: Callable[[Event], bool]) -> Event:
        """Wait for the first event of a kind; events before it are dropped."""
        with anyio.fail_after(30):
            while True:
                for at, event in enumerate(self._seen):
                    if wanted(event):
                        del self._seen[: at + 1]
                        return event
                self._new_event = anyio.Event()
                await self._new_event.wait()


def has_type(kind: str) -> Callable[[Event], bool]:
    return lambda event: event.type == kind


async def start_turn(home: Path, session_id: str, words: str) -> None:
    async with connect(str(home), name="demo") as ostler:
        say("you", f"> {words}")
        await ostler.call(TURN_START, TurnStart.model_validate({"session_id": session_id, "input": words}))


async def create_session(ostler: Ostler, project: Path) -> str:
    params = {"cwd": str(project), "title": "the grey mare", "mode": "acceptEdits", "on_restart": "resume"}
    session = await ostler.call(SESSION_CREATE, SessionCreate.model_validate(params))
    say("you", f"a session in {project}: {session.id}")
    return session.id


async def answer_next_ask(home: Path, terminal: Terminal) -> None:
    """The second terminal says yes to the next ask that it sees."""
    ask = (await terminal.wait_for_event(has_type("ask.opened"))).data["ask"]
    async with connect(str(home), name=terminal.name) as ostler:
        await ostler.call(ASK_RESOLVE, AskResolve(ask_id=ask["id"], answer=Allow()))
    say(terminal.name, "< allow")


async def wait_for_both(terminals: list[Terminal], kind: str) -> None:
    for terminal in terminals:
        await terminal.wait_for_event(has_type(kind))


async def run_demo(home: Path, project: Path) -> None:
    terminals = [Terminal("terminal A"), Terminal("terminal B", brief=True)]
    daemon = start_daemon(home)
    try:
        async with connect(str(home), name="demo") as ostler:
            session_id = await create_session(ostler, project)
        async with anyio.create_task_group() as group:
            for terminal in terminals:
                group.start_soon(terminal.follow, home, session_id)
            await wait_for_both(terminals, "session.created")
            await start_turn(home, session_id, FIRST)
            await answer_next_ask(home, terminals[1])
            await wait_for_both(terminals, "turn.ended")

            await start_turn(home, session_id, SECOND)
            await wait_for_both(terminals, "ask.opened")
            # An ask of an unfinished message would be lost with it in the crash.
            await wait_for_whole_message(home, session_id)
            daemon.kill()
            daemon.wait()
            say("daemon", "killed with SIGKILL, in the middle of the turn, with the question open")
            daemon = start_daemon(home)
            await answer_after_restart(home, session_id, terminals[1])
            await wait_for_both(terminals, "turn.ended")
            group.cancel_scope.cancel()
        print_transcript(home, session_id)
    finally:
        stop_daemon(daemon)
    assert terminals[0].cursors == terminals[1].cursors == sorted(set(terminals[0].cursors))
    print(f"Both terminals saw {len(terminals[0].cursors)} stored events: the same, in order, none lost, none twice.")


async def wait_for_whole_message(home: Path, session_id: str) -> None:
    async with connect(str(home), name="demo") as ostler:
        with anyio.fail_after(30):
            while (await ostler.request("session/get", {"session_id": session_id}))["message"]:  # noqa: ASYNC110 - another process has to come that far
                await anyio.sleep(0.02)


async def answer_after_restart(home: Path, session_id: str, terminal: Terminal) -> None:
    async with connect(str(home), name=terminal.name) as ostler:
        (ask,) = (await ostler.request("ask/list", {"session_id": session_id}))["asks"]
        say(terminal.name, f"the daemon is back, and so is its question: {ask['message']}")
        await ostler.call(ASK_RESOLVE, AskResolve(ask_id=ask["id"], answer=Allow()))
    say(terminal.name, "< allow")


def print_transcript(home: Path, session_id: str) -> None:
    print("\nThe transcript, as `ostler show` prints it:\n", flush=True)
    command = [str(Path(sys.executable).with_name("ostler")), "--home", str(home), "show", session_id]
    subprocess.run(command, check=True)
    print()


def stop_daemon(daemon: "subprocess.Popen[bytes]") -> None:
    if daemon.poll() is None:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(10)
    if daemon.stdout is not None:
        daemon.stdout.close()


NEXT = """
Go on with (add .venv/bin to your PATH first):

  ostler                              a chat in this folder; it starts the daemon
  ostler run 'read README.md'         one turn, for scripts: see its --format and exit codes
  ostler attach                       a second terminal on the same session
  ostler asks, ostler answer ID allow questions, answered from anywhere
  ostler sessions, ostler show ID     what the daemon holds
  ostler doctor, ostler --help        whether it has all that it needs, and the rest

With ANTHROPIC_API_KEY set when the daemon starts, a real model answers instead of the rehearsal.
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ostler-demo-") as folder:
        home, project = Path(folder) / "home", Path(folder) / "inn"
        home.mkdir(mode=0o700)
        shutil.copytree(PROJECT, project)
        anyio.run(run_demo, home, project)
    print(NEXT)


if __name__ == "__main__":
    main()
