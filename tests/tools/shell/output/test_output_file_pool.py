"""Output files that are used again: only when they are empty, and nobody has them open."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostler.tools.shell.output.output_file import OutputFile
from ostler.tools.shell.output.output_file_pool import MAX_SPARES, drop_spares, keep_spares


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "tasks"
    place.mkdir()
    keep_spares(place, tmp_path / "spare")
    yield place
    drop_spares(place)


def create_used_file(place: Path, printed: bytes = b"words of an old command\n") -> OutputFile:
    """A file whose command has printed something and has recorded its end."""
    file = OutputFile.create(place, "call-1-")
    os.write(file.descriptor, printed)
    Path(file.end_path).write_text("/tmp\n0\n")
    return file


def list_spares(place: Path) -> list[Path]:
    return sorted((place.parent / "spare").iterdir())


def test_a_file_is_used_again_and_has_no_word_of_the_old_command(place: Path) -> None:
    old = create_used_file(place)
    inode = os.stat(old.path).st_ino
    old.remove()
    assert os.listdir(place) == []
    assert [path.stat().st_size for path in list_spares(place)] == [0, 0]
    new = OutputFile.create(place, "call-2-")
    assert os.stat(new.path).st_ino == inode
    assert os.path.basename(new.path).startswith("call-2-")
    assert new.read_nowait(1000) is not None
    assert (new.read_shown(), new.read_ending().exit_code) == ("", None)
    os.write(new.descriptor, b"one")
    os.write(new.descriptor, b"two")
    assert new.read_shown() == "onetwo"
    new.remove()


def test_a_file_that_somebody_still_prints_to_is_removed(place: Path) -> None:
    file = create_used_file(place)
    with subprocess.Popen(["sleep", "60"], stdout=file.descriptor) as stray:
        file.remove()
        assert (os.listdir(place), list_spares(place)) == ([], [])
        stray.kill()


def test_a_file_whose_ending_somebody_still_has_open_is_removed(place: Path) -> None:
    file = create_used_file(place)
    with open(file.end_path, "ab"):
        file.remove()
    assert (os.listdir(place), list_spares(place)) == ([], [])


def test_a_command_that_was_killed_left_no_ending_and_its_file_goes(place: Path) -> None:
    file = OutputFile.create(place, "call-1-")
    file.remove()
    assert (os.listdir(place), list_spares(place)) == ([], [])


def test_no_more_are_kept_than_are_worth_it(place: Path) -> None:
    files = [create_used_file(place) for _ in range(MAX_SPARES + 3)]
    for file in files:
        file.remove()
    assert os.listdir(place) == []
    assert len(list_spares(place)) == 2 * MAX_SPARES


def test_spares_that_somebody_removed_are_made_anew(place: Path) -> None:
    create_used_file(place).remove()
    for path in list_spares(place):
        path.unlink()
    new = OutputFile.create(place, "call-2-")
    assert os.listdir(place) == [os.path.basename(new.path)]
    new.remove()


def test_half_a_pair_is_not_used(place: Path) -> None:
    create_used_file(place).remove()
    list_spares(place)[1].unlink()
    new = OutputFile.create(place, "call-2-")
    assert os.listdir(place) == [os.path.basename(new.path)]
    new.remove()


def test_a_file_for_a_sandbox_is_neither_an_old_one_nor_used_again(place: Path) -> None:
    create_used_file(place).remove()
    file = OutputFile.create(place, "call-2-", may_be_used_again=False)
    assert len(list_spares(place)) == 2
    file.make_end_file()
    file.remove()
    assert (os.listdir(place), len(list_spares(place))) == ([], 2)


def test_when_they_are_dropped_nothing_is_left_and_what_comes_later_is_removed(place: Path) -> None:
    create_used_file(place).remove()
    late = create_used_file(place)
    drop_spares(place)
    assert not (place.parent / "spare").exists()
    late.remove()
    assert sorted(os.listdir(place.parent)) == ["tasks"]
    assert os.listdir(place) == []


def test_what_a_crash_left_is_removed_at_the_start(tmp_path: Path) -> None:
    left = tmp_path / "spare" / "0123456789abcdef"
    left.parent.mkdir()
    left.write_text("words")
    keep_spares(tmp_path / "tasks", left.parent)
    assert list(left.parent.iterdir()) == []
    drop_spares(tmp_path / "tasks")
