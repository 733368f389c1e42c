"""One attempt by a process of this machine: prints what it has learned, or the error that the system gave it.

Run as a program: `intruder.py [--as UID] ATTEMPT ARGUMENT…`, or `intruder.py --from FILE` with the same as a list.
All imports stand at the top: another user may not be able to read them any more.
"""

import ctypes
import errno
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

_ASK = b"GET /metrics HTTP/1.1\r\nHost: %s\r\n\r\n"
_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17
_libc = ctypes.CDLL(None, use_errno=True)


def read(path: str) -> bytes:
    return Path(path).read_bytes()


def read_memory(pid: str) -> bytes:
    with open(f"/proc/{pid}/mem", "rb", buffering=0):
        return b"opened"


def read_from_afar(pid: str) -> bytes:
    taken = ctypes.create_string_buffer(16)
    here = (ctypes.c_void_p * 2)(ctypes.addressof(taken), 16)
    there = (ctypes.c_void_p * 2)(ctypes.addressof(taken), 16)
    _raise_on_error(_libc.process_vm_readv(int(pid), here, 1, there, 1, 0))
    return b"read"


def attach(pid: str) -> bytes:
    _raise_on_error(_libc.ptrace(_PTRACE_ATTACH, int(pid), None, None))
    os.waitpid(int(pid), 0)
    _libc.ptrace(_PTRACE_DETACH, int(pid), None, None)
    return b"attached"


def look_at(folder: str) -> bytes:
    return b"\n".join(os.fsencode(name) for name in os.listdir(folder))


def take_open_files(pid: str) -> bytes:
    """Of another process; their numbers are no secret everywhere, what is behind them is."""
    return b" ".join(os.fsencode(os.readlink(f"/proc/{pid}/fd/{number}")) for number in range(8))


def plant(path: str) -> bytes:
    Path(path).write_bytes(b"planted")
    return b"written"


def end(pid: str) -> bytes:
    os.kill(int(pid), 0)
    return b"could be ended"


def ask_on_socket(path: str) -> bytes:
    return _send_request(_connect(socket.AF_UNIX, path), b"localhost")


def ask_on_port(port: str) -> bytes:
    return _send_request(_connect(socket.AF_INET, ("127.0.0.1", int(port))), b"localhost:%d" % int(port))


def ask_as_orphan(path: str) -> bytes:
    """Ask when the process between us has ended, and in a session of its own."""
    return _run_as_orphan(os.setsid, lambda: ask_on_socket(path))


def ask_with_the_connection_of_a_dead_process(path: str) -> bytes:
    """The kernel remembers who connected, and that one is gone when the daemon looks."""
    made: list[socket.socket] = []
    return _run_as_orphan(
        lambda: made.append(_connect(socket.AF_UNIX, path)), lambda: _send_request(made[0], b"localhost")
    )


def environment_with(*words: str) -> bytes:
    """The names of variables that hold one of these words."""
    return b" ".join(name.encode() for name, value in os.environ.items() if any(word in value for word in words))


def open_files_in(folder: str) -> bytes:
    """What of the daemon was left open for us, besides the file that our own output goes to."""
    links = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_open(name)]
    own = os.readlink("/proc/self/fd/1")
    return "\n".join(link for link in links if link != own and link.startswith((folder, "socket:"))).encode()


def _is_open(name: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{name}")


def _connect(family: int, address: str | tuple[str, int]) -> socket.socket:
    found = socket.socket(family)
    found.settimeout(30)
    found.connect(address)
    return found


def _send_request(connection: socket.socket, host: bytes) -> bytes:
    connection.sendall(_ASK % host)
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def _run_as_orphan(before: Callable[[], object], act: Callable[[], bytes]) -> bytes:
    """`before` runs in a process that then ends, `act` in its child, once it is an orphan."""
    out, back = os.pipe()
    middle = os.fork()
    if middle == 0:
        before()
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:
                os.sched_yield()
            os.write(back, _run_attempt(act))
        os._exit(0)
    os.close(back)
    os.waitpid(middle, 0)
    with os.fdopen(out, "rb") as told:
        return told.read()


def _raise_on_error(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")


def _run_attempt(attempt: Callable[[], bytes]) -> bytes:
    try:
        return attempt() or b"nothing"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "unknown").encode()


ATTEMPTS: dict[str, Callable[..., bytes]] = {
    found.__name__: found
    for found in (
        read,
        read_memory,
        read_from_afar,
        attach,
        look_at,
        take_open_files,
        plant,
        end,
        ask_on_socket,
        ask_on_port,
        ask_as_orphan,
        ask_with_the_connection_of_a_dead_process,
        environment_with,
        open_files_in,
    )
}


def main(arguments: list[str]) -> None:
    if arguments[0] == "--as":
        os.setgroups([])
        os.setgid(int(arguments[1]))
        os.setuid(int(arguments[1]))
        arguments = arguments[2:]
    if arguments[0] == "--from":
        arguments = json.loads(Path(arguments[1]).read_text())
    name, *rest = arguments
    # In hexadecimal, so that it arrives as it is: what a command prints is cleaned for the model.
    sys.stdout.write(_run_attempt(lambda: ATTEMPTS[name](*rest)).hex())


if __name__ == "__main__":
    main(sys.argv[1:])
