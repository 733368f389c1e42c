"""Markdown as rows of a terminal: whole, in pieces as it streams, and where it is more than there is room for."""

from hypothesis import given
from hypothesis import strategies as st

from ostler.clients.cli.render.blocks.markdown import MarkdownStream, iterate_fences, render_markdown
from ostler.clients.cli.render.blocks.rows import Row
from tests.support.tables import try_each

COLUMNS = 60
TEXT = """# Horses

A *brown* one and a **white** one, with `hay`.
They trot.

1. first
2. second
   - nested

> said somebody

| name | legs |
|------|------|
| Fury | 4    |

```python
def trot() -> None:
    pass

```

***

The end."""


def to_texts(rows: list[Row]) -> list[str]:
    return ["".join(run.text for run in row).rstrip() for row in rows]


def stream(text: str, sizes: list[int], columns: int = COLUMNS) -> list[str]:
    source, rows, at = MarkdownStream(), list[Row](), 0
    for size in [*sizes, len(text)]:
        source.feed(text[at : at + size])
        at += size
        rows += source.take_finished(columns)
        rows += source.take_overflow(columns, 4)
        source.render_growing(columns)
    return to_texts([*rows, *source.finish(columns)])


def test_each_kind_of_block_is_laid_out() -> None:
    shown = to_texts(render_markdown(TEXT, COLUMNS))
    for line in (
        "Horses",
        "A brown one and a white one, with hay.",
        "They trot.",
        " 1 first",
        "    • nested",
        "▌ said somebody",
        " Fury  4",
        "  def trot() -> None:",
        "The end.",
    ):
        assert line in shown, shown


@given(st.lists(st.integers(1, 60), max_size=30))
def test_in_whatever_pieces_it_comes_each_letter_is_written_once(sizes: list[int]) -> None:
    whole = "".join("".join(to_texts(render_markdown(TEXT, COLUMNS))).split())
    assert "".join("".join(stream(TEXT, sizes)).split()) == whole


def test_a_link_leads_only_where_it_is_safe() -> None:
    (row,) = render_markdown("[a](https://example.org/x) [b](javascript:alert) [c](file:///etc) ![d](x.png)", COLUMNS)
    assert {run.link for run in row} == {"", "https://example.org/x"}
    assert "".join(run.text for run in row) == "a [b](javascript:alert) [c](file:///etc) d"


@try_each(
    "text",
    [
        "a <b>bold</b> word",
        "<script>alert()</script>",
        ">" * 300 + " deep",
        "\x1b]0;title\x07 and \x1b[2J",
        "*unclosed and `unclosed",
        "[not a link](",
    ],
)
def test_nothing_that_is_said_gets_lost_or_acts(text: str) -> None:
    shown = "".join(to_texts(render_markdown(text, COLUMNS)))
    assert shown.isprintable()
    for word in ("bold", "alert", "deep", "title", "unclosed", "not a link"):
        assert (word in text) == (word in shown), shown


def test_code_without_an_end_stays_code_where_it_is_cut() -> None:
    lines = [f"*line* {number}" for number in range(3000)]
    shown = stream("```\n" + "\n".join(lines), [500] * 100)
    assert shown == [f"  {line}" for line in lines]


def test_blocks_of_code_are_found_for_the_clipboard() -> None:
    assert list(iterate_fences(TEXT)) == [("python", "def trot() -> None:\n    pass\n")]
