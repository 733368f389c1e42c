"""Finds instruction files (AGENTS.md, CLAUDE.md): what people wrote down for every agent that works in a folder."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from ostler.protocol.patterns import compile_later
from ostler.server.prompt.bounded_read import FileHead, Unreadable, read_beginning
from ostler.server.prompt.environment import find_git_root

FILE_NAMES: Final = ("AGENTS.md", "CLAUDE.md")
RULES: Final = os.path.join(".ostler", "rules")
"""A folder whose Markdown files count, too, in the order of their names."""
MAX_FILE_CHARS: Final = 40_000
MAX_ALL_CHARS: Final = 200_000
MAX_DEPTH: Final = 5
MAX_FILES: Final = 100
MAX_NOTES: Final = 20

_THREADS: Final = anyio.CapacityLimiter(4)
_BYTES_PER_CHAR: Final = 4
_FENCE: Final = compile_later(r"\s{0,3}(`{3,}|~{3,})")
_SPAN: Final = compile_later(r"``[^`]*``|`[^`]*`")
_IMPORT: Final = compile_later(r"(?<![\w@./-])@([\w.~/][\w.~/+-]*)")
_FILE_LIKE: Final = compile_later(r"(?:\.{0,2}/|~/).+|.+\.[A-Za-z]\w{0,9}$")


@dataclass(frozen=True, slots=True)
class InstructionFile:
    path: str
    text: str
    imported_by: str | None = None


@dataclass(frozen=True, slots=True)
class Instructions:
    """What was found, and what could not be taken."""

    files: tuple[InstructionFile, ...] = ()
    notes: tuple[str, ...] = ()


async def find_instructions(folder: str, *, config: Path, home: Path | None = None) -> Instructions:
    """The person's own (in their home and in `config`), then those from the repository's top down to `folder`."""
    search = await anyio.to_thread.run_sync(_run_search, folder, config, home, limiter=_THREADS, abandon_on_cancel=True)
    notes = search.notes[:MAX_NOTES]
    if len(search.notes) > MAX_NOTES:
        notes.append(f"There is more that could not be taken: {len(search.notes) - MAX_NOTES} files.")
    return Instructions(tuple(search.files), tuple(notes))


async def find_nested_instructions(folders: Sequence[str], top: str, *, config: Path) -> Instructions:
    """Those of folders below the session's, in which a file was read."""

    def run() -> Instructions:
        search = _Search(config, Path(os.path.expanduser("~")))
        for folder in folders:
            search.add_folder(Path(folder), (top,))
        return Instructions(tuple(search.files), tuple(search.notes[:MAX_NOTES]))

    return await anyio.to_thread.run_sync(run, limiter=_THREADS, abandon_on_cancel=True)


def _run_search(folder: str, config: Path, home: Path | None) -> "_Search":
    search = _Search(config, home or Path(os.path.expanduser("~")))
    search.collect_files(folder)
    return search


@dataclass(slots=True)
class _Search:
    config: Path
    home: Path
    files: list[InstructionFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    chars: int = 0
    _seen: set[str] = field(default_factory=set)

    def collect_files(self, folder: str) -> None:
        # What the person wrote may name any file of theirs; what came with a project only files of the project.
        own = (self.config / "AGENTS.md", *_list_rules(self.config / "rules"), self.home / ".claude" / "CLAUDE.md")
        for path in own:
            self._add_file(path, (str(self.home), str(self.config)))
        top = find_git_root(folder) or folder
        for at in _walk_down(Path(top), Path(folder)):
            self.add_folder(at, (top,))

    def add_folder(self, folder: Path, roots: tuple[str, ...]) -> None:
        for path in (*(folder / name for name in FILE_NAMES), *_list_rules(folder / RULES)):
            self._add_file(path, roots)

    def _add_file(self, path: Path, roots: tuple[str, ...], importers: tuple[Path, ...] = ()) -> None:
        """`importers`: the files that lead to it, the nearest last."""
        imported_by = str(importers[-1]) if importers else None
        if imported_by is None and not os.path.lexists(path):
            return
        try:
            found = read_beginning(str(path), roots, MAX_FILE_CHARS * _BYTES_PER_CHAR)
        except Unreadable as problem:
            self.notes.append(f"{path} {problem}{f' (named in {imported_by})' if imported_by else ''}.")
            return
        text = self._limit_text(path, found) if self._is_new(found) else ""
        if not text:
            return
        self.files.append(InstructionFile(str(path), text, imported_by))
        for named in _find_imports(text):
            self._import(named, roots, (*importers, path))

    def _import(self, named: str, roots: tuple[str, ...], importers: tuple[Path, ...]) -> None:
        importer = importers[-1]
        path = self.home / named[2:] if named.startswith("~/") else importer.parent / named
        if not os.path.exists(path) and not _FILE_LIKE.match(named):
            return  # `@someone`, `@decorator`: no file is meant
        if os.path.realpath(path) in map(os.path.realpath, importers):
            self.notes.append(f"{path} imports itself, by way of {importer}: it was taken once.")
        elif len(importers) > MAX_DEPTH:
            self.notes.append(f"{path} was left out: imports go {MAX_DEPTH} files deep.")
        else:
            self._add_file(path, roots, importers)

    def _is_new(self, found: FileHead) -> bool:
        """Not one that was taken already, under this name or another."""
        content = hashlib.sha256(found.text.strip().encode("utf-8", "replace")).hexdigest()
        known = {found.path, content} & self._seen
        self._seen |= {found.path, content}
        return not known and bool(found.text.strip())

    def _limit_text(self, path: Path, found: FileHead) -> str:
        limit = min(MAX_FILE_CHARS, MAX_ALL_CHARS - self.chars)
        if limit <= 0 or len(self.files) >= MAX_FILES:
            self.notes.append(f"{path} was left out: the instruction files are too long together.")
            return ""
        text = found.text.strip()
        if len(text) > limit or not found.whole:
            text = text[:limit].rpartition("\n")[0] or text[:limit]
            self.notes.append(f"{path} was cut after {len(text):,} characters.")
        self.chars += len(text)
        return text


def _list_rules(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".md")
    except OSError:
        return []


def _walk_down(top: Path, folder: Path) -> Iterator[Path]:
    yield top
    for at, _ in enumerate(folder.relative_to(top).parts, 1):
        yield top.joinpath(*folder.relative_to(top).parts[:at])


def _find_imports(text: str) -> Iterator[str]:
    """The paths after an `@`, but not in code."""
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) and not line.strip(f" {fence[0]}") else fence
        elif mark:
            fence = mark[1]
        else:
            for found in _IMPORT.finditer(_SPAN.sub(" ", line)):
                if path := found[1].rstrip("."):
                    yield path
