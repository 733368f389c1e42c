"""Scenarios where the database cannot be opened: the start is refused in one line that names the file."""

import os
from pathlib import Path

from tests.faults.damage import expect_refusal
from tests.faults.rows import Findings, Row
from tests.support.daemon import Daemon


def a_folder(folder: Path) -> Row:
    """Where the database should be there is a folder."""
    findings = Findings()
    daemon = Daemon(folder / "home")
    (daemon.home / "ostler.db").mkdir(parents=True)
    daemon.home.chmod(0o700)
    _expect_refusal_names_file(daemon, findings)
    findings.expect((daemon.home / "ostler.db").is_dir(), "the folder was touched")
    return findings.build_row("a folder for a database", "started, refused")


def unreadable(folder: Path) -> Row:
    """The file may not be read."""
    findings = Findings()
    daemon = Daemon(folder / "home", prefix=_build_capability_prefix())
    daemon.start()
    daemon.stop()
    path = daemon.home / "ostler.db"
    path.chmod(0)
    _expect_refusal_names_file(daemon, findings)
    path.chmod(0o600)
    findings.expect(path.stat().st_size > 0, "the file was emptied")
    return findings.build_row("unreadable database", "mode 000, started, refused")


def no_room(folder: Path) -> Row:
    """There is no room for a new database."""
    findings = Findings()
    daemon = Daemon(folder / "home", prefix=["prlimit", "--fsize=20000"])
    _expect_refusal_names_file(daemon, findings)
    daemon.prefix = []
    daemon.start()
    findings.expect(daemon.send_http("GET", "/readyz").status == 200, "the next start, with room, is not ready")
    daemon.kill()
    return findings.build_row("no room to begin", "files of at most 20 kB, refused; then started with room")


def _expect_refusal_names_file(daemon: Daemon, findings: Findings) -> None:
    message = expect_refusal(daemon, findings)
    findings.expect("ostler.db" in message, f"the message does not name the file: {message!r}")


def _build_capability_prefix() -> list[str]:
    """A prefix that drops the capabilities with which root reads every file."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
