"""Write the files that are made from the code; with --check, only say which are stale."""

import argparse
import gc
import json
import sys
from pathlib import Path
from typing import Any, Final

from ostler.protocol.generate.openrpc import build_openrpc
from ostler.protocol.generate.reference import render_reference
from ostler.protocol.generate.schema import build_json_schema
from ostler.protocol.generate.typescript import render_typescript
from ostler.protocol.ids import SessionId
from ostler.tools.builtin import BUILT_IN
from ostler.tools.context import SessionView
from ostler.tools.tool import STORED_SCHEMAS, build_stored_schemas, load_stored_schemas
from scripts.house_picture import draw_house
from scripts.page_links import refresh_links
from scripts.prompt_page import refresh_costs
from scripts.terminal_page import fill_tables

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = ROOT / "docs"


def generate_files() -> dict[str, str]:
    """What each file should hold, by its path in the tree."""
    schemas = build_stored_schemas(BUILT_IN)
    load_stored_schemas().update(schemas)  # what describes the tools must not read a stale file
    return {
        "docs/house.svg": draw_house(ROOT),
        "docs/openrpc.json": _format_json(build_openrpc()),
        "docs/ostler.d.ts": render_typescript(),
        "docs/prompt.md": refresh_costs(DOCS / "prompt.md"),
        "docs/reference.md": render_reference(),
        "docs/schema.json": _format_json(build_json_schema()),
        "docs/terminal.md": fill_tables(DOCS / "terminal.md"),
        "docs/tools.json": _format_json(describe_tools()),
        "docs/walk.md": refresh_links(DOCS / "walk.md"),
        f"tools/ostler/tools/{STORED_SCHEMAS}": _format_json(schemas),
    }


def describe_tools() -> dict[str, Any]:
    """The schemas of the built-in tools by name: what each takes, and the `output` of its calls for clients."""
    session = SessionView(SessionId(""), "/", "/", (), "default", api_searches=True)
    return {
        tool.name: {
            "summary": tool.title,
            "input_schema": tool.input_schema(session),
            "output_schema": tool.output_schema,
        }
        for tool in BUILT_IN
        if tool.is_enabled(session)
    }


def _format_json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def find_stale_files(folder: Path) -> list[Path]:
    """The files below a folder that are missing, or do not hold what they should."""
    return [folder / name for name, text in generate_files().items() if _read_file(folder / name) != text.encode()]


def _read_file(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def write_files(folder: Path) -> None:
    for name, text in generate_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


def check_files(folder: Path) -> int:
    """The exit code: 1, and a line for each stale file, or silence."""
    stale = find_stale_files(folder)
    for file in stale:
        print(f"{file} is stale: run `make generate`", file=sys.stderr)
    return 1 if stale else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is stale")
    gc.disable()  # trees and schemas stay until the end: to look for garbage among them is a fifth of the work
    if parser.parse_args().check:
        return check_files(ROOT)
    write_files(ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
