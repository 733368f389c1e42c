"""Runs inside the sandbox, beside the command: forwards connections from its loopback to the proxy's socket.

Its source is given to Python as text, so that it runs wherever Python is; therefore it imports nothing of ours.
"""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
from pathlib import Path


def read_source() -> str:
    return Path(__file__).read_text(encoding="utf-8")


def _copy(reader: socket.socket, writer: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := reader.recv(65536):
            writer.sendall(data)
    with contextlib.suppress(OSError):
        writer.shutdown(socket.SHUT_WR)


def _forward(client: socket.socket, proxy_path: str) -> None:
    with client, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as proxy:
        proxy.connect(proxy_path)
        back = threading.Thread(target=_copy, args=(proxy, client), daemon=True)
        back.start()
        _copy(client, proxy)
        back.join()


def _serve(listener: socket.socket, proxy_path: str) -> None:
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_forward, args=(client, proxy_path), daemon=True).start()


_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _SECCOMP_FILTER = 4, 22, 2


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _start(command: tuple[str, ...], program: bytes) -> int:
    """Starts the command under the filter, which is not the forwarder's own: that needs the proxy's socket."""
    child = os.fork()
    if child:
        return child
    try:
        for each in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(each, signal.SIG_DFL)
        if program:
            loaded = _FilterProgram(len(program) // 8, program)
            if ctypes.CDLL(None).prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(loaded), 0, 0):
                os._exit(126)
        os.execve(command[0], command, os.environ)  # noqa: S606 - it is the command that is to run
    finally:
        os._exit(127)


def _main(proxy_path: str, port: str, program: str, *command: str) -> None:
    # The command, as the same user, must not write to its memory, nor take its sockets.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    listener = socket.create_server(("127.0.0.1", int(port)))
    child = _start(command, bytes.fromhex(program))
    # Standard input is the command's gate: were it open here too, the command would never see its end.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    threading.Thread(target=_serve, args=(listener, proxy_path), daemon=True).start()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    _main(*sys.argv[1:])
