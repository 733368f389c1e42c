"""A persisted result, by the command and by the SDK."""

import pytest

from ostler.clients import connect
from ostler.protocol.errors import ResultNotFound
from ostler.protocol.ids import ResultId
from ostler.protocol.methods import RESULT_READ, RESULT_SEARCH
from ostler.protocol.result import ResultRead, ResultSearch
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon

WHOLE = "\n".join(str(number) for number in range(1, 20_001))


@pytest.fixture
def result_id(rehearsal_daemon: Daemon) -> str:
    """Of a command that printed much."""
    return _store_result(rehearsal_daemon, "seq 1 20000")


def _store_result(daemon: Daemon, command: str) -> str:
    ran = daemon.call("run", cwd=str(daemon.home.parent), input=f"run {command}", rules={"allow": ["Bash"]})
    assert ran["turn"]["reason"] == "completed", ran
    messages = daemon.call("session/messages", session_id=ran["session_id"])["messages"]
    [shown] = [block for one in messages for block in one["content"] if block["type"] == "tool_result"]
    return str(shown["content"][0]["text"].partition("result://")[2].partition("\n")[0])


@pytest.mark.parametrize("prefix", ["", "result://"])
def test_show_prints_all_of_a_result(rehearsal_cli: Cli, result_id: str, prefix: str) -> None:
    shown = rehearsal_cli.run("show", f"{prefix}{result_id}")
    assert (shown.code, shown.out, shown.err) == (0, WHOLE, "")


def test_show_gives_a_result_as_json(rehearsal_cli: Cli, result_id: str) -> None:
    shown = rehearsal_cli.run("show", result_id, "--format", "json")
    assert shown.json == {"result_id": result_id, "total_chars": len(WHOLE), "content": WHOLE}


def test_a_result_cannot_steer_the_terminal(rehearsal_cli: Cli, rehearsal_daemon: Daemon) -> None:
    # The command itself: what a call printed has lost its colours already, and a sign that turns text around has not.
    result_id = _store_result(rehearsal_daemon, r"yes $'a\u202eb' | head -n 20000")
    shown = rehearsal_cli.run_in_terminal("show", result_id).out
    assert shown.startswith("a\\u202eb\na\\u202eb\n")
    assert "\u202e" not in shown


def test_an_unknown_result_is_one_line(rehearsal_cli: Cli) -> None:
    failed = rehearsal_cli.run("show", "r_none")
    assert (failed.code, failed.out, failed.err) == (1, "", "ostler: There is no result 'r_none'.\n")


@pytest.mark.anyio
async def test_the_sdk_downloads_reads_and_searches(rehearsal_daemon: Daemon, result_id: str) -> None:
    async with connect(str(rehearsal_daemon.home)) as ostler:
        async with ostler.result(result_id) as chunks:
            assert b"".join([chunk async for chunk in chunks]).decode() == WHOLE
        part = await ostler.call(RESULT_READ, ResultRead(result_id=ResultId(result_id), limit_chars=10))
        assert (part.content, part.next_offset) == (WHOLE[:10], 10)
        found = await ostler.call(RESULT_SEARCH, ResultSearch(result_id=ResultId(result_id), pattern="^20000$"))
        assert [(line.line, line.text) for line in found.lines] == [(20_000, "20000")]
        with pytest.raises(ResultNotFound):
            async with ostler.result("../r_none"):
                pass
