"""Pipes of several processes are read together, within bounds."""

import subprocess
import sys

import pytest

from ostler.tools.process.orphans import exclude_from_reaping
from ostler.tools.process.pipes import TooMuch, TooSlow, read_pipes


def read(program: str, *, seconds: float = 20.0, max_bytes: int = 1_000_000) -> list[bytes]:
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with exclude_from_reaping(process.pid), process:
        try:
            return read_pipes((process.stdout, process.stderr), seconds=seconds, max_bytes=max_bytes)
        finally:
            process.kill()


def test_both_pipes_are_read_whole_whichever_fills_first() -> None:
    program = "import sys; sys.stderr.write('e' * 200_000); sys.stdout.write('o' * 200_000)"
    assert read(program) == [b"o" * 200_000, b"e" * 200_000]


def test_a_pipe_that_gives_too_much_is_left() -> None:
    with pytest.raises(TooMuch):
        read("while True: print('more')", max_bytes=100_000)


def test_a_pipe_that_stays_open_is_left_when_the_time_is_up() -> None:
    with pytest.raises(TooSlow):
        read("import time; time.sleep(60)", seconds=0.05)
