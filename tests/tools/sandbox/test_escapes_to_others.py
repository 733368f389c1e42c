"""Attempts to reach processes outside, and the network. Each must fail inside, and succeed outside where that can be
shown."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostler.tools.sandbox import confined
from tests.tools.sandbox.box import BEGAN, GOT_IT, Box, python, refused


@pytest.fixture
def stranger(box: Box) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody else's process outside, of the same user, with a secret."""
    process = subprocess.Popen(["sleep", "1000"], env={"SECRET": "of-a-stranger"}, user=box.user, group=box.user)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("alone")
def test_connecting_to_a_unix_socket_of_the_host(box: Box) -> None:
    for folder in (box.outside_folder, box.daemon, box.home / ".gnupg", box.project):
        folder.mkdir(exist_ok=True)
        with listening(box, str(folder / "s")) as path:
            refused(box, _connect(path))
            refused(box, _connect(path), box.profile("read_only"))


@pytest.mark.usefixtures("alone")
def test_connecting_to_a_unix_socket_in_run(box: Box) -> None:
    folder = Path(f"/run/ostler-box-{os.getpid()}-{box.place.name}")
    try:
        folder.mkdir()
    except PermissionError:
        pytest.skip("only root may write to /run")
    try:
        with listening(box, str(folder / "s")) as path:
            refused(box, _connect(path))
    finally:
        shutil.rmtree(folder)


def test_connecting_to_an_abstract_unix_socket(box: Box) -> None:
    with listening(box, f"\0{box.place}") as path:
        refused(box, _connect(path))


def test_reading_the_environment_of_a_process_outside(box: Box, stranger: subprocess.Popen[bytes]) -> None:
    refused(box, f"cat /proc/*/environ /proc/{stranger.pid}/environ | grep -a of-a-stranger && echo {GOT_IT}")


def test_killing_a_process_outside(box: Box, stranger: subprocess.Popen[bytes]) -> None:
    refused(box, f"kill -9 {stranger.pid} && echo {GOT_IT}; kill -9 -1", works_outside=False)
    assert stranger.poll() is None
    assert GOT_IT in box.outside(f"kill -9 {stranger.pid} && echo {GOT_IT}").output
    assert stranger.wait() == -signal.SIGKILL


def test_tracing_a_process_outside(box: Box, stranger: subprocess.Popen[bytes]) -> None:
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    free = box.is_root or not scope.exists() or scope.read_text().strip() == "0"
    trace = f"import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(16, {stranger.pid}, 0, 0) != 0)"
    refused(box, f"{python()} -c '{trace}' && echo {GOT_IT}", works_outside=free)


def test_seeing_the_shared_memory_of_a_process_outside(box: Box) -> None:
    made = box.outside("ipcmk -M 64").output.split()[-1]
    try:
        refused(box, f"ipcs -m -i {made} | grep bytes= && echo {GOT_IT}")
    finally:
        box.outside(f"ipcrm -m {made}")


def test_typing_into_the_terminal_of_whoever_started_it(box: Box) -> None:
    typing = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'x'); print('" + GOT_IT + "')"
    script = f'{python()} -c "{typing}"'
    legacy = Path("/proc/sys/dev/tty/legacy_tiocsti")
    allowed = box.is_root or not legacy.exists() or legacy.read_text().strip() == "1"
    outer = [python(), "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))"]
    with box.wrapped(["/bin/bash", "-c", f"echo {BEGAN}; {script}"]) as wrapped:
        inside = box.start([*outer, *wrapped], confined(box.variables())).output
    assert BEGAN in inside
    assert GOT_IT not in inside
    if allowed:
        assert GOT_IT in box.start([*outer, "/bin/bash", "-c", script], box.variables()).output


_STARTS_WITH_A_KEY = """
import ctypes, platform, subprocess, sys
from ostler.tools.sandbox.keyring import _KEYCTL, leave_session_keyring
libc, keyctl = ctypes.CDLL(None), _KEYCTL[platform.machine()]
assert libc.syscall(keyctl, 1, None, 0, 0, 0) > 0
add_key = {250: 248, 219: 217}[keyctl]
key = libc.syscall(add_key, b"user", b"of-the-person", b"secret", 6, -3)
assert key > 0
if sys.argv[1] == "leave":
    assert leave_session_keyring()
look = f"import ctypes; print('length', ctypes.CDLL(None).syscall({keyctl}, 11, {key}, None, 0, 0))"
print(subprocess.run([*sys.argv[2:], look], stdout=subprocess.PIPE, text=True, check=True).stdout)
"""


def test_reading_a_key_of_the_persons_keyring(box: Box) -> None:
    if not _has_keyrings():
        pytest.skip("the kernel has no keyrings, or they are forbidden here")
    if box.user is not None:
        pytest.skip("whoever starts it is the one who leaves the keyring; the plain user's daemon cannot be run here")
    with box.wrapped([python(), "-c"]) as wrapped:
        starting = [sys.executable, "-c", _STARTS_WITH_A_KEY]
        stayed = subprocess.run([*starting, "stay", *wrapped], stdout=subprocess.PIPE, text=True, check=True)
        left = subprocess.run([*starting, "leave", *wrapped], stdout=subprocess.PIPE, text=True, check=True)
    assert "length 6" in stayed.stdout
    assert "length -1" in left.stdout


def _has_keyrings() -> bool:
    """Asked in a child: the answer changes the keyring."""
    ask = "from ostler.tools.sandbox.keyring import leave_session_keyring as l; raise SystemExit(not l())"
    return subprocess.run([sys.executable, "-c", ask], check=False).returncode == 0


def test_connecting_to_a_listener_on_the_hosts_loopback(box: Box) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        refused(box, f"(exec 3<>/dev/tcp/127.0.0.1/{port}) && echo {GOT_IT}")


def test_asking_a_name_server(box: Box) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        # The second one fails where the first found nobody.
        refused(box, f"exec 3<>/dev/udp/127.0.0.1/{port}; echo a >&3; echo b >&3 && echo {GOT_IT}")
        server.setblocking(False)
        assert server.recv(10) == b"a\n"  # the one from outside, and no other before it
        assert server.recv(10) == b"b\n"
        with pytest.raises(BlockingIOError):
            server.recv(10)


def test_finding_another_network_device_than_its_own_loopback(box: Box) -> None:
    lines = box.run("cat /proc/net/dev").output.splitlines()[2:]
    assert [line.split(":")[0].strip() for line in lines] == ["lo"]


@contextlib.contextmanager
def listening(box: Box, path: str) -> Iterator[str]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        if not path.startswith("\0"):
            os.chmod(path, 0o777)  # noqa: S103 - whoever may connect outside must fail inside
            box.give(Path(path))
            box.give(Path(path).parent)
        listener.listen()
        yield path


def _connect(path: str) -> str:
    return f"""{python()} - <<'END'
import socket
socket.socket(socket.AF_UNIX).connect({path!r})
print({GOT_IT!r})
END"""
