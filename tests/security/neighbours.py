"""What other processes of this machine would try: the daemon's own children, and those of another user."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.security.probe import Probe
from tests.security.target import KEY, Target

_INTRUDER: Final = str(Path(__file__).with_name("intruder.py"))
_NOBODY: Final = "65534"
_DENIED_ERRORS: Final = ("EACCES", "EPERM")

Arguments = Callable[[Target], list[str]]


def _make_child_probe(name: str, attempt: str, arguments: Arguments, *outcomes: str) -> Probe:
    """A command that the model of a session runs."""

    def run_attempt(target: Target) -> bytes:
        # In a file, because a command that names a folder of the daemon's would not get as far as the access guard.
        wanted = target.folder / "attempt.json"
        wanted.write_text(json.dumps([attempt, *arguments(target)]))
        return bytes.fromhex(target.run_command(shlex.join([sys.executable, "-I", _INTRUDER, "--from", str(wanted)])))

    return Probe(name, "child", run_attempt, outcomes)


def _make_user_probe(name: str, attempt: str, arguments: Arguments, *outcomes: str) -> Probe:
    def run_attempt(target: Target) -> bytes:
        if os.getuid() != 0:
            pytest.skip("only root can become somebody else")
        command = [sys.executable, "-I", _INTRUDER, "--as", _NOBODY, attempt, *arguments(target)]
        return bytes.fromhex(subprocess.run(command, capture_output=True, check=True, text=True, timeout=60).stdout)

    return Probe(name, "user", run_attempt, outcomes)


def _get_pid(target: Target) -> list[str]:
    return [str(target.daemon.pid)]


def _get_port(target: Target) -> list[str]:
    return [str(target.daemon.port)]


def _get_socket(target: Target) -> list[str]:
    return [target.daemon.socket_path]


def _make_process_path(name: str) -> Arguments:
    return lambda target: [f"/proc/{target.daemon.pid}/{name}"]


def _make_home_path(name: str) -> Arguments:
    return lambda target: [str(target.daemon.home / name)]


CHILD_PROBES: Final = [
    _make_child_probe("asks on the socket", "ask_on_socket", _get_socket, "401"),
    _make_child_probe("asks on the port", "ask_on_port", _get_port, "401"),
    _make_child_probe("asks on the socket as an orphan", "ask_as_orphan", _get_socket, "401"),
    _make_child_probe(
        "asks with what a dead one left", "ask_with_the_connection_of_a_dead_process", _get_socket, "401"
    ),
    _make_child_probe("reads the environment of the daemon", "read", _make_process_path("environ"), *_DENIED_ERRORS),
    _make_child_probe("reads the maps of the daemon", "read", _make_process_path("maps"), *_DENIED_ERRORS),
    _make_child_probe("takes the open files of the daemon", "take_open_files", _get_pid, *_DENIED_ERRORS),
    _make_child_probe("opens the memory of the daemon", "read_memory", _get_pid, *_DENIED_ERRORS),
    _make_child_probe("reads the memory of the daemon from afar", "read_from_afar", _get_pid, *_DENIED_ERRORS),
    _make_child_probe("attaches to the daemon", "attach", _get_pid, *_DENIED_ERRORS),
    _make_child_probe(
        "looks through its own environment", "environment_with", lambda target: [KEY, target.daemon.token], "nothing"
    ),
    _make_child_probe("looks for what was left open", "open_files_in", _make_home_path(""), "nothing"),
]

USER_PROBES: Final = [
    *(
        _make_user_probe(f"reads {name}", "read", _make_home_path(name), *_DENIED_ERRORS)
        for name in ("token", "daemon.json", "ostler.db", "ostler.db-wal", "logs/ostler.log", "config.toml")
    ),
    *(
        _make_user_probe(f"looks into {name or 'the home'}", "look_at", _make_home_path(name), *_DENIED_ERRORS)
        for name in ("", "logs", "tasks")
    ),
    _make_user_probe("plants a configuration", "plant", _make_home_path("config.toml"), *_DENIED_ERRORS),
    _make_user_probe("asks on the socket", "ask_on_socket", _get_socket, *_DENIED_ERRORS),
    _make_user_probe("asks on the port", "ask_on_port", _get_port, "401"),
    _make_user_probe("reads the environment of the daemon", "read", _make_process_path("environ"), *_DENIED_ERRORS),
    _make_user_probe("takes the open files of the daemon", "take_open_files", _get_pid, *_DENIED_ERRORS),
    _make_user_probe("opens the memory of the daemon", "read_memory", _get_pid, *_DENIED_ERRORS),
    _make_user_probe("attaches to the daemon", "attach", _get_pid, *_DENIED_ERRORS),
    _make_user_probe("ends the daemon", "end", _get_pid, "EPERM"),
]

PROBES: Final = [*CHILD_PROBES, *USER_PROBES]
