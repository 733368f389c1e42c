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
_CLOSED: Final = ("EACCES", "EPERM")

Arguments = Callable[[Target], list[str]]


def _child(name: str, attempt: str, arguments: Arguments, *outcomes: str) -> Probe:
    """A command that the model of a session runs."""

    def tried(target: Target) -> bytes:
        # In a file, because a command that names a folder of the daemon's would not get as far as the door.
        wanted = target.folder / "attempt.json"
        wanted.write_text(json.dumps([attempt, *arguments(target)]))
        return bytes.fromhex(target.command(shlex.join([sys.executable, "-I", _INTRUDER, "--from", str(wanted)])))

    return Probe(name, "child", tried, outcomes)


def _user(name: str, attempt: str, arguments: Arguments, *outcomes: str) -> Probe:
    def tried(target: Target) -> bytes:
        if os.getuid() != 0:
            pytest.skip("only root can become somebody else")
        command = [sys.executable, "-I", _INTRUDER, "--as", _NOBODY, attempt, *arguments(target)]
        return bytes.fromhex(subprocess.run(command, capture_output=True, check=True, text=True, timeout=60).stdout)

    return Probe(name, "user", tried, outcomes)


def _pid(target: Target) -> list[str]:
    return [str(target.daemon.pid)]


def _port(target: Target) -> list[str]:
    return [str(target.daemon.port)]


def _socket(target: Target) -> list[str]:
    return [target.daemon.socket_path]


def _of_process(name: str) -> Arguments:
    return lambda target: [f"/proc/{target.daemon.pid}/{name}"]


def _of_home(name: str) -> Arguments:
    return lambda target: [str(target.daemon.home / name)]


CHILDREN: Final = [
    _child("asks on the socket", "ask_on_socket", _socket, "401"),
    _child("asks on the port", "ask_on_port", _port, "401"),
    _child("asks on the socket as an orphan", "ask_as_orphan", _socket, "401"),
    _child("asks with what a dead one left", "ask_with_the_connection_of_a_dead_process", _socket, "401"),
    _child("reads the environment of the daemon", "read", _of_process("environ"), *_CLOSED),
    _child("reads the maps of the daemon", "read", _of_process("maps"), *_CLOSED),
    _child("takes the open files of the daemon", "take_open_files", _pid, *_CLOSED),
    _child("opens the memory of the daemon", "read_memory", _pid, *_CLOSED),
    _child("reads the memory of the daemon from afar", "read_from_afar", _pid, *_CLOSED),
    _child("attaches to the daemon", "attach", _pid, *_CLOSED),
    _child(
        "looks through its own environment", "environment_with", lambda target: [KEY, target.daemon.token], "nothing"
    ),
    _child("looks for what was left open", "open_files_in", _of_home(""), "nothing"),
]

USERS: Final = [
    *(
        _user(f"reads {name}", "read", _of_home(name), *_CLOSED)
        for name in ("token", "daemon.json", "ostler.db", "ostler.db-wal", "logs/ostler.log", "config.toml")
    ),
    *(_user(f"looks into {name or 'the home'}", "look_at", _of_home(name), *_CLOSED) for name in ("", "logs", "tasks")),
    _user("plants a configuration", "plant", _of_home("config.toml"), *_CLOSED),
    _user("asks on the socket", "ask_on_socket", _socket, *_CLOSED),
    _user("asks on the port", "ask_on_port", _port, "401"),
    _user("reads the environment of the daemon", "read", _of_process("environ"), *_CLOSED),
    _user("takes the open files of the daemon", "take_open_files", _pid, *_CLOSED),
    _user("opens the memory of the daemon", "read_memory", _pid, *_CLOSED),
    _user("attaches to the daemon", "attach", _pid, *_CLOSED),
    _user("ends the daemon", "end", _pid, "EPERM"),
]

PROBES: Final = [*CHILDREN, *USERS]
