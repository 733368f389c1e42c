"""What a task has printed, read in parts: characters stay whole, and a hole in the middle is passed over."""

from pathlib import Path

import pytest

from ostler.server.engine.tasks.output_files import find_strays, read_part, remove_output_files
from ostler.tools.shell.output import output_file


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of which little is kept."""
    monkeypatch.setattr(output_file, "_HEAD_ON_DISK", 4096)
    monkeypatch.setattr(output_file, "_TAIL_ON_DISK", 8192)
    monkeypatch.setattr(output_file, "_HOLE_FROM", 20_000)


def read_all(path: Path, most: int, *, over: bool = True) -> tuple[list[tuple[int, str]], int]:
    parts: list[tuple[int, str]] = []
    place = 0
    while True:
        part = read_part(str(path), place, most, over=over)
        if part.end == place:
            return parts, place
        parts.append((part.offset, part.text))
        place = part.end


@pytest.mark.parametrize("most", [16, 17, 18, 19, 1000])
def test_parts_add_up_whatever_their_size(tmp_path: Path, most: int) -> None:
    text = "aä€😀" * 100
    path = tmp_path / "out"
    path.write_bytes(text.encode())
    parts, end = read_all(path, most)
    assert "".join(each for _, each in parts) == text
    assert end == len(text.encode())


@pytest.mark.parametrize("shift", range(4))
def test_a_hole_is_passed_over_and_no_zeros_are_shown(tmp_path: Path, small_limits: None, shift: int) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"x" * shift + "ä€😀".encode() * 10_000)
    output = output_file.OutputFile.open(str(path))
    output.trim()
    size = output.size
    output.close()
    assert path.stat().st_blocks * 512 < size
    parts, end = read_all(path, 1000)
    assert end == size
    text = "".join(each for _, each in parts)
    assert "\0" not in text
    # Only where the head breaks off in the middle of a character is there something that is none.
    assert text.count("\ufffd") <= 1
    jumps = [offset for (offset, _), (before, _) in zip(parts[1:], parts, strict=False) if offset - before > 2000]
    assert len(jumps) == 1


def test_a_part_that_begins_in_the_hole_begins_behind_it(tmp_path: Path, small_limits: None) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"y" * 50_000)
    part = read_part(str(path), 10_000, 1000, over=False)
    assert (part.offset, part.text, part.end) == (50_000 - 8192, "y" * 1000, 50_000 - 8192 + 1000)


def test_half_a_character_is_left_until_the_task_is_over(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"a\xe2\x82")
    running = read_part(str(path), 0, 100, over=False)
    assert (running.text, running.end) == ("a", 1)
    over = read_part(str(path), 1, 100, over=True)
    assert (over.text, over.end) == ("\ufffd", 3)


def test_a_place_past_the_end_gives_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"abc")
    assert read_part(str(path), 10, 100, over=True).text == ""
    gone = read_part(str(tmp_path / "none"), 7, 100, over=True)
    assert (gone.text, gone.end) == ("", 7)


def test_only_files_that_belong_to_no_task_are_strays(tmp_path: Path) -> None:
    for name in ("call-1.out", "call-1.out.end", "call-2.out", "call-2.out.end", "notes"):
        (tmp_path / name).touch()
    remove_output_files(find_strays(tmp_path, {str(tmp_path / "call-1.out")}))
    assert {path.name for path in tmp_path.iterdir()} == {"call-1.out", "call-1.out.end", "notes"}
