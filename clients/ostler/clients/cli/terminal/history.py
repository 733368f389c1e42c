"""The history of what was sent: in a file of its own for each folder, so that it is there the next time."""

import hashlib
import json
import os
from pathlib import Path
from typing import Final

_MOST_LINES: Final = 1000
_LONGEST_LINE: Final = 20_000


class History:
    """The lines that were sent, the newest last, and the place in them while somebody looks through."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self.lines: list[str] = _read_lines(file) if file is not None else []
        self._at = len(self.lines)
        self._draft = ""
        """What was being typed when an older line was brought back."""

    def add(self, line: str) -> None:
        if line.strip() and (not self.lines or self.lines[-1] != line):
            self.lines = [*self.lines[-_MOST_LINES:], line]
            self._append(line)
        self.leave()

    def leave(self) -> None:
        """Look through it from the newest again."""
        self._at = len(self.lines)

    def older(self, draft: str) -> str | None:
        if self._at == len(self.lines):
            self._draft = draft
        return self._go(self._at - 1)

    def newer(self) -> str | None:
        return self._go(self._at + 1)

    def _go(self, place: int) -> str | None:
        if not 0 <= place <= len(self.lines):
            return None
        self._at = place
        return self.lines[place] if place < len(self.lines) else self._draft

    def _append(self, line: str) -> None:
        if self._file is None or len(line) > _LONGEST_LINE:
            return
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with open(descriptor, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError:
            self._file = None  # a chat goes on without


class Search:
    """Looking for something in the history, from the newest line on."""

    def __init__(self, history: History) -> None:
        self._lines = history.lines
        self.query = ""
        self._at = len(self._lines)

    @property
    def found(self) -> str | None:
        return self._lines[self._at] if 0 <= self._at < len(self._lines) else None

    def look_for(self, query: str) -> None:
        self.query, self._at = query, len(self._lines)
        self.find_older()

    def find_older(self) -> None:
        wanted = self.query.casefold()
        at = next((at for at in range(self._at - 1, -1, -1) if wanted and wanted in self._lines[at].casefold()), None)
        if at is not None:
            self._at = at


def find_history_file(home: Path, folder: str) -> Path:
    """Where the history of a folder is kept."""
    name = hashlib.sha256(os.path.realpath(folder).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return home / "history" / f"{name}.jsonl"


def _read_lines(file: Path) -> list[str]:
    """The newest lines; one that cannot be read is left out."""
    try:
        raw = file.read_bytes().splitlines()[-_MOST_LINES:]
    except OSError:
        return []
    lines: list[str] = []
    for one in raw:
        try:
            line = json.loads(one)
        except ValueError:
            continue
        if isinstance(line, str) and (not lines or lines[-1] != line):
            lines.append(line)
    return lines
