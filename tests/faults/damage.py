"""Scenarios of a damaged database: it is moved aside with every byte, never deleted, and a notice says so."""

import hashlib
import os
import sqlite3
from pathlib import Path
from typing import Any, Final

from tests.faults.caller import Caller, CallRefused
from tests.faults.rows import Findings, Row
from tests.support.daemon import Daemon, wait_until

_SESSIONS: Final = 100
_CHECK_SECONDS: Final = 20.0


def _fill_database(daemon: Daemon) -> list[str]:
    """The sessions of a database whose daemon was killed: all but the last are in the file, that one in the WAL."""
    with daemon, Caller(daemon) as caller:
        ids = [_create_sessions(caller) for _ in range(_SESSIONS // 50)]
        daemon.stop()
    with daemon, Caller(daemon) as caller:
        ids.append(_create_sessions(caller, 1))
    return sorted(session_id for some in ids for session_id in some)


def _create_sessions(caller: Caller, count: int = 50) -> list[str]:
    params = {"cwd": "/", "metadata": {"filling": "x" * 500}}
    return [str(session["id"]) for session in caller.call_batch([("session/create", params)] * count)]


def _hash_files(home: Path, name: str) -> dict[str, str]:
    """The database and its WAL, by suffix."""
    files = {suffix: home / f"{name}{suffix}" for suffix in ("", "-wal")}
    return {suffix: hashlib.sha256(file.read_bytes()).hexdigest() for suffix, file in files.items() if file.exists()}


def _find_moved_database(home: Path) -> str:
    """The name that the database was moved to."""
    names = [file.name for file in home.glob("ostler.db.damaged-*") if not file.name.endswith(("-wal", "-shm"))]
    assert len(names) == 1, f"moved aside: {names}"
    return names[0]


def _expect_moved(daemon: Daemon, before: dict[str, str], findings: Findings) -> None:
    """The old file and its WAL are unchanged under a new name, there is a new database, and a notice says so."""
    moved_name = _find_moved_database(daemon.home)
    after = _hash_files(daemon.home, moved_name)
    findings.expect(after == before, f"the moved files are {sorted(after)} and not the bytes of {sorted(before)}")
    with daemon.follow("?after=0") as stream:
        notice = stream.take(1)[0]
    findings.expect(notice["type"] == "notice", f"the new log begins with {notice['type']}")
    findings.expect(moved_name in str(notice["data"].get("text")), f"the notice does not name {moved_name}")
    findings.expect(daemon.send_http("GET", "/readyz").status == 200, "the new database is not ready")
    with Caller(daemon) as caller:
        findings.expect(caller.call("session/list")["sessions"] == [], "the new database has sessions")
        _create_sessions(caller, 1)


def garbage(folder: Path) -> Row:
    """The file is overwritten while no daemon runs."""
    findings = Findings()
    daemon = Daemon(folder / "home")
    try:
        _fill_database(daemon)
        (daemon.home / "ostler.db").write_bytes(os.urandom(100_000))
        before = _hash_files(daemon.home, "ostler.db")
        findings.expect("-wal" in before, "there was no WAL to move")
        daemon.start()
        _expect_moved(daemon, before, findings)
    finally:
        daemon.kill()
    return findings.build_row(
        "garbage for a database", "overwritten after SIGKILL, started again", moved_files=len(before)
    )


def flipped_page(folder: Path) -> Row:
    """One page in the middle of the sessions is overwritten."""
    findings = Findings()
    daemon = Daemon(folder / "home")
    try:
        ids = _fill_database(daemon)
        lost = _spoil_page(daemon.home / "ostler.db", ids)
        whole = [session_id for session_id in ids if session_id not in lost]
        daemon.start()
        wait_until(lambda: daemon.send_http("GET", "/readyz").status == 503, _CHECK_SECONDS)
        _expect_read_only(daemon, findings)
        with Caller(daemon) as caller:
            exported = sum(_export(caller, session_id) for session_id in whole)
        findings.expect(exported == len(whole), f"only {exported} of {len(whole)} undamaged sessions were exported")
        daemon.kill()
        before = _hash_files(daemon.home, "ostler.db")
        daemon.start()
        _expect_moved(daemon, before, findings)
        findings.expect(not (daemon.home / "ostler.db.damaged").exists(), "the marker is still there")
    finally:
        daemon.kill()
    return findings.build_row(
        "flipped page",
        "one page of sessions overwritten after SIGKILL, found, exported, moved aside",
        lost=len(lost),
        exported=exported,
    )


def met_damage(folder: Path) -> Row:
    """The same page, but after a clean stop: there is no check for damage, until a call runs into it."""
    findings = Findings()
    daemon = Daemon(folder / "home")
    try:
        ids = _fill_database(daemon)
        daemon.start()
        daemon.stop()
        lost = _spoil_page(daemon.home / "ostler.db", ids)
        daemon.start()
        error = daemon.expect_error("session/update", session_id=lost[0], title="never")
        findings.expect(error["data"].get("code") == "storage_error", f"a call about the page was refused with {error}")
        _expect_read_only(daemon, findings)
        daemon.stop()
        before = _hash_files(daemon.home, "ostler.db")
        daemon.start()
        _expect_moved(daemon, before, findings)
    finally:
        daemon.kill()
    return findings.build_row(
        "damage that is met", "one page overwritten after a clean stop, met by a call, moved aside"
    )


def _spoil_page(path: Path, ids: list[str]) -> list[str]:
    """Overwrite a leaf of the sessions table in the middle of the file; returns the sessions that are unreadable."""
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    leaf_of_keys = 10  # the type of a page of a table WITHOUT ROWID
    ids_by_page: dict[int, list[str]] = {}
    for start in range(size, len(content), size):
        page = bytes(content[start : start + size])
        ids_in_page = [session_id for session_id in ids if b'{"filling"' in page and session_id.encode() in page]
        if page[0] == leaf_of_keys and ids_in_page:
            ids_by_page[start] = ids_in_page
    middle = sorted(ids_by_page)[len(ids_by_page) // 2]
    content[middle : middle + size] = os.urandom(size)
    path.write_bytes(content)
    # The next one is out of reach as well: the search for it passes through the leaf on its left.
    return ids[ids.index(ids_by_page[middle][0]) : ids.index(ids_by_page[middle][-1]) + 2]


def _expect_read_only(daemon: Daemon, findings: Findings) -> None:
    reason = str(daemon.send_http("GET", "/readyz").json["read_only"])
    findings.expect("damaged" in reason, f"/readyz says {reason!r}")
    wait_until((daemon.home / "ostler.db.damaged").exists)  # the marker for the next start
    error: dict[str, Any] = daemon.expect_error("session/create", cwd="/")
    findings.expect(error["data"].get("code") == "read_only", f"a write was refused with {error}")


def _export(caller: Caller, session_id: str) -> bool:
    try:
        return session_id in caller.call("session/export", session_id=session_id, format="json")["content"]
    except CallRefused:
        return False


def newer_version(folder: Path) -> Row:
    """A later ostler has written the file: it is not touched."""
    findings = Findings()
    daemon = Daemon(folder / "home")
    daemon.start()
    daemon.stop()
    known = _raise_version(daemon.home / "ostler.db")
    before = _hash_files(daemon.home, "ostler.db")
    message = expect_refusal(daemon, findings)
    findings.expect(
        "4711" in message and str(known) in message, f"the message does not name both versions: {message!r}"
    )
    findings.expect(_hash_files(daemon.home, "ostler.db") == before, "the file was changed")
    return findings.build_row("newer database", "user_version 4711 in a WAL, started, refused", known_version=known)


def _raise_version(path: Path) -> int:
    """Write a later version into the WAL, and leave the WAL there; returns the version before."""
    connection = sqlite3.connect(path)
    (known,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute("PRAGMA user_version = 4711")
    files = {name: (path.parent / name).read_bytes() for name in (path.name, f"{path.name}-wal")}
    connection.close()  # checkpoints the WAL: put back what a crash would have left
    for name, content in files.items():
        (path.parent / name).write_bytes(content)
    return int(known)


def expect_refusal(daemon: Daemon, findings: Findings) -> str:
    """What a daemon that must not start says: one line, exit 1, no traceback."""
    stderr = daemon.home / "stderr"
    stderr.unlink(missing_ok=True)
    daemon.spawn()
    try:
        code = daemon.wait()
    finally:
        daemon.kill()
    message = daemon.stderr.strip()
    findings.expect(code == 1, f"exit {code}")
    findings.expect(message.startswith("ostler: ") and "\n" not in message, f"not one line of ours: {message[-300:]!r}")
    return message
