"""Pages that teach by doing: what such a page says is done to a copy of the repository, to the letter."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT

_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ROOMS: Final = ("protocol", "storage", "tools", "server", "clients")
_COMMAND_SECONDS: Final = 120.0


def follow(page: Path, folder: Path) -> list[str]:
    """Change a copy of the repository as a page says, and run its commands there; returns the commands."""
    copy = folder / "copy"
    _copy_repository(copy)
    done: list[str] = []
    for kind, text in _BLOCK.findall(page.read_text("utf-8")):
        match kind:
            case "diff":
                _change(copy, text)
            case "python":
                _create(copy, text)
            case "console":
                done += [_run(copy, command) for command in _list_commands(text)]
            case _:
                raise AssertionError(f"{page.name}: nobody knows what to do with a block of {kind}")
    return done


def _copy_repository(copy: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    (copy / ".venv").symlink_to(ROOT / ".venv")


def _change(copy: Path, text: str) -> None:
    """Lines without a sign and with a minus are looked for, and replaced by those without a sign and with a plus."""
    header, _, body = text.partition("\n")
    path = copy / header.removeprefix("--- ")
    lines = body.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] in " -")
    after = "".join(line[1:] for line in lines if line[0] in " +")
    content = path.read_text("utf-8")
    assert content.count(before) == 1, f"{header}: {content.count(before)} places look like\n{before}"
    path.write_text(content.replace(before, after), "utf-8")


def _create(copy: Path, text: str) -> None:
    header, _, body = text.partition("\n")
    path = copy / header.removeprefix("# ")
    assert not path.exists(), f"{path} exists already"
    path.write_text(body, "utf-8")


def _list_commands(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield line.removeprefix("$ ")


def _run(copy: Path, command: str) -> str:
    # The packages of the copy are found before those that are installed.
    path = os.pathsep.join(str(copy / room) for room in _ROOMS)
    ended = subprocess.run(
        command.split(),
        cwd=copy,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_COMMAND_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}"
    return command
