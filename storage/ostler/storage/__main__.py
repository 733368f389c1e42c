"""`python -m ostler.storage FILE`: what `ostler doctor` asks about a database, as JSON. It writes nothing."""

import argparse
import sqlite3
import sys
from pathlib import Path
from typing import Final

import orjson

from ostler.storage.sqlite.check import find_obvious_damage

_MIN_SQLITE: Final = (3, 35, 0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m ostler.storage", description=__doc__)
    parser.add_argument("file", type=Path, help="the database, which need not exist")
    path = parser.parse_args().file
    found = {
        "sqlite": sqlite3.sqlite_version,
        "is_supported": sqlite3.sqlite_version_info >= _MIN_SQLITE,
        "damage": find_obvious_damage(path) if path.exists() else None,
    }
    sys.stdout.buffer.write(orjson.dumps(found) + b"\n")


if __name__ == "__main__":
    main()
