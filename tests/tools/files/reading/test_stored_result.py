"""Lines of a persisted result, as Read shows them."""

import pytest

from ostler.tools.files.reading.stored_result import ResultLines, read_result
from ostler.tools.services import NoResults
from ostler.tools.tool import Failure
from tests.support.stored_results import StoredResults

pytestmark = pytest.mark.anyio


async def read_lines(text: str, first: int = 1, count: int = 2000, piece: int = 7, tokens: int = 25_000) -> ResultLines:
    read = await read_result("result://r_1", first, count, StoredResults({"r_1": text}, piece), max_tokens=tokens)
    assert isinstance(read, ResultLines), read
    return read


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, 64, 10_000])
@pytest.mark.parametrize("ending", ["", "\n"])
async def test_any_window_is_the_same_however_the_text_comes(piece: int, ending: str) -> None:
    lines = ["one", "", "three ü", "", "", "six", "seven is a longer line"]
    text = "\n".join(lines) + ending
    for first in range(1, len(lines) + 1):
        for count in range(1, len(lines) + 2):
            wanted = lines[first - 1 : first - 1 + count]
            assert await read_lines(text, first, count, piece) == ResultLines("\n".join(wanted), len(wanted), first, 7)


async def test_carriage_returns_at_the_end_of_lines_are_left_out() -> None:
    assert (await read_lines("a\r\nb\r\n")).content == "a\nb"


@pytest.mark.parametrize("piece", [100, 100_000])
async def test_a_long_line_is_cut_and_marked(piece: int) -> None:
    read = await read_lines("x" * 2001 + "\n" + "y" * 2000 + "\r\nz\n", piece=piece)
    first, second, third = read.content.split("\n")
    assert first == "x" * 2000 + "… (cut after 2000 characters; alone, with limit 1, more of it is shown)"
    assert (second, third, read.total_lines) == ("y" * 2000, "z", 3)


async def test_an_empty_result_and_an_offset_past_the_end_are_warned_of() -> None:
    assert (await read_lines("")).warning == "The result is empty."
    past = await read_lines("a\nb\n", first=3)
    assert past == ResultLines("", 0, 3, 2, "The result has only 2 lines: line 3 is past its end.")


async def test_too_many_tokens_are_an_error_that_names_the_limit() -> None:
    read = await read_result("result://r_1", 2, 50, StoredResults({"r_1": "abcdefg\n" * 100}), max_tokens=50)
    assert isinstance(read, Failure)
    assert read.message == (
        "Lines 2-51 of result://r_1 are more than 50 tokens. "
        "Read fewer with offset and limit, or find the place with Grep."
    )
    assert (await read_lines("abcdefg\n" * 100, 2, 25, tokens=50)).num_lines == 25


async def test_what_is_no_result_of_the_session_is_an_error() -> None:
    for path, results in (
        ("result://r_2", StoredResults({})),
        ("result://r_1", NoResults()),
        ("/etc/passwd", StoredResults({})),
    ):
        assert isinstance(await read_result(path, 1, 10, results, max_tokens=25_000), Failure)
