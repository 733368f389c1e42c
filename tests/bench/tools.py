"""Measures the tools used most, each beside a bare program that does the same work in this run."""

import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import anyio

from ostler.tools.discovery.tool_search import ToolSearch
from ostler.tools.files.edit import Edit
from ostler.tools.files.read import Read
from ostler.tools.search import ripgrep
from ostler.tools.search.glob import Glob
from ostler.tools.search.grep import Grep
from ostler.tools.services import DeferredTool
from ostler.tools.shell.bash import Bash
from ostler.tools.tool import AnyTool, Block
from tests.bench.processes import Bench
from tests.bench.table import Row
from tests.support.many_tools import make_tool
from tests.support.tool_calls import Session

_MAX_RATIO: Final = 1.3
_DENSE_MS: Final = 20.0
_READS_MS: Final = 5.0
_BASH_MS: Final = 5.0
_EDIT_MS: Final = 100.0
_EDITED_BYTES: Final = 5_000_000
_PDF_MS: Final = 1000.0
_FIRST_LINES: Final = 250
_DISCOVERY_MS: Final = 5.0
_DEFERRED_TOOLS: Final = 1_000
_READS: Final = 10

Work = Callable[[], Awaitable[object]]


def measure_search(bench: Bench) -> list[Row]:
    """Grep and Glob in a large tree, and a match on nearly every line, which ends at its limit."""
    tree = _make_tree(bench)
    session = _open_session(bench, tree)
    rounds = max(1, bench.sizes.searches // 3)
    grep = _build_bare_rg("--files-with-matches", "-e", "needle", str(tree))
    files = _build_bare_rg("--files", "--glob=*.py", str(tree))
    return [
        _measure_row(
            "Grep in a tree of files", _build_call(session, Grep(), pattern="needle"), grep, rounds, ratio=_MAX_RATIO
        ),
        _measure_row(
            "Glob in a tree of files",
            _build_call(session, Glob(), pattern="**/*.py"),
            _build_newest_first(files),
            rounds,
            ratio=_MAX_RATIO,
        ),
        _measure_row(
            "Grep, the first 250 lines of a dense match",
            _build_call(session, Grep(), pattern="line", output_mode="content"),
            _build_first_lines(tree),
            rounds,
            over=_DENSE_MS,
        ),
    ]


def measure_files_and_shell(bench: Bench) -> list[Row]:
    session = _open_session(bench, bench.folder / "worked-on")
    rounds = bench.sizes.searches
    return [
        _measure_ten_reads(session, rounds),
        _measure_row(
            "Bash `true`, the tool alone",
            _build_call(session, Bash(), command="true"),
            _run_true,
            rounds,
            over=_BASH_MS,
        ),
        _measure_edit(session, rounds),
        _measure_pdf_page(bench, session, rounds),
        _measure_tool_search(session, rounds),
    ]


def _open_session(bench: Bench, folder: Path) -> Session:
    folder.mkdir(parents=True, exist_ok=True)
    outputs = bench.folder / "outputs"
    return Session(folder.resolve(), outputs)


def _make_tree(bench: Bench) -> Path:
    """Many small files, of which one in a hundred contains the pattern."""
    tree = bench.folder / "tree"
    if tree.exists():
        return tree
    lines = b"".join(b"line %d of a file\n" % number for number in range(20))
    per_folder = 250
    for number in range(0, bench.sizes.tree_files, per_folder):
        folder = tree / f"part{number // per_folder // 20}" / f"folder{number}"
        folder.mkdir(parents=True)
        for place in range(per_folder):
            ending = "py" if place % 2 else "txt"
            last_line = b"needle\n" if place % 100 == 0 else b""
            # Not with pathlib: making the tree would take longer than all the searches.
            descriptor = os.open(f"{folder}/file{place}.{ending}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            os.write(descriptor, lines + last_line)
            os.close(descriptor)
    return tree


def _build_call(session: Session, tool: AnyTool, **arguments: Any) -> Work:
    return lambda: session.expect_result(tool, **arguments)


def _measure_row(
    name: str,
    ours: Work,
    bare: Work,
    rounds: int,
    *,
    ratio: float | None = None,
    over: float | None = None,
    aim: float | None = None,
) -> Row:
    """Ours and bare in turn, so that a busy moment of the machine slows both."""
    samples, floors = anyio.run(_time_rounds, ours, bare, rounds)
    floor = median(floors)
    if ratio is not None:
        aim = floor * ratio
    elif over is not None:
        aim = floor + over
    return Row(name, "ms", median(samples), floor, aim, samples=samples)


async def _time_rounds(ours: Work, bare: Work, rounds: int) -> tuple[list[float], list[float]]:
    samples: list[float] = []
    floors: list[float] = []
    for number in range(rounds + 1):
        for work, into in ((ours, samples), (bare, floors)):
            began = time.perf_counter()
            await work()
            if number:  # the first one warms up
                into.append((time.perf_counter() - began) * 1000)
    return samples, floors


# Floors.


def _build_bare_rg(*arguments: str) -> Work:
    command = [ripgrep.find_ripgrep(), "--no-config", "--hidden", "--no-require-git", *arguments]

    async def work() -> bytes:
        return (await anyio.run_process(command, check=False)).stdout

    return work


def _build_newest_first(files: Work) -> Work:
    async def work() -> None:
        output = await files()
        assert isinstance(output, bytes)
        sorted(output.split(b"\n")[:-1], key=lambda path: os.stat(path).st_mtime_ns, reverse=True)

    return work


def _build_first_lines(tree: Path) -> Work:
    command = [ripgrep.find_ripgrep(), "--no-config", "--line-number", "-e", "line", str(tree)]

    async def work() -> None:
        await anyio.to_thread.run_sync(lambda: _read_lines(command))

    return work


def _read_lines(command: list[str]) -> None:
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        for _ in range(_FIRST_LINES):
            running.stdout.readline()
        running.kill()


async def _run_true() -> None:
    await anyio.run_process(["bash", "-c", "true"])


# Measures with a preparation of their own.


def _measure_ten_reads(session: Session, rounds: int) -> Row:
    """Ten in parallel, against the slowest of ten one after another."""
    paths = []
    for number in range(_READS * (rounds + 1) * 2):
        path = session.folder / f"read{number}.txt"
        path.write_text("".join(f"line {line}\n" for line in range(1000)))
        paths.append(str(path))
    unread_paths = iter(paths)

    async def together() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(_READS):
                group.start_soon(_read, session, next(unread_paths))

    slowest: list[float] = []

    async def alone() -> None:
        took: list[float] = []
        for _ in range(_READS):
            began = time.perf_counter()
            await _read(session, next(unread_paths))
            took.append((time.perf_counter() - began) * 1000)
        slowest.append(max(took))

    samples, _ = anyio.run(_time_rounds, together, alone, rounds)
    floor = median(slowest[1:])
    name = "ten Reads beside each other, against the slowest"
    return Row(name, "ms", median(samples), floor, floor + _READS_MS, samples=samples)


@dataclass(frozen=True, slots=True)
class _ManyTools:
    """As the session's: described anew for each call."""

    session: Session
    tools: Sequence[AnyTool]

    def list_tools(self) -> list[DeferredTool]:
        view = self.session.view
        return [DeferredTool(tool.name, tool.description(view), tool.search_hint) for tool in self.tools]

    def load(self, names: Sequence[str]) -> list[Block]:
        return [{"type": "tool_reference", "tool_name": name} for name in names]


def _measure_tool_search(session: Session, rounds: int) -> Row:
    """Among a thousand tools, with words that many of them have; the floor looks for the words in the same texts."""
    discovery = _ManyTools(session, [make_tool(number) for number in range(_DEFERRED_TOOLS)])
    given = {"query": "find a horse in the yard"}

    async def ours() -> None:
        await session.call(ToolSearch(), given, session.make_context(discovery=discovery))

    async def bare() -> None:
        for tool in discovery.list_tools():
            text = f"{tool.name} {tool.hint} {tool.description}".lower()
            [word in text for word in given["query"].split()]

    name = f"ToolSearch among {_DEFERRED_TOOLS:,} tools"
    return _measure_row(name, ours, bare, rounds, aim=_DISCOVERY_MS)


async def _read(session: Session, path: str) -> None:
    await session.expect_result(Read(), file_path=path)


def _measure_edit(session: Session, rounds: int) -> Row:
    path = session.folder / "large.txt"
    line = "the mare stands in box %06d\n"
    count = _EDITED_BYTES // len(line % 0)
    path.write_text("".join(line % number for number in range(count)))
    bare = session.folder / "bare.txt"
    bare.write_text(path.read_text())
    numbers = iter(range(count // 2, count))
    others = iter(range(count // 2, count))

    async def ours() -> None:
        if session.reads.get(str(path)) is None:
            await session.expect_result(Read(), file_path=str(path), limit=10)
        number = next(numbers)
        await session.expect_result(
            Edit(), file_path=str(path), old_string=f"box {number:06d}", new_string=f"BOX {number:06d}"
        )

    async def floor() -> None:
        await anyio.to_thread.run_sync(_rewrite, bare, next(others))

    return _measure_row("Edit of a file of 5 MB", ours, floor, rounds, aim=_EDIT_MS)


def _rewrite(path: Path, number: int) -> None:
    data = path.read_bytes().replace(b"box %06d" % number, b"BOX %06d" % number)
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


def _measure_pdf_page(bench: Bench, session: Session, rounds: int) -> Row:
    pages = bench.sizes.pdf_pages
    path = session.folder / "long.pdf"
    path.write_bytes(build_pdf(pages))
    wanted = pages * 3 // 4

    async def ours() -> None:
        session.reads.by_path.clear()
        await session.expect_result(Read(), file_path=str(path), pages=str(wanted))

    async def floor() -> None:
        await anyio.to_thread.run_sync(_read_page_text, path, wanted)

    return _measure_row(f"Read, page {wanted:,} of a PDF of {pages:,}", ours, floor, max(3, rounds // 3), aim=_PDF_MS)


def _read_page_text(path: Path, page: int) -> str:
    # Imported here: only this floor needs it.
    import pypdfium2

    document = pypdfium2.PdfDocument(path)
    try:
        text: str = document[page - 1].get_textpage().get_text_range()
        return text
    finally:
        document.close()


def build_pdf(pages: int) -> bytes:
    """A document with a line of text on each page."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for number in range(pages):
        stream = b"BT /F1 24 Tf 72 720 Td (This is page %d) Tj ET" % (number + 1)
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        kids.append(len(objects) + 1)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R"
            b" /Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (pages, b" ".join(b"%d 0 R" % kid for kid in kids))
    return _assemble_pdf(objects)


def _assemble_pdf(objects: list[bytes]) -> bytes:
    written = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, content in enumerate(objects, 1):
        offsets.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = len(written)
    written += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    written += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    written += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(written)
