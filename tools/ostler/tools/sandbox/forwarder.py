"""Inside the sandbox: takes connections on its own loopback to the proxy's socket, beside the command.

Its source is given to Python as text, so that it runs wherever Python is; therefore it imports nothing of ours.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
from pathlib import Path


def source() -> str:
    return Path(__file__).read_text(encoding="utf-8")


def _copy(taken: socket.socket, given: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := taken.recv(65536):
            given.sendall(data)
    with contextlib.suppress(OSError):
        given.shutdown(socket.SHUT_WR)


def _join(client: socket.socket, place: str) -> None:
    with client, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as proxy:
        proxy.connect(place)
        back = threading.Thread(target=_copy, args=(proxy, client), daemon=True)
        back.start()
        _copy(client, proxy)
        back.join()


def _serve(listener: socket.socket, place: str) -> None:
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_join, args=(client, place), daemon=True).start()


def _main(place: str, port: str, *command: str) -> None:
    listener = socket.create_server(("127.0.0.1", int(port)))
    child = os.posix_spawn(command[0], command, os.environ, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
    # The gate is the command's: whoever else holds it would keep it from its end.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    threading.Thread(target=_serve, args=(listener, place), daemon=True).start()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    _main(*sys.argv[1:])
