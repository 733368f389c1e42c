"""The full output of a command, read in pieces: decoded and cleaned like what is shown, even if its file changes."""

import gc
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostler.tools.formats.terminal_text import clean_for_model
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.output import cleaning as output_cleaning
from ostler.tools.shell.output.cleaning import StreamCleaner
from ostler.tools.shell.output.full_output import FullOutput, open_full_output
from ostler.tools.shell.output.long_text import LongOutput, LongText
from ostler.tools.shell.output.output_file import SHOWN_BYTES, OutputFile, decode_output
from tests.support.tables import try_each
from tests.support.tool_calls import Session, poll_until

BASH = Bash()
MB = 1024 * 1024
READ_AT_ONCE = 64 * 1024


@pytest.fixture
def output(tmp_path: Path) -> Iterator[OutputFile]:
    file = OutputFile.create(tmp_path, "call-")
    yield file
    file.remove()


def write(output: OutputFile, data: bytes) -> None:
    assert os.write(output.descriptor, data) == len(data)


def write_and_open(output: OutputFile, data: bytes) -> FullOutput:
    write(output, data)
    found = open_full_output(output)
    assert found is not None
    return found


def join_pieces(long: LongText) -> str:
    return "".join(long.pieces())


def clean_in_pieces(text: str, size: int) -> str:
    cleaning = StreamCleaner()
    taken = [cleaning.feed(text[place : place + size]) for place in range(0, len(text), size)]
    return "".join(taken) + cleaning.flush()


# Cleaning.

TRICKY = [
    "plain\nlines\n\nand a rest",
    "\x1b[31mred\x1b[0m\r\n\x1b[1;32mgreen\x1b[m\n",
    "10%\r50%\r100%\nnext\r\r\nold\r\x1b[K\nab\rcd",
    "\x1b]0;a title\nof two lines\x07shown\n\x1b]8;;link\x1b\\words\x1b]8;;\x1b\\\n",
    "\x1bPa string\r\nfor the terminal\x1b\\after\n\x1b]never ended\nor so\n",
    "\x1b]one\n\x1bPtwo\n\x1b[3\n\x1b\n\x1b[31",
    "a\0b\x08c\x7f\td\x07\n中é🐎\n",
]


@try_each("text", [*TRICKY, "".join(TRICKY), "".join(reversed(TRICKY))])
def test_wherever_it_is_cut_it_is_cleaned_as_the_whole(text: str) -> None:
    for size in range(1, len(text) + 1):
        assert clean_in_pieces(text, size) == clean_for_model(text), size


def test_of_a_progress_bar_without_end_only_the_last_state_stays() -> None:
    states = "".join(f"\r\x1b[K{number} of 200000" for number in range(200_001))
    assert clean_in_pieces(f"begin\n{states}", READ_AT_ONCE) == "begin\n200000 of 200000"
    assert clean_in_pieces(f"begin\n{states}\r\x1b[K\ndone\n", READ_AT_ONCE) == "begin\n200000 of 200000\ndone\n"


def test_nothing_is_lost_of_a_line_that_is_too_long_to_be_held() -> None:
    line = "".join(f"\x1b[3{number % 8}m{number} " for number in range(300_000))
    assert len(line) > 10 * output_cleaning._LONGEST_LINE
    assert clean_in_pieces(line, READ_AT_ONCE) == clean_for_model(line)


@pytest.mark.parametrize("begin", ["\x1b]", "\x1bP"])
def test_a_string_for_the_terminal_that_does_not_end_is_not_held(begin: str) -> None:
    cleaning = StreamCleaner()
    assert cleaning.feed(f"shown\n{begin}") == "shown\n"
    for _ in range(40):
        assert cleaning.feed("not for people\n" * 5000) == ""
        assert len(cleaning._held) <= output_cleaning._LONGEST_LINE
    assert cleaning.feed("\x1b\\and on\n") + cleaning.flush() == "and on\n"


# Reading.


def test_what_is_shown_whole_has_no_long_text(output: OutputFile) -> None:
    write(output, b"x" * SHOWN_BYTES)
    assert open_full_output(output) is None
    assert "bytes left out" not in output.read_shown()
    write(output, b"x")
    assert open_full_output(output) is not None
    assert "\n… (1 bytes left out) …\n" in output.read_shown()


@pytest.mark.parametrize("shift", range(4))
def test_a_character_that_two_pieces_share_is_whole(output: OutputFile, shift: int) -> None:
    text = "x" * (READ_AT_ONCE - shift) + "🐎" * 400_000 + "é\n"
    assert join_pieces(write_and_open(output, text.encode())) == text


def test_what_is_no_text_is_decoded_and_cleaned_as_what_is_shown(output: OutputFile) -> None:
    data = os.urandom(2_000_000) + b"\xf0\x9f"
    assert join_pieces(write_and_open(output, data)) == clean_for_model(decode_output(data))


def test_the_text_outlives_its_file_and_goes_when_it_is_closed(output: OutputFile) -> None:
    data = b"".join(b"%d\n" % number for number in range(300_000))
    text = write_and_open(output, data)
    output.remove()
    assert not os.path.exists(output.path)
    assert join_pieces(text) == data.decode()
    descriptor = text.descriptor
    text.close()
    text.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_text_that_nobody_reads_is_let_go_of(output: OutputFile) -> None:
    text = write_and_open(output, b"x" * 2_000_000)
    output.remove()
    assert _is_removed_but_open(output.path)
    del text
    gc.collect()
    assert not _is_removed_but_open(output.path)


def test_a_file_that_was_closed_meanwhile_has_no_text(output: OutputFile) -> None:
    write(output, b"x" * 2_000_000)
    output.close()
    assert open_full_output(output) is None


def _is_removed_but_open(path: str) -> bool:
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return any(os.readlink(link).startswith(path) for link in links if os.path.islink(link))


# More than the file keeps.

LINES = b"".join(b"%015d\n" % number for number in range(65_536))
"""A megabyte."""


def test_the_middle_of_very_much_is_left_out_and_its_bytes_are_told(output: OutputFile) -> None:
    for _ in range(69):
        write(output, LINES)
    text = write_and_open(output, LINES)
    whole = join_pieces(text)
    head, note, tail = whole.partition(f"\n… ({22 * MB} bytes left out) …\n")
    assert note
    assert (len(head), len(tail)) == (16 * MB, 32 * MB)
    assert head[-16:] == tail[-16:] == "000000000065535\n"
    assert (head[:16], tail[:16]) == ("000000000000000\n", "000000000000000\n")
    output.trim()
    assert join_pieces(text) == whole


def test_a_hole_that_comes_while_it_is_read_is_told_and_never_read(output: OutputFile) -> None:
    for _ in range(39):
        write(output, LINES)
    text = write_and_open(output, LINES)
    pieces = text.pieces()
    begun = "".join(next(pieces) for _ in range(8))
    for _ in range(26):  # the command goes on
        write(output, LINES)
    output.trim()
    whole = begun + "".join(pieces)
    head, note, tail = whole.partition(f"\n… ({18 * MB} bytes left out) …\n")
    assert note
    assert (len(head), len(tail)) == (16 * MB, 6 * MB)
    assert tail[:16] == "000000000000000\n"


def test_sixty_megabytes_take_one_of_memory(output: OutputFile) -> None:
    for _ in range(59):
        write(output, LINES)
    text = write_and_open(output, LINES)
    tracemalloc.start()
    try:
        read = sum(map(len, text.pieces()))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read == 60 * MB
    assert most < MB


# Commands.


def read_long_output(output: object) -> str:
    assert isinstance(output, LongOutput)
    long = output.open_long_text()
    assert long is not None
    return join_pieces(long)


@pytest.mark.anyio
async def test_a_command_gives_all_that_it_printed_and_how_it_ended(session: Session) -> None:
    ran = await session.expect_result(BASH, command="seq 1 300000; printf '\\n\\n'; exit 3")
    numbers = "\n".join(map(str, range(1, 300_001)))
    assert ran.is_error
    assert read_long_output(ran.output) == f"{numbers}\n(exit code 3)"
    assert len(ran.output.stdout) < 1_100_000
    assert "long" not in " ".join(ran.output.model_dump())
    await poll_until(lambda: not list(session.outputs.iterdir()))
    assert read_long_output(ran.output).startswith("1\n2\n")


@pytest.mark.anyio
async def test_a_command_that_has_no_more_time_gives_all_that_it_printed(session: Session) -> None:
    ran = await session.expect_result(BASH, command="seq 1 300000; echo ready; sleep 1000", timeout=1500)
    assert ran.output.timed_out
    text = read_long_output(ran.output)
    assert text.startswith("1\n2\n3\n")
    assert "\n150000\n" in text
    assert "\n300000\nready\n(Timed out after 1.5 s" in text


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("command", "printed"),
    [
        # The shell outlives what it waits for, and says so.
        ("trap : TERM; printf begun; sleep 1000", "begun"),
        ("trap 'echo last' TERM; echo begun; sleep 1000", "begun\nlast\n"),
        (
            "trap 'echo Terminated by me; exit' TERM; echo begun; while :; do sleep 0.05; done",
            "begun\nTerminated by me\n",
        ),
    ],
)
async def test_what_the_shell_says_of_our_ending_its_command_is_not_the_commands(
    session: Session, command: str, printed: str
) -> None:
    # Long enough for a slow machine: a shell that is told to end before it waits for its command goes on waiting.
    ran = await session.expect_result(BASH, command=command, timeout=2500)
    assert ran.output.timed_out
    assert ran.output.stdout == printed


@pytest.mark.anyio
async def test_output_of_newlines_alone_is_no_output(session: Session) -> None:
    ran = await session.expect_result(BASH, command="head -c 2000000 /dev/zero | tr '\\0' '\\n'")
    assert read_long_output(ran.output) == ""
    ran = await session.expect_result(BASH, command="echo a; head -c 2000000 /dev/zero | tr '\\0' '\\n'; echo b")
    assert read_long_output(ran.output) == "a\n" + "\n" * 2_000_000 + "b"


@pytest.mark.anyio
async def test_short_output_has_no_long_text(session: Session) -> None:
    assert (await session.expect_result(BASH, command="seq 1 100000")).output.open_long_text() is None
    assert (await session.expect_result(BASH, command="true")).output.open_long_text() is None
