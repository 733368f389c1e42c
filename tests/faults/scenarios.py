"""Every scenario but the kills, in the order of the table."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.faults import damage, full_disk, signals, slow_readers, unusable
from tests.faults.rows import Row

Scenario = Callable[[Path], Row]

SCENARIOS: Final[tuple[Scenario, ...]] = (
    full_disk.full_disk,
    full_disk.failing_disk,
    damage.garbage,
    damage.flipped_page,
    damage.met_damage,
    damage.newer_version,
    unusable.a_folder,
    unusable.unreadable,
    unusable.no_room,
    slow_readers.stalled_reader,
    slow_readers.dead_readers,
    signals.terminated_with_readers,
    signals.shut_down_with_readers,
    signals.second_signal,
    signals.terminated_under_load,
)
