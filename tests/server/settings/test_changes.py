"""Whether settings have to be read again."""

import os

import pytest

from ostler.server.settings import is_stale, load_settings, signature
from ostler.server.settings.locations import settled
from tests.server.settings.machine import FILES, Desk


@pytest.mark.parametrize("name", list(FILES))
def test_a_file_that_comes_changes_or_goes_is_a_change(desk: Desk, name: str) -> None:
    empty = signature(str(desk.folder), desk.places)
    path = desk.write(name, "{}")
    there = signature(str(desk.folder), desk.places)
    path.write_text('{"env": {}}')
    longer = signature(str(desk.folder), desk.places)
    path.unlink()
    assert len({empty, there, longer}) == 3
    assert signature(str(desk.folder), desk.places) == empty


def test_a_change_with_the_same_time_and_size_is_seen(desk: Desk) -> None:
    path = desk.permit("user", deny=["Bash(a)"])
    before, stamp = signature(str(desk.folder), desk.places), path.stat().st_mtime_ns
    other = path.with_name("other")
    other.write_text(path.read_text().replace("Bash(a)", "Bash(b)"))
    os.utime(other, ns=(stamp, stamp))
    other.replace(path)
    assert path.stat().st_mtime_ns == stamp
    assert signature(str(desk.folder), desk.places) != before


def test_a_file_that_changed_a_moment_ago_is_read_once_more(desk: Desk) -> None:
    desk.permit("user", deny=["Bash(a)"])
    now = signature(str(desk.folder), desk.places)
    changed = os.stat(desk.file("user")).st_ctime_ns
    assert settled(now, changed + 1) != now
    assert settled(now, changed + 10**9) == now


def test_nothing_changed_means_nothing_to_read(desk: Desk) -> None:
    assert not is_stale(desk.load(), desk.places)


def test_a_repository_that_appears_around_the_folder_is_a_change(desk: Desk) -> None:
    below = desk.folder / "below"
    below.mkdir()
    settings = load_settings(str(below), desk.places)
    assert not is_stale(settings, desk.places)
    desk.git("init", "-q")
    assert is_stale(settings, desk.places)
