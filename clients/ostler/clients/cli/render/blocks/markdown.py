"""Markdown as rows, while it still streams in: blocks that are finished, and the one that grows.

rich lays the blocks out; it is imported with this module, so only what draws on a terminal imports it.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from ostler.clients.cli.output import sanitize
from ostler.clients.cli.render.blocks.rows import EMPTY_ROW, Row, Run, fit_row, wrap_text
from ostler.clients.cli.render.text_width import TAB

_LONGEST_BLOCK: Final = 6_000
"""A block of more characters is cut: what streams is laid out again for each frame."""
_MIN_COLUMNS: Final = 16
"""On fewer, text is only wrapped."""
_SAFE_LINKS: Final = ("http://", "https://", "mailto:")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)")
_SGR: Final = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7", "strike": "9"}


class _PlainHeading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text
        text.justify = "left"
        text.stylize(Style(bold=True, color="cyan", underline=self.tag == "h1"))
        yield text


class _PlainCode(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        shown = Syntax(code, self.lexer_name, theme="ansi_dark", word_wrap=True, background_color="default")
        for line in console.render_lines(shown, options.update(width=max(1, options.max_width - 2)), pad=False):
            yield Text("  ", end="")
            yield from line
            yield Text("")


class _Markdown(Markdown):
    elements: ClassVar[dict[str, Any]] = {
        **Markdown.elements,
        "heading_open": _PlainHeading,
        "fence": _PlainCode,
        "code_block": _PlainCode,
    }

    def __init__(self, source: str) -> None:
        super().__init__("", hyperlinks=True)
        self.parsed = _parse(source)


@dataclass(slots=True)
class MarkdownStream:
    """One text of the model's: what is finished of it is given out once."""

    source: str = ""
    """What has come and is not finished."""
    _begun: bool = False
    """A block was given out: an empty row comes before the next one."""
    _joins: bool = False
    """A block was cut because it is so long: what comes next goes on with it."""
    _taken: int = 0
    """The letters of the growing block that were given out already, because it outgrew the screen."""
    _cache: tuple[str, int, list[Row]] = field(default=("", 0, []))

    def feed(self, text: str) -> None:
        self.source += text

    def take_finished(self, columns: int) -> list[Row]:
        """The rows of the blocks after which another one has begun."""
        finished: list[Row] = []
        while (end := find_block_end(self.source)) is not None:
            block, self.source = self.source[:end], self.source[end:]
            cut = end > _LONGEST_BLOCK // 2 and _is_cut(block, self.source)
            if cut and (fence := _FENCE.match(block)) is not None:
                self.source = f"{block[: fence.end()]}\n{self.source}"
            finished += self._finish(block, columns)
            self._joins = cut
        return finished

    def finish(self, columns: int) -> list[Row]:
        """The rows of all that is left: nothing more comes."""
        finished = self.take_finished(columns)
        rest, self.source = self.source, ""
        return [*finished, *(self._finish(rest, columns) if rest.strip() else [])]

    def take_overflow(self, columns: int, most: int) -> list[Row]:
        """The first rows of a growing block that is higher than there is room for."""
        rows = self.render_growing(columns)
        over = rows[: max(0, len(rows) - most)]
        self._taken += sum(map(_count_letters, over))
        if over:
            self._begun = True
        return over

    def render_growing(self, columns: int) -> list[Row]:
        """The rows of the block that still grows, as far as they were not given out."""
        if not self.source.strip():
            return []
        if self._cache[:2] != (self.source, columns):
            self._cache = (self.source, columns, render_markdown(self.source, columns))
        return self._leave_out_taken(self._cache[2])

    def _finish(self, block: str, columns: int) -> list[Row]:
        rows = self._leave_out_taken(render_markdown(block, columns))
        self._taken = 0
        if rows:
            self._begun = True
        return rows

    def _leave_out_taken(self, rows: list[Row]) -> list[Row]:
        """By the letters and not by the rows: the terminal may be wider or narrower than it was."""
        if not self._taken:
            return [EMPTY_ROW, *rows] if self._begun and rows and not self._joins else rows
        left = self._taken
        for at, row in enumerate(rows):
            if left <= 0:
                return rows[at:]
            left -= _count_letters(row)
        return []


def render_markdown(source: str, columns: int) -> list[Row]:
    """A text as rows: headings, lists, tables, code, links."""
    source = sanitize(source).replace("\t", TAB)
    if columns < _MIN_COLUMNS:
        return wrap_text(source.strip("\n"), columns)
    console = Console(
        width=columns,
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
        emoji=False,
        markup=False,
        highlight=False,
        theme=_THEME,
        _environ={},
    )
    lines = console.render_lines(_Markdown(source), console.options, pad=False)
    rows = [_make_row(line, columns) for line in lines]
    while rows and not _count_letters(rows[-1]):
        rows.pop()
    first = next((at for at, row in enumerate(rows) if _count_letters(row)), 0)
    if not rows and source.strip():  # nested so deeply that nothing of it is laid out
        return wrap_text(source.strip("\n"), columns)
    return rows[first:]


def find_block_end(source: str) -> int | None:
    """Where the first block is over and another one begins; None while it may still grow."""
    starts = [token.map[0] for token in _parse(source) if token.level == 0 and token.map and token.nesting >= 0]
    if len(starts) > 1:
        return _find_line(source, starts[1])
    return _cut_long_block(source) if len(source) > _LONGEST_BLOCK else None


def _is_cut(block: str, rest: str) -> bool:
    """Whether the two are one block: with another one behind it, the first would have ended there."""
    starts = [token.map[0] for token in _parse(block + rest[:200]) if token.level == 0 and token.map]
    return max(starts, default=0) < block.count("\n")


def _cut_long_block(source: str) -> int:
    """Where a block that does not end is cut: at the end of a line, else between words, else anywhere."""
    for sign in ("\n", " "):
        at = source.rfind(sign, _LONGEST_BLOCK // 2, _LONGEST_BLOCK)
        if at > 0:
            return at + 1
    return _LONGEST_BLOCK


def _parse(source: str) -> list[Token]:
    tokens = _PARSER.parse(source)
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":  # models mean the lines that they write
                child.type = "hardbreak"
            elif child.type == "link_open" and not str(child.attrs.get("href", "")).startswith(_SAFE_LINKS):
                child.attrs["href"] = ""
            elif child.type == "image":  # rich would show its words before the sentence that it stands in
                child.type, child.content = "text", child.content or str(child.attrs.get("src", ""))
    return tokens


_PARSER: Final = MarkdownIt().enable("strikethrough").enable("table").disable(["html_block", "html_inline"])


_THEME: Final = Theme(
    {"markdown.code": "cyan", "markdown.item.bullet": "cyan", "markdown.block_quote": "italic", "markdown.hr": "dim"}
)


def _find_line(source: str, number: int) -> int:
    at = 0
    for _ in range(number):
        at = source.index("\n", at) + 1
    return at


def _make_row(line: Any, columns: int) -> Row:
    runs: list[Run] = []
    for segment in line:
        if segment.control or not segment.text:
            continue
        run = Run(segment.text.rstrip("\n"), *_read_style(segment.style))
        if runs and runs[-1][1:] == run[1:]:
            runs[-1] = run._replace(text=runs[-1].text + run.text)
        else:
            runs.append(run)
    while runs and not runs[-1].text.rstrip() and not runs[-1].role:
        runs.pop()
    if runs and not runs[-1].role:
        runs[-1] = runs[-1]._replace(text=runs[-1].text.rstrip())
    return fit_row((run for run in runs if run.text), columns)


def _read_style(style: Style | None) -> tuple[str, str]:
    if style is None:
        return "", ""
    names = [code for name, code in _SGR.items() if getattr(style, name)]
    colours = [
        code
        for colour, foreground in ((style.color, True), (style.bgcolor, False))
        if colour is not None and not colour.is_default
        for code in colour.get_ansi_codes(foreground)
    ]
    link = style.link or ""
    return ";".join([*names, *colours]), link if link.isprintable() and link.startswith(_SAFE_LINKS) else ""


def _count_letters(row: Row) -> int:
    return sum(1 for run in row for char in run.text if not char.isspace())


def iterate_fences(source: str) -> Iterator[tuple[str, str]]:
    """The blocks of code in a text, each with its language: for /copy."""
    fence, language, lines = "", "", list[str]()
    for line in source.split("\n"):
        if fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            yield language, "\n".join(lines)
            fence = ""
        elif fence:
            lines.append(line)
        elif found := _FENCE.match(line):
            fence, language, lines = found[1], found[2], []
