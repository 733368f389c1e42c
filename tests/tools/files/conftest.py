"""The worker process for edits of large files, started without its imports."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

# It has imported what the program imports, and forks: a case needs several processes, whose time is mostly
# imports. It ends with the tests, however these end.
FORKING_SERVER = """
import contextlib, ctypes, json, os, signal, socket, sys
from ostler.tools.files.editing.large_edit_worker import handle_request

ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    print("listening", flush=True)
    while True:
        connection, _ = listener.accept()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork() == 0:
            _, (given, answer), _, _ = socket.recv_fds(connection, 1, 2)
            with open(given) as requests, open(answer, "w") as answers:
                answers.write(json.dumps(handle_request(json.load(requests))))
            os._exit(0)
        connection.close()
"""
FORKED_PROGRAM = """
import socket
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({!r})
    socket.send_fds(connection, [b"."], [0, 1])
    connection.recv(1)
"""


@pytest.fixture(scope="session")
def forked_edit_program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A program that does what the worker's does, on its own standard streams, in a process that need not import it."""
    path = str(tmp_path_factory.mktemp("large") / "socket")
    arguments = [sys.executable, "-I", "-c", FORKING_SERVER, path]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd="/") as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "listening\n"
        yield FORKED_PROGRAM.format(path)
        server.kill()
