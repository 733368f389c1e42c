"""Where a daemon's files are."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PRINT_SOCKET = "from ostler.protocol.places import find_places; print(find_places().socket)"


def print_socket(home: Path, **environment: str) -> str:
    """The place of the socket, as a process of its own finds it; a warning is an error there."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "OSTLER_"))}
    command = [sys.executable, "-W", "error", "-c", PRINT_SOCKET]
    ran = subprocess.run(
        command, env={**clean, "HOME": str(home), **environment}, capture_output=True, text=True, check=True
    )
    assert ran.stderr == ""
    return ran.stdout.strip()


def test_two_homes_of_one_user_have_sockets_of_their_own(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:  # the path of a socket must be short
        sockets = [print_socket(tmp_path / name, XDG_RUNTIME_DIR=runtime) for name in ("one", "two", "one")]
        assert sockets[0] == sockets[2]
        assert sockets[0] != sockets[1]
        assert Path(sockets[0]).is_relative_to(runtime)


def test_without_a_runtime_folder_nobody_is_warned(tmp_path: Path) -> None:
    assert print_socket(tmp_path / "one", TMPDIR=str(tmp_path)) != print_socket(tmp_path / "two", TMPDIR=str(tmp_path))


def test_a_home_that_was_asked_for_holds_its_socket(tmp_path: Path) -> None:
    assert print_socket(tmp_path, OSTLER_HOME=str(tmp_path / "h")) == str(tmp_path / "h" / "ostler.sock")
