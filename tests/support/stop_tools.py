"""A plug-in that stops the daemon while it writes a file, so that a test can kill it there.

Loaded through a real entry point, as the gates are. The interpreter tells every plug-in's audit hook before it opens
or renames a file; the thread that writes waits in it for ever, and all others go on.
"""

import os
import re
import sys
import time
from pathlib import Path
from typing import Any, Final, Literal, get_args

from tests.support.gate_tools import Gate

StopPoint = Literal["kept", "whole", "renamed"]
"""The old content is in the history; the new one is whole beside the file; it is in the file's place."""
STOP_POINTS: Final[tuple[StopPoint, ...]] = get_args(StopPoint)

_TEMPORARY: Final = re.compile(r"\..*\.[0-9a-f]{12}\.tmp")
_WHEN, _MARK = "STOP_WHEN", "STOP_MARK"
_ENTRY_POINTS: Final = "[ostler.tools]\nstops = tests.support.stop_tools:Stops\n"


class Stops(Gate):
    """A tool that exists only so that the daemon loads this module."""

    name = "Stops"


def install(plug_ins: Path, when: StopPoint) -> tuple[dict[str, str], Path]:
    """Lay the plug-in out beside the gates; what its daemon needs, and the file that tells that it has stopped."""
    info = plug_ins / "stops-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stops\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(_ENTRY_POINTS)
    mark = plug_ins / "stopped"
    return {_WHEN: when, _MARK: str(mark)}, mark


class _AuditHook:
    """Stops the first daemon only: the mark file tells later ones that it has stopped already."""

    def __init__(self, when: str, mark: str) -> None:
        self._when = when
        self._mark = mark
        self._renamed = False

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        if event not in {"open", "os.rename"} or not isinstance(given[0], str):
            return
        temporary = _TEMPORARY.fullmatch(given[0]) is not None
        if event == "os.rename" and temporary:
            self._renamed = True
            self._stop("whole")
        elif event == "open" and temporary:
            self._stop("kept")
        elif event == "open" and given[0] == "." and self._renamed:  # the folder, which is brought to the disk last
            self._stop("renamed")

    def _stop(self, stop_point: StopPoint) -> None:
        if stop_point != self._when or os.path.exists(self._mark):
            return
        Path(self._mark).touch()
        while True:
            time.sleep(1)


if _WHEN in os.environ:  # only in a daemon that a test has started for this
    sys.addaudithook(_AuditHook(os.environ[_WHEN], os.environ[_MARK]))
