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

from ostler.tools.sandbox import confine_environment
from tests.tools.sandbox.sandbox_harness import (
    BEGAN,
    GOT_IT,
    SandboxHarness,
    assert_refused,
    build_user_change,
    find_python,
)


@pytest.fixture
def other_process(sandbox: SandboxHarness) -> Iterator[subprocess.Popen[bytes]]:
    """Another process outside, of the same user, with a secret."""
    process = subprocess.Popen(
        [*build_user_change(sandbox.user), "/bin/sleep", "1000"], env={"SECRET": "of-a-stranger"}
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("alone")
def test_connecting_to_a_unix_socket_of_the_host(sandbox: SandboxHarness) -> None:
    for folder in (
        sandbox.outside_folder,
        sandbox.daemon,
        sandbox.home / ".gnupg",
        sandbox.project,
    ):
        folder.mkdir(exist_ok=True)
        with listen_on(sandbox, str(folder / "s")) as path:
            assert_refused(sandbox, _build_connect_script(path))
            assert_refused(sandbox, _build_connect_script(path), sandbox.build_profile("read_only"))


@pytest.mark.usefixtures("alone")
def test_connecting_to_a_unix_socket_in_run(sandbox: SandboxHarness) -> None:
    folder = Path(f"/run/ostler-box-{os.getpid()}-{sandbox.place.name}")
    try:
        folder.mkdir()
    except PermissionError:
        pytest.skip("only root may write to /run")
    try:
        with listen_on(sandbox, str(folder / "s")) as path:
            assert_refused(sandbox, _build_connect_script(path))
    finally:
        shutil.rmtree(folder)


_SOCKETS = {
    "docker": "docker.sock",
    "ssh-agent": "ssh-XXXX/agent.1",
    "D-Bus": "bus",
    "the daemon": "ostler.sock",
}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", _SOCKETS)
@pytest.mark.parametrize("kind", ["read_only", "workspace"])
def test_reaching_a_socket_that_appears_after_the_sandbox_was_made(
    sandbox: SandboxHarness, name: str, kind: str
) -> None:
    """Nothing covers it: only the filter keeps a command from it."""
    path = sandbox.outside_folder / _SOCKETS[name]
    path.parent.mkdir(exist_ok=True)
    sandbox.set_owner(path.parent)
    arguments = ["/bin/bash", "-c", f"echo {BEGAN}; {_build_connect_script(str(path))}"]
    for filtered in (True, False):
        with sandbox.wrap_arguments(arguments, sandbox.build_profile(kind), filtered=filtered) as wrapped:
            with listen_on(sandbox, str(path)):
                output = sandbox.run_process(wrapped, confine_environment(sandbox.build_variables())).output
            path.unlink()
        assert BEGAN in output
        assert (GOT_IT in output) is not filtered


@pytest.mark.usefixtures("alone")
def test_sending_a_datagram_to_a_socket_outside_through_a_pair(sandbox: SandboxHarness) -> None:
    path = sandbox.outside_folder / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        script = f"""{find_python()} - <<'END'
import socket
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    try:
        socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b"x", {str(path)!r})
        print({GOT_IT!r})
    except OSError:
        pass
    try:
        socket.socketpair(socket.AF_UNIX, kind)[0].connect({str(path)!r})
        print({GOT_IT!r})
    except OSError:
        pass
END"""
        assert_refused(sandbox, script)


def test_connecting_to_an_abstract_unix_socket(sandbox: SandboxHarness) -> None:
    with listen_on(sandbox, f"\0{sandbox.place}") as path:
        assert_refused(sandbox, _build_connect_script(path))


def test_reading_the_environment_of_a_process_outside(
    sandbox: SandboxHarness, other_process: subprocess.Popen[bytes]
) -> None:
    assert_refused(
        sandbox,
        f"cat /proc/*/environ /proc/{other_process.pid}/environ | grep -a of-a-stranger && echo {GOT_IT}",
    )


def test_killing_a_process_outside(sandbox: SandboxHarness, other_process: subprocess.Popen[bytes]) -> None:
    assert_refused(sandbox, f"kill -9 {other_process.pid} && echo {GOT_IT}; kill -9 -1", works_outside=False)
    assert other_process.poll() is None
    assert GOT_IT in sandbox.run_outside(f"kill -9 {other_process.pid} && echo {GOT_IT}").output
    assert other_process.wait() == -signal.SIGKILL


def test_tracing_a_process_outside(sandbox: SandboxHarness, other_process: subprocess.Popen[bytes]) -> None:
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    free = sandbox.is_root or not scope.exists() or scope.read_text().strip() == "0"
    trace = f"import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(16, {other_process.pid}, 0, 0) != 0)"
    assert_refused(sandbox, f"{find_python()} -c '{trace}' && echo {GOT_IT}", works_outside=free)


def test_seeing_the_shared_memory_of_a_process_outside(sandbox: SandboxHarness) -> None:
    made = sandbox.run_outside("ipcmk -M 64").output.split()[-1]
    try:
        assert_refused(sandbox, f"ipcs -m -i {made} | grep bytes= && echo {GOT_IT}")
    finally:
        sandbox.run_outside(f"ipcrm -m {made}")


def test_typing_into_the_terminal_of_whoever_started_it(sandbox: SandboxHarness) -> None:
    typing = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'x'); print('" + GOT_IT + "')"
    script = f'{find_python()} -c "{typing}"'
    legacy = Path("/proc/sys/dev/tty/legacy_tiocsti")
    allowed = sandbox.is_root or not legacy.exists() or legacy.read_text().strip() == "1"
    outer = [find_python(), "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))"]
    with sandbox.wrap_arguments(["/bin/bash", "-c", f"echo {BEGAN}; {script}"]) as wrapped:
        inside = sandbox.run_process([*outer, *wrapped], confine_environment(sandbox.build_variables())).output
    assert BEGAN in inside
    assert GOT_IT not in inside
    if allowed:
        assert GOT_IT in sandbox.run_process([*outer, "/bin/bash", "-c", script], sandbox.build_variables()).output


_KEYRING_SCRIPT = """
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


def test_reading_a_key_of_the_persons_keyring(sandbox: SandboxHarness) -> None:
    if not _has_keyrings():
        pytest.skip("the kernel has no keyrings, or they are forbidden here")
    if sandbox.user is not None:
        pytest.skip("whoever starts it is the one who leaves the keyring; the plain user's daemon cannot be run here")
    # Without the filter, which refuses the question: this is the other wall.
    with sandbox.wrap_arguments([find_python(), "-c"], filtered=False) as wrapped:
        starting = [sys.executable, "-c", _KEYRING_SCRIPT]
        stayed = subprocess.run([*starting, "stay", *wrapped], stdout=subprocess.PIPE, text=True, check=True)
        left = subprocess.run([*starting, "leave", *wrapped], stdout=subprocess.PIPE, text=True, check=True)
    assert "length 6" in stayed.stdout
    assert "length -1" in left.stdout


def _has_keyrings() -> bool:
    """Asked in a child: the answer changes the keyring."""
    ask = "from ostler.tools.sandbox.keyring import leave_session_keyring as l; raise SystemExit(not l())"
    return subprocess.run([sys.executable, "-c", ask], check=False).returncode == 0


def test_connecting_to_a_listener_on_the_hosts_loopback(sandbox: SandboxHarness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert_refused(sandbox, f"(exec 3<>/dev/tcp/127.0.0.1/{port}) && echo {GOT_IT}")


def test_asking_a_name_server(sandbox: SandboxHarness) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        # The second one fails where the first found nobody.
        assert_refused(sandbox, f"exec 3<>/dev/udp/127.0.0.1/{port}; echo a >&3; echo b >&3 && echo {GOT_IT}")
        server.setblocking(False)
        assert server.recv(10) == b"a\n"  # the one from outside, and no other before it
        assert server.recv(10) == b"b\n"
        with pytest.raises(BlockingIOError):
            server.recv(10)


def test_finding_another_network_device_than_its_own_loopback(sandbox: SandboxHarness) -> None:
    lines = sandbox.run("cat /proc/net/dev").output.splitlines()[2:]
    assert [line.split(":")[0].strip() for line in lines] == ["lo"]


@contextlib.contextmanager
def listen_on(sandbox: SandboxHarness, path: str) -> Iterator[str]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        if not path.startswith("\0"):
            os.chmod(path, 0o777)  # noqa: S103 - whoever may connect outside must fail inside
            sandbox.set_owner(Path(path))
            sandbox.set_owner(Path(path).parent)
        listener.listen()
        yield path


def _build_connect_script(path: str) -> str:
    return f"""{find_python()} - <<'END'
import socket
socket.socket(socket.AF_UNIX).connect({path!r})
print({GOT_IT!r})
END"""
