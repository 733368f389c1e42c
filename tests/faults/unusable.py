"""Places where no database can be: the start is refused in one line that names the file."""

import os
from pathlib import Path

from tests.faults.damage import refusal
from tests.faults.rows import Findings, Row
from tests.support.daemon import Daemon


def a_folder(folder: Path) -> Row:
    """Where the database should be there is a folder."""
    findings = Findings()
    daemon = Daemon(folder / "home")
    (daemon.home / "ostler.db").mkdir(parents=True)
    daemon.home.chmod(0o700)
    _expect_named(daemon, findings)
    findings.expect((daemon.home / "ostler.db").is_dir(), "the folder was touched")
    return findings.row("a folder for a database", "started, refused")


def unreadable(folder: Path) -> Row:
    """The file may not be read."""
    findings = Findings()
    daemon = Daemon(folder / "home", prefix=_without_powers())
    daemon.start()
    daemon.stop()
    path = daemon.home / "ostler.db"
    path.chmod(0)
    _expect_named(daemon, findings)
    path.chmod(0o600)
    findings.expect(path.stat().st_size > 0, "the file was emptied")
    return findings.row("unreadable database", "mode 000, started, refused")


def no_room(folder: Path) -> Row:
    """There is no room for a new database."""
    findings = Findings()
    daemon = Daemon(folder / "home", prefix=["prlimit", "--fsize=20000"])
    _expect_named(daemon, findings)
    daemon.prefix = []
    daemon.start()
    findings.expect(daemon.http("GET", "/readyz").status == 200, "the next start, with room, is not ready")
    daemon.kill()
    return findings.row("no room to begin", "files of at most 20 kB, refused; then started with room")


def _expect_named(daemon: Daemon, findings: Findings) -> None:
    said = refusal(daemon, findings)
    findings.expect("ostler.db" in said, f"the message does not name the file: {said!r}")


def _without_powers() -> list[str]:
    """Root reads every file, unless it gives up the power to."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
