"""`auth login`, `status`, `logout`, and what `doctor` and a turn say of keys."""

import json
import os
import pty
from pathlib import Path

import pytest

from tests.clients.conftest import Cli
from tests.support.daemon import Daemon
from tests.support.forked import fork_command
from tests.support.messages_api.replies import message, says
from tests.support.messages_api.server import ScriptedApi

KEY = "sk-typed-0123456789"


def read_keys(cli: Cli) -> object:
    return json.loads((cli.home / "credentials.json").read_text())


def test_a_key_from_stdin_is_kept_shown_as_there_and_forgotten(daemon_cli: Cli) -> None:
    kept = daemon_cli.run("auth", "login", typed=f"{KEY}\n")
    assert (kept.code, kept.out) == (
        0,
        f"Kept the key of anthropic in {daemon_cli.home}/credentials.json, which only you can read.\n",
    )
    assert "New sessions use the model claude-sonnet-5" in kept.err
    assert read_keys(daemon_cli) == {"anthropic": {"api_key": KEY}}
    shown = daemon_cli.run("auth", "status")
    assert shown.out.splitlines()[0] == "anthropic\tmodels\tkept in the file"
    as_json = daemon_cli.run("auth", "status", "--format", "json")
    assert as_json.json["keys"][0]["source"] == "file"
    gone = daemon_cli.run("auth", "logout")
    assert (gone.code, gone.out) == (0, "Forgot the key of anthropic.\n")
    assert "rehearsal" in gone.err
    assert read_keys(daemon_cli) == {}
    again = daemon_cli.run("auth", "logout")
    assert (again.code, again.out) == (1, "")
    assert KEY not in "".join(part for done in (kept, shown, as_json, gone, again) for part in (done.out, done.err))


def test_a_key_is_typed_unseen(daemon_cli: Cli) -> None:
    ours, theirs = pty.openpty()
    environ = {**daemon_cli.environment, "TERM": "xterm"}
    process = fork_command(["auth", "login", "exa"], environ, (theirs, theirs, theirs), terminal=True)
    shown = b""
    # What is typed before the question counts for nothing.
    while not shown.endswith(b"(it is not shown): "):
        shown += os.read(ours, 4096)
    os.write(ours, f"{KEY}\n".encode())
    while b"Kept the key of exa" not in shown:
        shown += os.read(ours, 4096)
    assert process.wait(60) == 0
    os.close(ours)
    assert KEY.encode() not in shown
    assert read_keys(daemon_cli) == {"exa": {"api_key": KEY}}


@pytest.mark.parametrize(
    ("arguments", "typed"),
    [
        (["login"], ""),
        (["login"], " \n"),
        (["login"], f"{KEY}\n{KEY}\n"),
        (["login"], f"{KEY}é"),
        (["login", KEY], "x"),
        (["logout", KEY], ""),
        (["login", "--key", KEY], "x"),
    ],
)
def test_what_is_no_key_is_wrong_usage_and_not_repeated(cli: Cli, arguments: list[str], typed: str) -> None:
    done = cli.run("auth", *arguments, typed=typed)
    assert (done.code, done.out) == (2, "")
    assert KEY not in done.err
    assert not cli.home.exists()


def test_who_is_told_of_a_variable_that_wins(home: Path) -> None:
    with Daemon(home, environment={"ANTHROPIC_API_KEY": "sk-other"}):
        done = Cli(home).run("auth", "login", typed=KEY)
        assert "ANTHROPIC_API_KEY, which the daemon was started with, wins" in done.err
        shown = Cli(home).run("auth", "status")
        assert shown.out.splitlines()[0] == "anthropic\tmodels\tANTHROPIC_API_KEY of the daemon's environment"
        assert "wins over the key of anthropic that is kept" in shown.err


def test_a_wrong_key_names_the_variable_and_says_what_to_do(home: Path, api: ScriptedApi, project: Path) -> None:
    api.keys = frozenset({"sk-right"})
    with Daemon(home, environment={**api.environment, "ANTHROPIC_API_KEY": "sk-wrong-one"}):
        done = Cli(home).run("run", "hello", cwd=project)
    assert done.code == 1
    assert "The key is that of ANTHROPIC_API_KEY, which the daemon was started with" in done.err + done.out
    assert "`ostler stop`, `ostler start`" in done.err + done.out
    assert "sk-wrong-one" not in done.err + done.out


def test_login_and_run_need_no_restart(home: Path, api: ScriptedApi, project: Path) -> None:
    api.keys = frozenset({KEY})
    api.always(message(says("Good day.")))
    with Daemon(home, environment={"ANTHROPIC_BASE_URL": api.url}):
        cli = Cli(home)
        assert cli.run("auth", "login", typed=KEY).code == 0
        done = cli.run("run", "hello", cwd=project)
    assert (done.code, done.out.strip()) == (0, "Good day.")


def test_doctor_says_what_is_kept_and_what_is_wrong_with_it(cli: Cli) -> None:
    def find(what: str) -> dict[str, str]:
        [found] = [check for check in cli.run("doctor", "--format", "json").json["checks"] if check["what"] == what]
        return dict(found)

    assert find("keys")["found"] == "none is kept"
    cli.home.mkdir(mode=0o700)
    path = cli.home / "credentials.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps({"anthropic": {"api_key": KEY}, "exa": {"keyring": True}}))
    assert find("keys")["found"] == f"{path}: anthropic, exa (in the keyring)"
    assert find("model")["state"] == "ok"
    path.chmod(0o644)
    assert (find("keys")["state"], find("keys")["mend"]) == ("fail", f"Run: chmod 600 {path}")
    path.chmod(0o600)
    path.write_text(f'{{"anthropic": "{KEY}"')
    found = find("keys")
    assert found["state"] == "fail"
    assert found["found"].startswith(f"{path}:1:")
    assert KEY not in cli.run("doctor").out
