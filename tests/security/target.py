"""The daemon that is probed: its key, token and session are secrets that no probe may learn."""

import os
import shutil
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.daemon import Daemon

TITLE: Final = "velvet-otter-ledger"
TEXT: Final = "crimson-heron-cipher"
KEY: Final = "sk-ant-amber-lynx-lantern"
WRONG_TOKEN: Final = "quiet-marten-password"

_ENVIRONMENT: Final = {
    "ANTHROPIC_API_KEY": KEY,
    "OSTLER_TOKEN": KEY,
    "OSTLER_MODEL": "rehearsal",
    "OSTLER_LOG__LEVEL": "debug",
    "OSTLER_LIMITS__HEADER_SECONDS": "1",
    "OSTLER_LIMITS__IDLE_SECONDS": "1",
    "OSTLER_LIMITS__WRONG_TOKENS_PER_MINUTE": "10000",  # nobody here has the time to wait for his wrong ones
}


@dataclass(frozen=True, slots=True)
class Target:
    """A daemon with one session that nobody may hear of, and a folder where commands can work."""

    daemon: Daemon
    folder: Path
    session_id: str

    @property
    def log(self) -> str:
        return (self.daemon.home / "logs" / "ostler.log").read_text(errors="replace") + self.daemon.stderr

    def list_secrets(self) -> list[str]:
        """What no answer and no line of the log may hold."""
        return [self.daemon.token, self._encode_basic(), TITLE, TEXT, KEY, WRONG_TOKEN]

    def fill_in(self, words: bytes) -> bytes:
        """A probe is written down before there is a daemon; here it learns where that is."""
        places = {
            b"<PORT>": str(self.daemon.port),
            b"<TOKEN>": self.daemon.token,
            b"<BASIC>": self._encode_basic(),
            b"<SESSION>": self.session_id,
            b"<WRONG>": WRONG_TOKEN,
        }
        for name, value in places.items():
            words = words.replace(name, value.encode())
        body = words.partition(b"\r\n\r\n")[2]
        return words.replace(b"<LENGTH>", str(len(body)).encode())

    def _encode_basic(self) -> str:
        return b64encode(f"ostler:{self.daemon.token}".encode()).decode()

    def fetch_counts(self) -> dict[str, Any]:
        """What would be different if somebody had got in."""
        stats = self.daemon.call("server/stats")
        return {name: stats[name] for name in ("calls", "cursor", "sessions", "readers", "clients_attached")}

    def run_command(self, command: str) -> str:
        """What a command prints that the model of a session runs, with a rule that lets it."""
        session = self.daemon.call("session/create", cwd=str(self.folder), rules={"allow": ["Bash"]})
        turn = self.daemon.call("run", session_id=session["id"], input=f"run `{command}`")["turn"]
        assert turn["reason"] == "completed", turn
        messages = self.daemon.call("session/messages", session_id=session["id"])["messages"]
        results = [block for one in messages for block in one["content"] if block["type"] == "tool_result"]
        assert len(results) == 1, messages
        return _extract_text(results[0]["content"])


def _extract_text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


@contextmanager
def open_target() -> Iterator[Target]:
    # Not pytest's folder, which is closed to others already: what keeps them out must be the daemon's own.
    folder = Path(tempfile.mkdtemp(prefix="ostler-probes-"))
    folder.chmod(0o755)
    project = folder / "project"
    project.mkdir()
    home = folder / "home"
    arguments = ["--log-file", str(home / "logs" / "ostler.log")]
    try:
        with Daemon(home, arguments, _ENVIRONMENT, build_unprivileged_prefix(), cold=True) as daemon:
            session = daemon.call("session/create", cwd=str(project), title=TITLE)
            daemon.call("run", session_id=session["id"], input=f"say {TEXT}")
            yield Target(daemon, project, session["id"])
    finally:
        shutil.rmtree(folder)


def build_unprivileged_prefix() -> list[str]:
    """Root may look into every process: a daemon of root shows only without that power what it keeps to itself."""
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.getuid() == 0 else []
