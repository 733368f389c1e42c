"""The scenarios of `make faults` as tests, with fewer kills."""

import random
import shutil
from pathlib import Path

import pytest

from tests.faults import damage, full_disk, signals, slow_readers, unusable
from tests.faults.agent_kills import kill_among_agents
from tests.faults.command_lines import compare_command_lines
from tests.faults.kills import kill_under_load
from tests.faults.resource_kills import kill_during_watch
from tests.faults.rows import Row
from tests.faults.task_kills import kill_during_tasks
from tests.faults.terminal_keys import press_keys
from tests.faults.turn_kills import kill_during_turns

pytestmark = pytest.mark.faults


def _assert_ok(row: Row) -> None:
    assert row.ok, "\n".join([row.done, str(row.numbers), *row.problems])


def test_nothing_acknowledged_is_lost_and_nothing_is_told_twice_when_the_daemon_is_killed(tmp_path: Path) -> None:
    _assert_ok(
        kill_under_load(tmp_path, count=10, seed=random.SystemRandom().randrange(1_000_000), report=lambda _: None)
    )


def test_every_turn_ends_and_nothing_runs_twice_when_daemons_are_killed_in_turns(tmp_path: Path) -> None:
    _assert_ok(
        kill_during_turns(tmp_path, count=20, seed=random.SystemRandom().randrange(1_000_000), report=lambda _: None)
    )


def test_no_task_is_lost_or_told_twice_when_the_daemon_is_killed(tmp_path: Path) -> None:
    _assert_ok(
        kill_during_tasks(tmp_path, count=4, seed=random.SystemRandom().randrange(1_000_000), report=lambda _: None)
    )


def test_no_agent_is_lost_told_twice_or_left_behind_when_the_daemon_is_killed(tmp_path: Path) -> None:
    _assert_ok(
        kill_among_agents(tmp_path, count=10, seed=random.SystemRandom().randrange(1_000_000), report=lambda _: None)
    )


def test_no_line_of_a_resource_is_lost_when_the_daemon_that_watches_it_is_killed(tmp_path: Path) -> None:
    _assert_ok(
        kill_during_watch(tmp_path, count=3, seed=random.SystemRandom().randrange(1_000_000), report=lambda _: None)
    )


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not there")
def test_a_chat_stays_sane_whatever_is_pressed_and_however_it_is_resized(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    _assert_ok(press_keys(tmp_path, seconds=5, seed=seed, report=lambda _: None))


def test_bash_makes_of_generated_lines_what_we_say_of_them(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    _assert_ok(compare_command_lines(tmp_path, seconds=0.1, seed=seed, report=lambda _: None))


def test_a_full_disk_makes_the_daemon_read_only_until_there_is_room(tmp_path: Path) -> None:
    _assert_ok(full_disk.full_disk(tmp_path))


def test_an_io_error_makes_the_daemon_read_only_until_it_is_over(tmp_path: Path) -> None:
    _assert_ok(full_disk.failing_disk(tmp_path))


def test_garbage_for_a_database_is_moved_aside_with_its_wal_and_reported(tmp_path: Path) -> None:
    _assert_ok(damage.garbage(tmp_path))


def test_a_flipped_page_is_found_and_the_other_sessions_can_be_exported(tmp_path: Path) -> None:
    _assert_ok(damage.flipped_page(tmp_path))


def test_damage_that_a_call_runs_into_ends_all_writing_and_is_moved_aside_at_the_next_start(tmp_path: Path) -> None:
    _assert_ok(damage.met_damage(tmp_path))


def test_a_newer_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    _assert_ok(damage.newer_version(tmp_path))


def test_a_folder_in_place_of_the_database_is_refused_in_one_line(tmp_path: Path) -> None:
    _assert_ok(unusable.a_folder(tmp_path))


def test_a_database_that_may_not_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    _assert_ok(unusable.unreadable(tmp_path))


def test_no_room_for_a_new_database_is_refused_in_one_line(tmp_path: Path) -> None:
    _assert_ok(unusable.no_room(tmp_path))


def test_a_reader_that_stops_slows_nobody_and_resumes_without_a_gap(tmp_path: Path) -> None:
    _assert_ok(slow_readers.stalled_reader(tmp_path))


def test_readers_that_never_read_again_are_dropped_and_cost_little(tmp_path: Path) -> None:
    _assert_ok(slow_readers.dead_readers(tmp_path))


def test_sigterm_with_readers_attached_stops_soon_and_clean(tmp_path: Path) -> None:
    _assert_ok(signals.terminated_with_readers(tmp_path))


def test_shutdown_with_readers_attached_stops_soon_and_clean(tmp_path: Path) -> None:
    _assert_ok(signals.shut_down_with_readers(tmp_path))


def test_a_second_sigterm_forces_a_stop_that_hangs(tmp_path: Path) -> None:
    _assert_ok(signals.second_signal(tmp_path))


def test_sigterm_in_the_middle_of_writes_loses_nothing_acknowledged(tmp_path: Path) -> None:
    _assert_ok(signals.terminated_under_load(tmp_path))
