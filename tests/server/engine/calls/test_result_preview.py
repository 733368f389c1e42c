"""The placeholder that the model gets instead of a text that is too long."""

from ostler.protocol.ids import ResultId
from ostler.server.engine.calls.result_limits import build_placeholder
from ostler.tools.search.grep import Grep
from ostler.tools.shell.bash import Bash
from ostler.tools.tool import AnyTool
from tests.support.tables import try_each

HEAD = "<persisted-output>\nOutput too large ({size} KB). Full output saved to: result://r_8f3k2m1q\n"


def render_placeholder(tool: AnyTool | None, text: str) -> str:
    block = build_placeholder(tool, text, ResultId("r_8f3k2m1q"))
    assert block["type"] == "text"
    return str(block["text"])


def test_the_form_is_always_the_same() -> None:
    text = render_placeholder(Grep(), "x" * (245 * 1024))
    assert text == HEAD.format(size="245.0") + f"Preview (first 2.0 KB):\n{'x' * 2000}\n…\n</persisted-output>"
    assert render_placeholder(None, "x" * (245 * 1024)) == text


def test_the_size_is_in_bytes() -> None:
    assert "(8.0 KB)" in render_placeholder(Grep(), "ü" * 4096)
    assert "(0.2 KB)" in render_placeholder(Grep(), "\ud800" * 205)


@try_each(("newline", "length"), [(999, 2000), (1000, 1000), (1500, 1500), (1999, 1999), (2000, 2000), (2001, 2000)])
def test_the_preview_ends_at_a_newline_between_its_half_and_its_end(newline: int, length: int) -> None:
    text = "x" * newline + "\n" + "y" * 10_000
    preview = render_placeholder(Grep(), text).split("KB):\n", 1)[1].removesuffix("\n…\n</persisted-output>")
    assert preview == text[:length]


def test_a_command_shows_its_first_and_its_last_kilobyte() -> None:
    text = "a" * 700 + "\n" + "b" * 10_000 + "\n" + "c" * 700
    assert render_placeholder(Bash(), text) == (
        HEAD.format(size="11.1") + f"First and last 1.0 KB:\n{'a' * 700}\n…\n{'c' * 700}\n</persisted-output>"
    )
    assert render_placeholder(Bash(), "z" * 5000).count("z") == 2000
