"""`ostler doctor` on homes in every state."""

import json
import os
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ostler.tools.sandbox import probe_sandbox
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon


def list_findings(cli: Cli, what: str) -> list[dict[str, Any]]:
    return [found for found in cli.run("doctor", "--format", "json").json["checks"] if found["what"] == what]


def get_finding(cli: Cli, what: str) -> dict[str, Any]:
    (found,) = list_findings(cli, what)
    return found


@pytest.fixture
def used_cli(cli: Cli) -> Cli:
    """A home that a daemon has been in, and left."""
    with Daemon(cli.home) as daemon:
        daemon.call("session/create", cwd=str(cli.home.parent))
        daemon.stop()
    return cli


def test_a_running_daemon_is_in_order(daemon_cli: Cli) -> None:
    done = daemon_cli.run("doctor")
    assert done.code == 0
    assert not [line for line in done.out.splitlines() if line.startswith("fail")]


def test_a_home_that_does_not_exist_yet_is_in_order_and_stays_away(cli: Cli) -> None:
    assert cli.run("doctor").code == 0
    assert not cli.home.exists()


def test_looking_changes_nothing(used_cli: Cli) -> None:
    before = {file.name: file.stat().st_mtime_ns for file in used_cli.home.iterdir()}
    assert used_cli.run("doctor").code == 0
    assert {file.name: file.stat().st_mtime_ns for file in used_cli.home.iterdir()} == before


@pytest.mark.parametrize(("name", "mode", "right"), [("", 0o755, "700"), ("token", 0o644, "600")])
def test_what_others_can_read_is_mended_with_chmod(used_cli: Cli, name: str, mode: int, right: str) -> None:
    path = used_cli.home / name if name else used_cli.home
    path.chmod(mode)
    assert used_cli.run("doctor").code == 1
    (failed,) = [one for one in list_findings(used_cli, name or "folder") if one["state"] == "fail"]
    assert failed["mend"] == f"Run: chmod {right} {path}"
    os.system(failed["mend"].removeprefix("Run: "))  # noqa: S605 - what the doctor says has to work
    assert used_cli.run("doctor").code == 0


def test_an_empty_token_is_found(used_cli: Cli) -> None:
    (used_cli.home / "token").write_text("")
    assert get_finding(used_cli, "token")["state"] == "fail"


def test_broken_toml_is_found_with_its_place(used_cli: Cli) -> None:
    (used_cli.home / "config.toml").write_text('model = "x"\n[listen\nport = 1\n')
    found = get_finding(used_cli, "config")
    assert found["state"] == "fail"
    assert "line 2" in found["found"]


def test_a_misspelt_setting_is_found(used_cli: Cli) -> None:
    (used_cli.home / "config.toml").write_text("[listen]\nprot = 1\n")
    found = get_finding(used_cli, "config")
    assert found["state"] == "fail"
    assert "listen.prot" in found["found"]
    assert "There are: host, port, socket, " in found["mend"]
    (used_cli.home / "config.toml").write_text("[lissen]\nport = 1\n")
    assert "There are: model, listen, limits, " in get_finding(used_cli, "config")["mend"]


def test_a_damaged_database_is_found(used_cli: Cli) -> None:
    database = used_cli.home / "ostler.db"
    content = bytearray(database.read_bytes())
    content[4096:20480] = os.urandom(16384)
    database.write_bytes(content)
    found = get_finding(used_cli, "database")
    assert found["state"] == "fail"
    assert "moves a damaged database aside" in found["mend"]


def test_something_that_is_no_database_is_found(used_cli: Cli) -> None:
    (used_cli.home / "ostler.db").write_text("not a database, but as long as one would be " * 50)
    assert get_finding(used_cli, "database")["state"] == "fail"


def test_a_database_that_was_moved_aside_is_told(used_cli: Cli) -> None:
    (used_cli.home / "ostler.db.damaged-20260101T000000-abcd").write_bytes(b"")
    (used_cli.home / "ostler.db.damaged-20260101T000000-abcd-wal").write_bytes(b"")
    good, aside = list_findings(used_cli, "database")
    assert (good["state"], aside["state"]) == ("ok", "warn")
    assert used_cli.run("doctor").code == 0


def test_a_crash_is_told_and_the_log_left_behind_is_read(daemon: Daemon) -> None:
    cli = Cli(daemon.home)
    daemon.call("session/create", cwd=str(daemon.home.parent))
    daemon.kill()
    assert get_finding(cli, "daemon")["state"] == "warn"
    assert get_finding(cli, "database")["state"] == "ok"
    assert cli.run("doctor").code == 0
    with sqlite3.connect(daemon.home / "ostler.db") as database:
        assert database.execute("SELECT count(*) FROM sessions").fetchone() == (1,)
    database.close()


def test_a_daemon_that_hangs_is_a_failure(daemon_cli: Cli, daemon: Daemon) -> None:
    daemon.signal(signal.SIGSTOP)
    try:
        assert get_finding(daemon_cli, "daemon")["state"] == "fail"
    finally:
        daemon.signal(signal.SIGCONT)


def test_a_daemon_of_another_version_is_told(daemon_cli: Cli, daemon: Daemon) -> None:
    path = daemon.home / "daemon.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": "0.0.1"}))
    found = get_finding(daemon_cli, "daemon")
    assert found["state"] == "warn"
    assert "0.0.1" in found["found"]


def test_missing_programs_are_told_with_how_to_get_them(cli: Cli, tmp_path: Path) -> None:
    done = cli.run("doctor", "--format", "json", PATH=str(tmp_path))
    told = {found["what"]: found for found in done.json["checks"]}
    # It comes along with ostler, whatever the path is.
    assert told["ripgrep"]["state"] == "ok"
    for program in ("git", "bubblewrap"):
        assert told[program]["state"] == "warn"
        assert told[program]["mend"].startswith("Install ")
    assert done.code == 0


def test_every_failure_says_how_to_mend_it(used_cli: Cli) -> None:
    (used_cli.home / "config.toml").write_text("[")
    (used_cli.home / "token").write_text("")
    used_cli.home.chmod(0o755)
    lines = used_cli.run("doctor").out.splitlines()
    failures = [number for number, line in enumerate(lines) if line.startswith("fail")]
    assert len(failures) == 3
    assert all(lines[number + 1].lstrip().startswith("→ ") for number in failures)


def test_a_sandbox_that_does_not_work_is_told_and_fails_only_where_it_is_required(
    used_cli: Cli, tmp_path: Path
) -> None:
    def check_sandbox() -> tuple[int, str]:
        done = used_cli.run("doctor", "--format", "json", PATH=str(tmp_path))
        (found,) = [one for one in done.json["checks"] if one["what"] == "sandbox"]
        assert found["state"] == "ok" or found["mend"]
        return done.code, found["state"]

    assert check_sandbox() == (0, "warn")
    (used_cli.home / "config.toml").write_text('[sandbox]\nmode = "required"\n')
    assert check_sandbox() == (1, "fail")
    (used_cli.home / "config.toml").write_text('[sandbox]\nmode = "off"\n')
    assert check_sandbox() == (0, "ok")


def test_a_running_daemon_says_whether_the_sandbox_is_required(daemon_cli: Cli, daemon: Daemon, tmp_path: Path) -> None:
    daemon.call("config/set", key="sandbox.mode", value="required")
    assert daemon_cli.run("doctor", PATH=str(tmp_path)).code == 1
    found = get_finding(daemon_cli, "sandbox")
    assert found["state"] == "ok" or "required" in found["found"]


def test_broken_settings_of_the_person_and_of_the_project_are_found_with_their_place(
    used_cli: Cli, project: Path
) -> None:
    (used_cli.home / "settings.json").write_text('{\n  "permissions": {,}\n}')
    inner = project / "inner"
    for folder in (project / ".git", project / ".ostler", inner / ".claude"):
        folder.mkdir(parents=True)
    (project / ".ostler" / "settings.json").write_text("[]")
    (inner / ".claude" / "settings.local.json").write_bytes(b"\xff")
    done = used_cli.run("doctor", "--format", "json", cwd=inner)
    assert done.code == 1
    found = [one for one in done.json["checks"] if one["what"] == "settings"]
    assert {one["state"] for one in found} == {"fail"}
    assert [one["found"].partition(": it")[0] for one in found] == [
        f"{used_cli.home}/settings.json:2:19",
        f"{inner}/.claude/settings.local.json",
        f"{project}/.ostler/settings.json:1:1",
    ]


def test_what_is_strange_in_settings_is_told_where_a_daemon_knows(
    daemon_cli: Cli, daemon: Daemon, project: Path
) -> None:
    (project / ".ostler").mkdir()
    file = project / ".ostler" / "settings.json"
    file.write_text('{"permissions": {"deny": ["Bash("]}}')
    daemon.call("session/create", cwd=str(project))
    done = daemon_cli.run("doctor", "--format", "json", cwd=project)
    (found,) = [one for one in done.json["checks"] if one["what"] == "settings"]
    assert (done.code, found["state"]) == (0, "warn")
    assert found["found"].startswith(f"{file}:1:33: 'Bash(' is no rule")


def test_settings_in_order_are_named(used_cli: Cli, project: Path) -> None:
    file = used_cli.home / "settings.json"
    file.write_text("{}")
    done = used_cli.run("doctor", "--format", "json", cwd=project, HOME=str(project))
    (found,) = [one for one in done.json["checks"] if one["what"] == "settings"]
    assert (found["state"], found["found"]) == ("ok", str(file))


def test_the_rehearsal_is_told_with_how_a_real_model_answers(daemon_cli: Cli) -> None:
    assert "`ostler auth login` keeps a key" in get_finding(daemon_cli, "model")["mend"]
    done = daemon_cli.run("doctor", "--format", "json", ANTHROPIC_API_KEY="sk-test")
    (found,) = [one for one in done.json["checks"] if one["what"] == "model"]
    assert found["state"] == "warn"
    assert found["mend"].startswith("ANTHROPIC_API_KEY is set here, and the daemon started without it")


@pytest.mark.parametrize(
    ("environment", "state", "words"),
    [
        ({}, "warn", "rehearsal"),
        ({"ANTHROPIC_BASE_URL": "http://x"}, "ok", "ANTHROPIC_BASE_URL is set"),
        ({"OSTLER_MODEL": "claude-x"}, "warn", "claude-x, and there is no key"),
        ({"OSTLER_MODEL": "claude-x", "ANTHROPIC_API_KEY": "sk"}, "ok", "claude-x; ANTHROPIC_API_KEY is set"),
    ],
)
def test_without_a_daemon_the_model_is_that_of_the_next_start(
    cli: Cli, environment: dict[str, str], state: str, words: str
) -> None:
    done = cli.run("doctor", "--format", "json", cwd=None, typed="", **environment)
    (found,) = [one for one in done.json["checks"] if one["what"] == "model"]
    assert (found["state"], words in found["found"]) == (state, True), found


def test_a_key_is_never_printed(daemon_cli: Cli) -> None:
    done = daemon_cli.run("doctor", ANTHROPIC_API_KEY="sk-secret-1234")
    assert "sk-secret" not in done.out + done.err


def test_the_model_of_a_daemon_with_a_key_is_named(home: Path) -> None:
    with Daemon(home, environment={"ANTHROPIC_API_KEY": "sk-test"}):
        found = get_finding(Cli(home), "model")
    assert (found["state"], found["found"].startswith("claude-")) == ("ok", True)


def test_each_promise_of_the_sandbox_has_a_line_that_says_whether_it_holds(used_cli: Cli, tmp_path: Path) -> None:
    told = {found["what"]: found for found in used_cli.run("doctor", "--format", "json").json["checks"]}
    assert {"userns", "seccomp", "landlock", "memory", "processes"} <= told.keys()
    without = used_cli.run("doctor", "--format", "json", PATH=str(tmp_path))
    (found,) = [one for one in without.json["checks"] if one["what"] == "seccomp"]
    assert (without.code, found["state"]) == (0, "warn")
    assert "Unix sockets" in found["found"]


def test_the_filter_is_told_to_hold_only_where_it_does(used_cli: Cli) -> None:
    assert (get_finding(used_cli, "seccomp")["state"] == "ok") is probe_sandbox().filters
