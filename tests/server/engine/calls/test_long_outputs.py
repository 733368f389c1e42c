"""A command that prints much: all of it is the result, whatever happens while it is stored."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from ostler.protocol.ids import ResultId
from ostler.server.engine.calls.result_limits import build_placeholder
from ostler.server.engine.calls.store_result import TextPacker
from ostler.storage.repositories.results import Piece
from ostler.tools.formats.terminal_text import clean_for_model
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.output.full_output import FullOutput
from ostler.tools.shell.output.output_file import decode_output
from ostler.tools.shell.powershell import PowerShell
from ostler.tools.shell.result import ShellOutput
from tests.server.engine.turn.test_stale_files import ALLOW
from tests.support.background_commands import build_wait_command
from tests.support.crash import CrashSession
from tests.support.daemon import Daemon, wait_until
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, bash, run_scripted_turn

ALLOWED: Final = {"allow": ["Bash"]}
NUMBERED: Final = "seq -f '%099.0f' 1 30000"
WHOLE: Final = "\n".join(f"{number:099}" for number in range(1, 30_001))
MB: Final = 1024 * 1024
SLOW: Final = "head -c 45000000 /dev/urandom | base64 -w 99"
"""Sixty megabytes that cannot be packed well: they take seconds to store."""


def run_command(harness: Harness, command: str) -> tuple[SessionDriver, Json]:
    """A session in which a command has run, and its call."""
    driver = harness.open_session(message(calls("Bash", {"command": command})), otherwise=DONE, rules=ALLOWED)
    driver.run_turn()
    call: Json = driver.list_event_data("tool.completed")[0]["call"]
    return driver, call


def join_content_text(call: Json) -> str:
    return "".join(block["text"] for block in call["content"])


def read_all_pages(daemon: Daemon, result_id: str) -> str:
    parts: list[str] = []
    offset: int | None = 0
    while offset is not None:
        part = daemon.call("result/read", result_id=result_id, offset_chars=offset, limit_chars=777_777)
        parts.append(part["content"])
        offset = part["next_offset"]
    return "".join(parts)


def search_all_pages(daemon: Daemon, result_id: str, pattern: str) -> Iterator[Json]:
    offset: int | None = 0
    while offset is not None:
        page = daemon.call("result/search", result_id=result_id, pattern=pattern, offset=offset, limit=10_000)
        yield from page["lines"]
        offset = page["next_offset"]


def list_stored_results(home: Path) -> set[str]:
    """The results of which something is stored, known or not."""
    with contextlib.closing(sqlite3.connect(home / "ostler.db", timeout=10)) as connection:
        return {row[0] for row in connection.execute("SELECT DISTINCT result_id FROM result_pieces")}


def wait_for_partial_result(home: Path, before: set[str]) -> str:
    """The result that is on its way: some of it is stored, and nobody knows of it."""
    new: set[str] = set()

    def begun() -> bool:
        new.update(list_stored_results(home) - before)
        return bool(new)

    wait_until(begun)
    return new.pop()


# All of it.


def test_every_line_of_three_megabytes_is_read_and_found(harness: Harness) -> None:
    _, call = run_command(harness, NUMBERED)
    assert read_all_pages(harness.daemon, call["result_id"]) == WHOLE
    lines = [(line["line"], line["text"]) for line in search_all_pages(harness.daemon, call["result_id"], "^0*[0-9]+$")]
    assert lines == [(number, f"{number:099}") for number in range(1, 30_001)]
    assert harness.daemon.send_http("GET", f"/results/{call['result_id']}").body == WHOLE.encode()


def test_the_model_is_told_the_size_of_all_of_it_with_its_beginning_and_its_end(harness: Harness) -> None:
    _, call = run_command(harness, NUMBERED)
    lines = WHOLE.split("\n")
    assert join_content_text(call) == (
        f"<persisted-output>\nOutput too large ({len(WHOLE) / 1024:.1f} KB). "
        f"Full output saved to: result://{call['result_id']}\nFirst and last 1.0 KB:\n"
        + "\n".join([*lines[:9], lines[9], "…", *lines[-10:]])
        + "\n</persisted-output>"
    )
    output = call["output"]
    assert (output["persisted_result_id"], output["persisted_size"]) == (call["result_id"], len(WHOLE))
    assert output["stdout"].startswith(WHOLE[:50_000])
    assert len(output["stdout"]) < 51_000


def test_how_it_ended_stands_at_the_end_of_all_of_it(harness: Harness) -> None:
    _, call = run_command(harness, f"{NUMBERED}; echo broken >&2; exit 2")
    assert call["is_error"]
    assert read_all_pages(harness.daemon, call["result_id"]) == f"{WHOLE}\nbroken\n(exit code 2)"
    assert join_content_text(call).endswith("\nbroken\n(exit code 2)\n</persisted-output>")


def test_the_model_reads_and_searches_the_middle_of_it(harness: Harness) -> None:
    driver, call = run_command(harness, NUMBERED)
    path = f"result://{call['result_id']}"
    look = calls("Read", {"file_path": path, "offset": 15_000, "limit": 1})
    search = calls("Grep", {"pattern": "0150.5$", "path": path, "output_mode": "content"})
    harness.api.script(driver.name, DONE, DONE, message(look, search), otherwise=DONE)
    driver.run_turn("Look at it.", mode="dontAsk")
    read, grepped = driver.fetch_result_texts()[-2:]
    assert read.startswith(f" 15000\t{15_000:099}\n(15000 more lines")
    assert grepped.split("\n") == [f"{path}:{number}:{number:099}" for number in range(15_005, 15_100, 10)]


@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_characters_of_several_bytes_are_whole_wherever_a_piece_ends(harness: Harness, shift: int) -> None:
    text = "x" * shift + "🐎é中\n" * 200_000
    driver = harness.open_session(rules=ALLOWED, otherwise=DONE)
    driver.write_file("text", text)
    harness.api.script(driver.name, message(calls("Bash", {"command": "cat text"})), otherwise=DONE)
    driver.run_turn()
    call = driver.list_event_data("tool.completed")[0]["call"]
    assert read_all_pages(harness.daemon, call["result_id"]) == text.rstrip("\n")
    assert call["output"]["persisted_size"] == len(text.rstrip("\n").encode())


def test_what_is_no_text_is_kept_as_it_would_be_shown(harness: Harness) -> None:
    driver, call = run_command(harness, "head -c 3000000 /dev/urandom | tee data")
    shown = clean_for_model(decode_output((driver.folder / "data").read_bytes())).rstrip("\n")
    assert read_all_pages(harness.daemon, call["result_id"]) == shown


def test_output_that_is_short_when_it_is_clean_is_shown_as_it_is(harness: Harness) -> None:
    _, call = run_command(harness, "for i in {1..20000}; do printf '\\r\\033[K%0100d' $i; done; echo; echo built")
    assert join_content_text(call) == f"{20_000:0100}\nbuilt"
    assert (call["result_id"], call["output"]["persisted_result_id"]) == (None, None)
    _, call = run_command(harness, "head -c 2000000 /dev/zero | tr '\\0' '\\n'")
    assert join_content_text(call) == "(Bash completed with no output)"


def test_of_more_than_the_file_keeps_the_result_says_what_is_missing(harness: Harness) -> None:
    _, call = run_command(harness, "seq -f '%099.0f' 1 700000")
    lost = 70_000_000 - 48 * MB
    whole = harness.daemon.send_http("GET", f"/results/{call['result_id']}").body.decode()
    head, note, tail = whole.partition(f"\n… ({lost} bytes left out) …\n")
    remark = f"({lost} bytes left out: of so much output the first 16.0 MB and the last 32.0 MB are kept.)"
    assert note
    assert (len(head), len(tail)) == (16 * MB, 32 * MB + len(remark))
    assert head.startswith(f"{1:099}\n{2:099}\n")
    assert tail.endswith(f"\n{700_000:099}\n{remark}")
    assert join_content_text(call).endswith(f"\n{700_000:099}\n{remark}\n</persisted-output>")
    assert f"({len(whole.encode()) / 1024:.1f} KB)" in join_content_text(call)
    assert call["output"]["persisted_size"] == len(whole.encode())
    assert call["output"]["stderr"] == remark[1:-1]


def test_a_command_that_goes_to_the_background_gives_all_that_it_printed_so_far(harness: Harness) -> None:
    driver = harness.open_session(otherwise=DONE, rules=ALLOWED)
    command = f"{NUMBERED}; touch printed; {build_wait_command(driver.folder / 'go')}; echo over"
    harness.api.script(driver.name, message(calls("Bash", {"command": command})), otherwise=DONE)
    turn_id = driver.start()
    wait_until((driver.folder / "printed").exists)
    call_id = driver.wait("tool.started")["data"]["call"]["call_id"]
    harness.daemon.call("tool/background", call_id=call_id)
    driver.wait_for_turn_end(turn_id)
    call = driver.list_event_data("tool.completed")[0]["call"]
    task_id = call["output"]["background_task_id"]
    whole = read_all_pages(harness.daemon, call["result_id"])
    assert whole.startswith(f"{WHOLE}\nRunning in background as {task_id}.")
    (driver.folder / "go").touch()
    driver.wait("task.ended")
    end = harness.daemon.call("task/output", task_id=task_id, offset=len(WHOLE))
    assert end["output"] == "\nover\n"
    assert read_all_pages(harness.daemon, call["result_id"]) == whole


def test_nothing_is_left_of_it_when_its_session_is_deleted(harness: Harness) -> None:
    driver, call = run_command(harness, NUMBERED)
    home = harness.daemon.home
    assert call["result_id"] in list_stored_results(home)
    harness.daemon.call("session/delete", session_id=driver.id)
    assert harness.daemon.expect_error("result/read", result_id=call["result_id"])["data"]["code"] == "result_not_found"
    wait_until(lambda: call["result_id"] not in list_stored_results(home))


# While it is stored.


def test_an_interrupt_while_it_is_stored_loses_nothing_of_it(harness: Harness) -> None:
    driver = harness.open_session(
        message(calls("Bash", {"command": f"{SLOW} | tee data"})), otherwise=DONE, rules=ALLOWED
    )
    home = harness.daemon.home
    before = list_stored_results(home)
    turn_id = driver.start()
    result_id = wait_for_partial_result(home, before)
    assert harness.daemon.expect_error("result/read", result_id=result_id)["data"]["code"] == "result_not_found"
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end(turn_id)["reason"] == "interrupted"
    call = driver.list_event_data("tool.completed")[0]["call"]
    assert (call["result_id"], call["is_error"]) == (result_id, False)
    body = harness.daemon.send_http("GET", f"/results/{result_id}").body
    assert body == (driver.folder / "data").read_bytes().rstrip(b"\n")
    assert _wait_for_closed_outputs(harness.daemon) == []
    driver.expect_usable()


def test_a_crash_while_it_is_stored_leaves_nothing_that_can_be_seen(scene: CrashSession) -> None:
    scene.script(message(calls("Bash", {"command": SLOW}, id="toolu_slow")))
    scene.create(rules=ALLOWED)
    scene.start_turn()
    result_id = wait_for_partial_result(scene.daemon.home, set())
    scene.crash()
    assert "interrupted, outcome unknown" in scene.fetch_results()["toolu_slow"]
    for method, more in _list_result_methods():
        error = scene.daemon.expect_error(method, result_id=result_id, **more)
        assert error["data"]["code"] == "result_not_found"
    assert scene.daemon.send_http("GET", f"/results/{result_id}").status == 404
    assert not list((scene.daemon.home / "tasks").glob("call-*"))
    scene.expect_recovered()


def test_a_daemon_that_is_stopped_while_it_is_stored_keeps_all_of_it(scene: CrashSession) -> None:
    scene.script(message(calls("Bash", {"command": f"{SLOW} | tee data"}, id="toolu_slow")))
    scene.create(rules=ALLOWED)
    scene.start_turn()
    result_id = wait_for_partial_result(scene.daemon.home, set())
    scene.restart_gracefully()
    body = scene.daemon.send_http("GET", f"/results/{result_id}").body
    assert body == (scene.folder / "data").read_bytes().rstrip(b"\n")
    assert f"result://{result_id}" in scene.fetch_results()["toolu_slow"]
    scene.expect_recovered()


def _list_result_methods() -> list[tuple[str, dict[str, Any]]]:
    return [("result/read", {}), ("result/search", {"pattern": "x"})]


def _wait_for_closed_outputs(daemon: Daemon) -> list[str]:
    """The files of commands that the daemon still has open."""
    found: list[str] = []

    def none() -> bool:
        found[:] = [str(link) for link in _list_descriptor_links(daemon.pid) if "/tasks/call-" in str(link)]
        return not found

    wait_until(none)
    return found


def _list_descriptor_links(pid: int) -> Iterator[Path]:
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            yield each.readlink()


def test_each_result_lets_go_of_its_file(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    for _ in range(3):
        run_command(harness, NUMBERED)
    assert _wait_for_closed_outputs(harness.daemon) == []
    wait_until(lambda: not list((harness.daemon.home / "tasks").iterdir()))


# How much is read at once.


def count_pieces(pieces: Iterable[str], taken: list[int]) -> Iterator[str]:
    for piece in pieces:
        taken.append(len(piece))
        yield piece


@pytest.mark.without_daemon
def test_newlines_without_an_end_are_read_in_steps_though_nothing_comes_of_them(tmp_path: Path) -> None:
    file = tmp_path / "printed"
    file.write_bytes(b"begin\n" + b"\n" * (20 * MB))
    printed = FullOutput(os.open(file, os.O_RDONLY), file.stat().st_size)
    output = ShellOutput(stdout="", exit_code=0, duration_ms=1).attach_full_output(printed)
    long = output.open_long_text()
    assert long is not None
    taken: list[int] = []
    packer = TextPacker(count_pieces(long.pieces(), taken))
    steps = 1
    while not packer.read_ahead(30_000):
        assert len(taken) <= 32 * steps
        steps += 1
    assert steps > 5
    assert packer.get_short_text(30_000) == "begin"


@pytest.mark.without_daemon
@pytest.mark.parametrize("bring", [0, 1, 50_000])
def test_a_batch_ends_after_some_pieces_whatever_they_bring(bring: int) -> None:
    taken: list[int] = []
    packer = TextPacker(count_pieces(["x" * bring] * 1_000 + ["the end"], taken))
    packed: list[Piece] = []
    while not packer.done:
        before = len(taken)
        packed += packer.pack_batch()
        assert len(taken) - before <= 32
    assert sum(piece.chars for piece in packed) == 1_000 * bring + len("the end")
    assert packer.preview.end.endswith("the end")


# Nothing.


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("true", "(Bash completed with no output)"),
        (r"printf '\n \n\t\n'", "(Bash completed with no output)"),
        (r"printf '\033[0m\r'", "(Bash completed with no output)"),
        ("exit 3", "(exit code 3)"),
    ],
)
def test_a_command_that_prints_nothing_is_said_to_have_done_so(harness: Harness, command: str, text: str) -> None:
    driver = harness.open_session(rules=ALLOW)
    run_scripted_turn(harness, driver, bash(command))
    assert driver.fetch_result_texts() == [text]
    # For clients nothing is added.
    assert "completed" not in driver.list_event_data("tool.completed")[0]["call"]["output"]["stdout"]


@pytest.mark.without_daemon
def test_both_shells_show_the_end_where_a_builds_error_stands() -> None:
    text = "".join(f"line {number}\n" for number in range(10_000)) + "error: last"
    for tool in (Bash(), PowerShell()):
        shown = build_placeholder(tool, text, ResultId("r_1"))["text"]
        assert "First and last 1.0 KB:\nline 0\n" in shown
        assert shown.endswith("\nerror: last\n</persisted-output>")
