"""A daemon forked by the prefork server is the same as one started with the command, as far as tests can see."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import Cli
from tests.support.daemon import Daemon, wait_until
from tests.support.driver import is_gone
from tests.support.forked import ForkedProcess, can_fork
from tests.support.repository import ROOT

CACHES = """
import functools, json, sys
sys.path.insert(0, "tests/support")
import prefork
prefork.load(prefork.KINDS[sys.argv[1]])
modules = [module for name, module in sys.modules.items() if name.startswith("ostler.")]
found = {f"{m.__name__}.{name}": one for m in modules for name, one in vars(m).items() if hasattr(one, "cache_info")}
print(json.dumps({name: one.cache_info().currsize for name, one in found.items()}))
"""
ORPHANS = """
import sys, time
from pathlib import Path
from tests.support.daemon import Daemon
daemons = [Daemon(Path(sys.argv[1]) / name).start() for name in "ab"]
print(*[daemon.pid for daemon in daemons], flush=True)
sys.stdin.read()
"""

LAST_WORDS = """
from pathlib import Path
from tests.support.forked import run_script
run_script("", [], Path("/"))
"""


@pytest.fixture(params=[False, True], ids=["forked", "cold"])
def forked_or_cold(request: pytest.FixtureRequest, home: Path) -> Daemon:
    return Daemon(home, cold=request.param)


def read_status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def read_status_at_rest(pid: int) -> dict[str, str]:
    """While a thread is started, all signals are blocked for a moment; no daemon blocks any for longer."""
    found: list[dict[str, str]] = []

    def blocks_nothing() -> bool:
        found.append(read_status(pid))
        return int(found[-1]["SigBlk"], 16) == 0

    wait_until(blocks_nothing)
    return found[-1]


def collect_process_facts(daemon: Daemon) -> dict[str, Any]:
    of = read_status_at_rest(daemon.pid)
    streams = {number: os.readlink(f"/proc/{daemon.pid}/fd/{number}").partition(":")[0] for number in range(3)}
    return {
        "signals": [of[name] for name in ("SigBlk", "SigIgn", "SigCgt")],
        "umask": of["Umask"],
        "powers": of["CapEff"],
        "folder": os.readlink(f"/proc/{daemon.pid}/cwd"),
        "program": os.readlink(f"/proc/{daemon.pid}/exe"),
        "group": os.getpgid(daemon.pid),
        "session": os.getsid(daemon.pid),
        "streams": streams,
    }


def list_open_files(pid: int) -> set[str]:
    folder = Path(f"/proc/{pid}/fd")
    return {os.readlink(descriptor) for descriptor in folder.iterdir()}


def test_it_is_the_same_process_as_one_that_the_command_started(tmp_path: Path) -> None:
    found = []
    for cold in (False, True):
        with Daemon(tmp_path / str(cold), cold=cold) as daemon:
            facts = collect_process_facts(daemon)
            facts["streams"][2] = facts["streams"][2].replace(str(daemon.home), "HOME")
            found.append(facts)
    assert found[0] == found[1]


def test_it_has_no_file_of_the_process_that_forked_it(tmp_path: Path) -> None:
    with Daemon(tmp_path / "first"), Daemon(tmp_path / "second") as daemon:
        prefork_pid = int(read_status(daemon.pid)["PPid"])
        assert list_open_files(daemon.pid) & list_open_files(prefork_pid) == {os.devnull}


def test_it_says_the_same_of_itself(tmp_path: Path) -> None:
    said = []
    for cold in (False, True):
        with Daemon(tmp_path / str(cold), cold=cold) as daemon:
            about = daemon.call("initialize", client={"name": "t", "version": "1"})
            shown = {"about": about, "config": daemon.call("config/get"), "protocol": daemon.call("rpc.discover")}
            for own in ("client_id", "database_id"):
                about.pop(own)
            said.append(json.dumps(shown).replace(str(daemon.home), "HOME").replace(str(daemon.port), "PORT"))
    assert said[0] == said[1]


def test_its_variables_are_those_that_it_was_given_and_no_others(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Daemon(tmp_path / "first"):
        pass  # the prefork server runs from here on, with the variables of this moment
    monkeypatch.setenv("COMES_LATER", "seen")
    monkeypatch.delenv("TERM", raising=False)
    with Daemon(home, environment={"ITS_OWN": "also", "OSTLER_LIMITS__READERS": "7"}) as daemon:
        session = daemon.call("session/create", cwd=str(tmp_path), rules={"allow": ["Bash"]})["id"]
        daemon.call("run", session_id=session, input="run `printenv | sort > variables`")
        assert daemon.call("config/get", key="limits.readers")["value"] == 7
    found = (tmp_path / "variables").read_text().splitlines()
    assert {"COMES_LATER=seen", "ITS_OWN=also"} <= set(found)
    assert not [line for line in found if line.startswith("TERM=")]


def test_it_ends_with_the_code_that_tells_how(forked_or_cold: Daemon) -> None:
    with forked_or_cold as daemon:
        assert daemon.process is not None
        assert daemon.process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.process.wait(0.01)
        daemon.kill()
        assert daemon.process.returncode == -signal.SIGKILL
        daemon.start()
        assert daemon.stop() == 0
        assert daemon.process.poll() == 0
        (daemon.home / "config.toml").write_text("nonsense = 5\n")
        daemon.spawn()
        assert daemon.wait() == 1
        assert "nonsense" in daemon.stderr
        daemon.signal(signal.SIGTERM)  # to one that has ended: nothing happens


@pytest.mark.parametrize("asked", [{"cold": True}, {"prefix": ["env"]}, {"environment": {"TZ": "UTC"}}])
def test_the_real_command_is_there_for_who_asks_for_it(home: Path, asked: dict[str, Any]) -> None:
    with Daemon(home, **asked) as daemon:
        assert isinstance(daemon.process, subprocess.Popen)


def test_what_the_interpreter_reads_at_its_start_cannot_be_forked(home: Path) -> None:
    assert not can_fork({"PYTHONOPTIMIZE": "1"})
    assert not can_fork({"LD_PRELOAD": "/x.so"})
    environment = {"OSTLER_MODEL": "x", "PYTHONPATH": "/x"}
    assert can_fork(environment)
    with Daemon(home, environment=environment) as daemon:
        assert isinstance(daemon.process, ForkedProcess)


@pytest.mark.parametrize("kind", ["daemon", "command", "script"])
def test_a_nursery_has_only_imported_and_not_yet_asked_anything(kind: str) -> None:
    """What a function has cached before the fork would be an answer from another environment."""
    done = subprocess.run([sys.executable, "-c", CACHES, kind], cwd=ROOT, capture_output=True, text=True, check=True)
    sizes = json.loads(done.stdout)
    assert len(sizes) > 0
    assert {name: size for name, size in sizes.items() if size} == {}


def test_the_end_of_the_tests_ends_the_server_without_a_warning() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", LAST_WORDS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_no_daemon_outlives_who_started_it(tmp_path: Path) -> None:
    tests = subprocess.Popen(
        [sys.executable, "-c", ORPHANS, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with tests:
        assert tests.stdout is not None
        daemons = [int(pid) for pid in tests.stdout.readline().split()]
        prefork_pid = int(read_status(daemons[0])["PPid"])
        assert len(daemons) == 2
        tests.kill()
    wait_until(lambda: all(map(is_gone, [prefork_pid, *daemons])))


def test_a_forked_command_says_and_does_what_the_script_does(home: Path) -> None:
    with Daemon(home):
        for words in (
            ["--help"],
            ["sessions"],
            ["nonsense"],
            ["config", "get", "limits.readers"],
            ["stop", "--nonsense"],
        ):
            assert Cli(home).run(*words) == Cli(home, cold=True).run(*words), words
