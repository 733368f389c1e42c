"""The end of a log, and what comes after it."""

from pathlib import Path

import pytest

from ostler.clients.sdk.process.tail import follow, read_last_lines


@pytest.mark.parametrize("count", [0, 1, 3, 10_000, 50_000])
def test_the_last_lines_are_the_last_lines(tmp_path: Path, count: int) -> None:
    lines = [f"line {number} ünd so weiter" for number in range(20_000)]
    log = tmp_path / "log"
    log.write_text("".join(line + "\n" for line in lines))
    assert read_last_lines(log, count) == (lines[-count:] if count else [])


def test_an_unfinished_last_line_counts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\ntwo")
    assert read_last_lines(log, 1) == ["two"]


def test_lines_from_before_a_place_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("old\nnew\n")
    assert read_last_lines(log, 5, since=4) == ["new"]


def test_a_log_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert read_last_lines(tmp_path / "log", 5) == []


def test_following_begins_with_the_last_lines_and_misses_nothing_after_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("old\nlast\n")
    stream = follow(log, 1)
    assert next(stream) == "last\n"
    add(log, "one\n")
    assert next(stream) == "one\n"


def test_following_goes_on_in_the_file_that_takes_the_place_of_a_full_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("last\n")
    stream = follow(log, 1)
    next(stream)
    add(log, "written just before the move\n")
    log.rename(tmp_path / "log.1")
    add(log, "written into the new one\n")
    assert next(stream) == "written just before the move\n"
    assert next(stream) == "written into the new one\n"


def test_following_starts_over_in_a_file_that_was_emptied(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("last\n")
    stream = follow(log, 1)
    next(stream)
    log.write_text("new\n")
    assert next(stream) == "new\n"


def add(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)
