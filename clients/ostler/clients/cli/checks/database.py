"""The checks of `ostler doctor` for SQLite and for the database, which the storage's own program looks at."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ostler.clients.cli.checks.base import Finding
from ostler.protocol.places import Places

_CHECK_SECONDS: Final = 600.0
"""A database of many gigabytes on a slow disk takes minutes."""
_MEND_SQLITE: Final = "Use a Python that is built with SQLite 3.35 or newer."
_MEND_DAMAGE: Final = "Stop the daemon and start it again: it moves a damaged database aside and begins a new one."


def check_database(places: Places) -> Iterator[Finding]:
    path = places.database
    try:
        looked = _look(path)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        yield Finding("fail", "database", f"{path} could not be checked: {error}", "Install ostler again.")
        return
    mend = None if looked["is_supported"] else _MEND_SQLITE
    yield Finding("fail" if mend else "ok", "sqlite", looked["sqlite"], mend)
    if not path.exists():
        yield Finding("ok", "database", "none yet; the first start makes it")
    elif looked["damage"] is not None:
        yield Finding("fail", "database", f"{path}: {looked['damage']}", _MEND_DAMAGE)
    else:
        yield Finding("ok", "database", f"{path}, {path.stat().st_size / 1024:.0f} kB")
    for aside in sorted(path.parent.glob(f"{path.name}.damaged-*")):
        if aside.name.endswith(("-wal", "-shm")):
            continue
        mend = f"Recover what is in it with `sqlite3 {aside} .recover`, then delete it."
        yield Finding("warn", "database", f"a damaged one was moved aside: {aside}", mend)


def _look(path: Path) -> dict[str, Any]:
    done = subprocess.run(  # noqa: S603 - a program of our own
        [sys.executable, "-P", "-m", "ostler.storage", str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_CHECK_SECONDS,
        check=True,
    )
    return dict(json.loads(done.stdout))
