"""`make demo`: a daemon, two readers, a crash, and nothing lost. Everything happens in a temporary folder."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from ostler.clients import Ostler, connect
from ostler.protocol.methods import SESSION_CREATE, SESSION_UPDATE
from ostler.protocol.session import SessionCreate, SessionUpdate

COLOURS = {"daemon": "33", "you": "1", "reader A": "36", "reader B": "35"}
PLAIN = not sys.stdout.isatty() or "NO_COLOR" in os.environ
BEGAN = time.monotonic()


def say(who: str, what: str) -> None:
    name = f"{who:<9}" if PLAIN else f"\x1b[{COLOURS[who]}m{who:<9}\x1b[0m"
    print(f"{time.monotonic() - BEGAN:6.2f}s  {name}  {what}", flush=True)


def start_daemon(home: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-m", "ostler.server", "--home", str(home), "--port", "0"]
    with (home / "daemon.log").open("ab") as log:
        daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    assert daemon.stdout is not None
    line = daemon.stdout.readline().decode().strip()
    if not line:
        sys.exit(f"The daemon did not start:\n{(home / 'daemon.log').read_text()}")
    say("daemon", f"{line} (pid {daemon.pid})")
    return daemon


class Reader:
    """Follows a session, and would go on for ever: it reconnects by itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cursors: list[int] = []
        self._news = anyio.Event()

    async def follow(self, home: Path, session_id: str) -> None:
        async with connect(str(home), name=self.name) as ostler:
            async for event in ostler.events(session_id, after=0):
                if event.cursor is None:
                    continue  # who comes and goes is not the point here
                self.cursors.append(event.cursor)
                say(self.name, f"event {event.cursor}: {event.type} {event.data['session']['title']!r}")
                self._news.set()

    async def has(self, count: int) -> None:
        with anyio.fail_after(20):
            while len(self.cursors) < count:
                self._news = anyio.Event()
                await self._news.wait()


async def rename(ostler: Ostler, session_id: str, title: str) -> None:
    await ostler.call(SESSION_UPDATE, SessionUpdate.model_validate({"session_id": session_id, "title": title}))
    say("you", f"named the session {title!r}, and the daemon says that it is on the disk")


async def both_see(readers: list[Reader], count: int) -> None:
    for reader in readers:
        await reader.has(count)


async def first_life(home: Path, readers: list[Reader], group: TaskGroup) -> str:
    async with connect(str(home), name="demo") as ostler:
        session = await ostler.call(SESSION_CREATE, SessionCreate(cwd=str(home), title="the grey mare"))
        say("you", f"created session {session.id}")
        for reader in readers:
            group.start_soon(reader.follow, home, session.id)
        await both_see(readers, 1)
        await rename(ostler, session.id, "the grey mare, fed")
        await both_see(readers, 2)
        # Not waited for: the crash comes before the readers can have seen it.
        await rename(ostler, session.id, "the grey mare, fed and harnessed")
    return session.id


async def second_life(home: Path, session_id: str) -> None:
    async with connect(str(home), name="demo") as ostler:
        await rename(ostler, session_id, "the grey mare, on the road again")


async def show(home: Path) -> None:
    readers = [Reader("reader A"), Reader("reader B")]
    daemon = start_daemon(home)
    try:
        async with anyio.create_task_group() as group:
            session_id = await first_life(home, readers, group)
            daemon.kill()
            daemon.wait()
            say("daemon", "killed with SIGKILL, in the middle of it")
            daemon = start_daemon(home)
            await second_life(home, session_id)
            await both_see(readers, 4)
            group.cancel_scope.cancel()
    finally:
        stop(daemon)
    assert readers[0].cursors == readers[1].cursors == sorted(set(readers[0].cursors))
    print(f"\nBoth readers saw events {readers[0].cursors}: the same, in order, none lost, none twice.")


def stop(daemon: "subprocess.Popen[bytes]") -> None:
    if daemon.poll() is None:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(10)
    if daemon.stdout is not None:
        daemon.stdout.close()


NEXT = """
Go on with (add .venv/bin to your PATH first):

  ostler start                        a daemon of your own, in the background
  ostler status                       where it is
  ostler sessions                     what it holds
  ostler doctor                       whether it has all that it needs
  ostler --help                       the rest

and, with the socket that `ostler status` names, everything that happens, as it happens:

  curl -N --unix-socket SOCKET 'http://localhost/events?after=0'
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ostler-demo-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        anyio.run(show, home)
    print(NEXT)


if __name__ == "__main__":
    main()
