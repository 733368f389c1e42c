"""Whether settings have to be read again."""

import os

import pytest

from ostler.server.settings import compute_signature, is_stale, load_settings
from ostler.server.settings.locations import mask_recent_changes
from tests.server.settings.machine import FILES, PersonMachine


@pytest.mark.parametrize("name", list(FILES))
def test_a_file_that_comes_changes_or_goes_is_a_change(machine: PersonMachine, name: str) -> None:
    empty = compute_signature(str(machine.folder), machine.places)
    path = machine.write(name, "{}")
    there = compute_signature(str(machine.folder), machine.places)
    path.write_text('{"env": {}}')
    longer = compute_signature(str(machine.folder), machine.places)
    path.unlink()
    assert len({empty, there, longer}) == 3
    assert compute_signature(str(machine.folder), machine.places) == empty


def test_a_change_with_the_same_time_and_size_is_seen(machine: PersonMachine) -> None:
    path = machine.write_permissions("user", deny=["Bash(a)"])
    before, stamp = compute_signature(str(machine.folder), machine.places), path.stat().st_mtime_ns
    other = path.with_name("other")
    other.write_text(path.read_text().replace("Bash(a)", "Bash(b)"))
    os.utime(other, ns=(stamp, stamp))
    other.replace(path)
    assert path.stat().st_mtime_ns == stamp
    assert compute_signature(str(machine.folder), machine.places) != before


def test_a_file_that_changed_a_moment_ago_is_read_once_more(machine: PersonMachine) -> None:
    machine.write_permissions("user", deny=["Bash(a)"])
    now = compute_signature(str(machine.folder), machine.places)
    changed = os.stat(machine.file("user")).st_ctime_ns
    assert mask_recent_changes(now, changed + 1) != now
    assert mask_recent_changes(now, changed + 10**9) == now


def test_nothing_changed_means_nothing_to_read(machine: PersonMachine) -> None:
    assert not is_stale(machine.load(), machine.places)


def test_a_repository_that_appears_around_the_folder_is_a_change(machine: PersonMachine) -> None:
    below = machine.folder / "below"
    below.mkdir()
    settings = load_settings(str(below), machine.places)
    assert not is_stale(settings, machine.places)
    machine.git("init", "-q")
    assert is_stale(settings, machine.places)
