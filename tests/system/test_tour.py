"""The tour of README.md, typed word for word into terminals, in a clone."""

import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.support.programs import needs
from tests.support.repository import ROOT

PROMPT = "tour> "
SECONDS = 30.0


class Shell:
    """An interactive bash in a terminal: lines go in, what is on the screen comes out."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._terminal, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 300, 0, 0))
        command = ["bash", "--norc", "--noprofile", "--noediting"]
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self._shown = ""
        self.wait_for(re.escape(PROMPT))

    def type(self, line: str) -> None:
        os.write(self._terminal, line.encode())

    def run(self, line: str) -> str:
        """What a line prints until the shell is back."""
        self.type(f"{line}\n")
        self.wait_for(r"\n")
        return self.wait_for(re.escape(PROMPT))

    def wait_for(self, pattern: str) -> str:
        """What is shown up to a match, which is taken off."""
        deadline = time.monotonic() + SECONDS
        while not (found := re.search(pattern, self._shown, re.MULTILINE)):
            ready, _, _ = select.select([self._terminal], [], [], deadline - time.monotonic())
            assert ready, f"no {pattern!r} in\n{self._shown}"
            self._shown += os.read(self._terminal, 65536).decode(errors="replace").replace("\r\n", "\n")
        before, self._shown = self._shown[: found.start()], self._shown[found.end() :]
        return before + found[0]

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._terminal)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """This repository as it stands here, with its installation."""
    folder = tmp_path / "ostler"
    subprocess.run(["git", "clone", "-q", "--shared", ROOT, folder], check=True)
    listed = ["git", "ls-files", "-z", "--modified", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(Path(sys.executable).parents[1])
    return folder


@pytest.fixture
def shells(clone: Path, tmp_path: Path) -> Iterator[tuple[Shell, Shell]]:
    (tmp_path / "run").mkdir(mode=0o700)
    environment = {
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "TERM": "xterm",
        "LC_ALL": "C.UTF-8",
        "PS1": PROMPT,
    }
    both = (Shell(clone, environment), Shell(clone, environment))
    try:
        yield both
    finally:
        for shell in both:
            shell.close()
        stop = [str(clone / ".venv" / "bin" / "ostler"), "stop"]
        subprocess.run(stop, env=environment, check=True, capture_output=True)


def read_tour() -> list[str]:
    """The lines that the first page says to type; what goes on in the next line is one of them."""
    page = (ROOT / "README.md").read_text()
    tour = page[page.index("## A first tour") : page.index("In Python, with the one of `.venv`:")]
    blocks = re.findall(r"^```console\n(.*?)^```$", tour, re.MULTILINE | re.DOTALL)
    return [line.rstrip() for block in blocks for line in re.split(r"^[$>] ", block, flags=re.MULTILINE)[1:]]


@pytest.mark.daemon
@needs("curl")
def test_the_tour_of_the_first_page_is_true(shells: tuple[Shell, Shell]) -> None:
    here, there = shells
    path, chat, request, attach, asks, answer, run, socket, call, events, stop = read_tour()

    here.run(path)
    here.type(f"{chat}\n")
    here.wait_for("model rehearsal")
    here.wait_for("> ")  # before the line to type in is there, the terminal makes another key of Enter
    here.type(f"{request}\r")
    here.wait_for(r"\[y/")

    there.run(path)
    there.type(f"{attach}\n")
    there.wait_for(r"\[y/")
    there.type("\x04")
    there.wait_for(re.escape(PROMPT))
    (ask,) = set(re.findall(r"\bk_[0-9a-z]{20}\b", there.run(asks)))
    assert "ostler answer ID allow" in answer
    there.run(answer.replace("ID", ask))
    here.wait_for(r"\+EVENING_FEED = .oats.")

    assert '"reason": "completed"' in there.run(run)
    assert there.run(socket) == PROMPT
    assert '"status":"ended"' in there.run(call).replace(" ", "")
    there.type(f"{events}\n")
    there.wait_for(r"^event: turn\.ended$")
    there.type("\x03")
    there.wait_for(re.escape(PROMPT))
    assert "Stopped" in there.run(stop)
