"""A real terminal: tmux shows `ostler`, keys are sent to it, and its pane is read."""

import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from tests.clients.conftest import OSTLER, Cli

WAIT_SECONDS = 50.0


class Pane:
    """One command in a pane of a tmux server of its own, until it is left."""

    def __init__(
        self, cli: Cli, *arguments: str, cwd: Path, columns: int = 80, lines: int = 30, in_shell: bool = False
    ) -> None:
        # A path of a socket is short, and that of a test's folder is not.
        self._folder = tempfile.TemporaryDirectory(prefix="pane-")
        self._socket = Path(self._folder.name) / "tmux"
        # tmux answers and sets its own TERM; the rest is the environment of the command.
        words = {**cli.environment}
        for name in ("COLUMNS", "LINES", "TMUX", "TMUX_PANE"):
            words.pop(name, None)
        words["TERM"] = "screen-256color"
        line = shlex.join(["env", "-i", *(f"{name}={value}" for name, value in words.items()), str(OSTLER), *arguments])
        self._tmux(
            *("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), "-c", str(cwd)),
            # A shell that knows of jobs takes the terminal back from one that is suspended.
            "env PS1='$ ' bash --norc" if in_shell else f"{line}; echo left with $?; exec cat",
        )
        if in_shell:
            self.type(line)
            self.press("Enter")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *arguments], capture_output=True, text=True, timeout=20, check=True
        )
        return done.stdout

    def type(self, text: str) -> None:
        """Type letters as they are."""
        self._tmux("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names for them: `Enter`, `C-b`, `M-Enter`, `Escape`."""
        self._tmux("send-keys", *keys)

    def paste(self, text: str) -> None:
        """Paste, as a terminal does that marks what is pasted."""
        subprocess.run(
            ["tmux", "-S", str(self._socket), "load-buffer", "-"], input=text, text=True, timeout=20, check=True
        )
        self._tmux("paste-buffer", "-p")

    def resize(self, columns: int, lines: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def read(self, *, history: bool = False, looks: bool = False) -> str:
        """What stands there now; with its history, and with its looks as sequences, if wanted."""
        options = [*(["-S", "-5000"] if history else []), *(["-e"] if looks else [])]
        return "\n".join(line.rstrip() for line in self._tmux("capture-pane", "-p", *options).split("\n")).rstrip("\n")

    def read_until(self, *texts: str, history: bool = False) -> str:
        """Wait until all of these stand there; what stands there then."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            shown = self.read(history=history)
            if all(text in shown for text in texts):
                return shown
            assert time.monotonic() < deadline, f"no {texts!r} in\n{shown}"
            self.wait()

    def read_until_gone(self, text: str) -> str:
        deadline = time.monotonic() + WAIT_SECONDS
        while text in (shown := self.read()):
            assert time.monotonic() < deadline, f"still {text!r} in\n{shown}"
            self.wait()
        return shown

    def wait(self) -> None:
        """A pane tells nobody that it has changed: look again when another program had its turn."""
        subprocess.run(["sleep", "0.05"], check=True, timeout=5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["tmux", "-S", str(self._socket), "kill-server"], capture_output=True, timeout=20, check=False)
        self._folder.cleanup()
