"""Write the files in docs/ that are made from the protocol models; with --check, only say which are stale."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from ostler.protocol.generate.openrpc import openrpc_document
from ostler.protocol.generate.reference import reference_page
from ostler.protocol.generate.schema import json_schema_document
from ostler.protocol.generate.typescript import typescript_types

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"


def generated() -> dict[str, str]:
    """What each file should hold."""
    return {
        "openrpc.json": _pretty(openrpc_document()),
        "ostler.d.ts": typescript_types(),
        "reference.md": reference_page(),
        "schema.json": _pretty(json_schema_document()),
    }


def _pretty(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def stale_files(folder: Path) -> list[Path]:
    """The files in a folder that are missing, or do not hold what they should."""
    return [folder / name for name, text in generated().items() if _held(folder / name) != text.encode()]


def _held(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def write_files(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in generated().items():
        (folder / name).write_bytes(text.encode())


def check_files(folder: Path) -> int:
    """The exit code: 1, and a line for each stale file, or silence."""
    stale = stale_files(folder)
    for file in stale:
        print(f"{file} is stale: run `make generate`", file=sys.stderr)
    return 1 if stale else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is stale")
    if parser.parse_args().check:
        return check_files(DOCS)
    write_files(DOCS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
