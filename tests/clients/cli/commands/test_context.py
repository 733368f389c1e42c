"""`ostler context` and `ostler usage`: numbers and plain bars."""

from pathlib import Path

from ostler.clients.cli.render.context import format_bars, format_context, format_usage
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon


def test_a_session_shows_its_window_and_its_usage(cli: Cli, daemon: Daemon, project: Path) -> None:
    session = daemon.call("session/create", cwd=str(project))["id"]
    daemon.call("run", session_id=session, input="run seq 1 300")
    shown = cli.run("context", "--session", session).out.splitlines()
    assert shown[0].startswith("rehearsal: ")
    assert [line.split()[0] for line in shown[1:-1]] == [
        "prompt", "tools", "instructions", "memory", "skills", "messages", "results", "thinking", "free",
    ]  # fmt: skip
    assert "#" in shown[-2]
    found = cli.run("context", "--session", session, "--format", "json").json
    assert found["used"] == sum(part["tokens"] for part in found["parts"])
    used = cli.run("usage", "--cwd", str(project)).out
    assert "In all" in used
    assert "Bash x1" in used
    assert cli.run("usage", "--session", session, "--format", "json").json["by_tool"][0]["calls"] == 1


def test_a_conversation_is_compacted_by_request(cli: Cli, daemon: Daemon, project: Path) -> None:
    session = daemon.call("session/create", cwd=str(project))["id"]
    for _ in range(2):
        daemon.call("run", session_id=session, input="run seq 1 4000")
    done = cli.run("compact", "keep", "the", "numbers", "--session", session).out
    assert done.startswith("Compacted: ")
    before, after = (int(word.replace(",", "")) for word in done.split() if word.replace(",", "").isdigit())
    assert after < before
    shown = cli.run("show", session).out
    assert "compacted here; the model goes on with" in shown
    assert "The person asked for:\n- run seq 1 4000" in shown
    assert "## Compacted here" in daemon.call("session/export", session_id=session)["content"]
    again = cli.run("compact", "--session", session)
    assert again.code == 1


def test_bars_are_drawn_by_share() -> None:
    full, small, empty = format_bars([("a", 100), ("b", 1), ("c", 0)], 100)
    assert (full.count("#"), small.count("#"), empty.count("#")) == (40, 1, 0)


def test_what_a_provider_named_cannot_steer_the_terminal() -> None:
    zero = {"input_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "output_tokens": 9, "cost_usd": None}
    parts = {"total": zero, "by_model": [{"model": "a\x1b[2J", **zero}], "by_agent": [], "by_tool": []}
    assert not any("\x1b" in line for line in format_usage({**parts, "today": parts}))
    found = {"model": "\x1b]", "window": 10, "used": 5, "free": 5, "compact_at": 9, "estimated": False, "parts": []}
    assert not any("\x1b" in line for line in format_context(found))
