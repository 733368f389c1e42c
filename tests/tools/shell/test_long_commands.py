"""Commands that are slow to parse: nobody waits for the parser, and what is known of them in the end is right."""

import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.protocol.ids import CallId, SessionId, TurnId
from ostler.protocol.shapes import Call
from ostler.server.engine.calls.stages import Parsed, set_input
from ostler.tools.commands import MAX_BYTES, parse_command
from ostler.tools.commands.syntax.parser import clear_cache
from ostler.tools.context import SessionView
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.bash_policy import judge
from ostler.tools.shell.powershell import PowerShell
from ostler.tools.shell.powershell_parser import UnsupportedSyntax, parse_powershell
from ostler.tools.tasks.monitor import Monitor
from ostler.tools.text import one_line
from ostler.tools.tool import AnyTool
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio

BASH, POWERSHELL, MONITOR = Bash(), PowerShell(), Monitor()
FAR_TOO_LONG = "a\n" * 5_000_000
SLOW = [
    FAR_TOO_LONG,
    "a\n" * 49_900,
    ">a " * 33_000,
    "cd a;" * 19_900,
    "case a in " + "a) b;; " * 14_000 + "esac",
    "A=b " * 24_000,
    "sed -i " + "-e s/a/b/ " * 9_000 + "f",
    "a|" * 101 + "a",
]
A_FEW = 2_000
"""Calls of functions; reading one of the commands takes ten times as many at least."""


def count_function_calls(work: Callable[[], object]) -> int:
    """Counts the function calls of the work: a measure that no other process influences."""
    made = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal made
        made += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return made


def parse_input(tool: AnyTool, command: str) -> Any:
    more = {"description": "x", "timeout": 1000} if tool is MONITOR else {}
    return tool.parse({"command": command, **more})


def build_queued_call(tool: AnyTool) -> Call:
    return Call(
        call_id=CallId("c_1"),
        tool_use_id="toolu_1",
        session_id=SessionId("s_1"),
        turn_id=TurnId("t_1"),
        tool=tool.name,
        input={},
        summary=tool.name,
        status="queued",
    )


@pytest.mark.parametrize("command", SLOW, ids=lambda command: f"{command[:10]!r}")
@pytest.mark.parametrize("tool", [BASH, POWERSHELL, MONITOR], ids=lambda tool: tool.name)
def test_a_call_takes_its_place_in_the_order_before_its_command_is_read(tool: AnyTool, command: str) -> None:
    call, command_input = build_queued_call(tool), parse_input(tool, command)
    taken: list[tuple[Parsed, bool, bool]] = []

    def take() -> None:
        parsed = set_input(tool, command_input, call, {"command": command})
        taken.append((parsed, parsed.is_safe, parsed.has_effect()))

    clear_cache()
    assert count_function_calls(take) < A_FEW
    [(parsed, safe, has_effect)] = taken
    assert not safe
    assert has_effect
    assert parsed.call.activity in {"run", "other"}


def test_what_is_too_long_to_be_read_is_not_gone_through() -> None:
    clear_cache()
    assert count_function_calls(lambda: parse_command(FAR_TOO_LONG)) < A_FEW
    assert count_function_calls(lambda: parse_command("é\n" * (MAX_BYTES // 3 + 1))) < A_FEW
    assert parse_command(FAR_TOO_LONG).problem == f"it is longer than {MAX_BYTES} bytes"
    assert isinstance(parse_powershell(FAR_TOO_LONG), UnsupportedSyntax)


@pytest.mark.parametrize("tool", [BASH, POWERSHELL, MONITOR], ids=lambda tool: tool.name)
async def test_a_long_command_is_read_before_anybody_asks_whether_it_only_reads(
    tool: AnyTool, session: Session
) -> None:
    command = "Get-Content -Path abc; " * 49 if tool is POWERSHELL else "cat" + " abc" * 5_000
    given = parse_input(tool, command)
    clear_cache()
    assert await tool.validate(given, session.make_context()) is None
    assert tool.is_read_only(given)
    if tool is not POWERSHELL:
        assert count_function_calls(lambda: parse_command(command)) < 10, "it is remembered"


@pytest.mark.parametrize("command", ["sleep 1;" * 12_000, "bash -c '" + "sleep 1;" * 12_000 + "'"], ids=["", "bash"])
async def test_whether_a_long_command_begins_by_waiting_is_not_found_out_on_the_event_loop(
    session: Session, command: str
) -> None:
    given, context = parse_input(BASH, command), session.make_context()
    clear_cache()
    made = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal made
        made += event in {"call", "c_call"}

    sys.setprofile(note)  # of this thread alone
    try:
        assert await BASH.validate(given, context) is None
    finally:
        sys.setprofile(None)
    assert made < A_FEW


@given(st.text(st.sampled_from("a b\t\n\u3000\x1cé"), max_size=60), st.integers(0, 20))
def test_one_line_is_the_beginning_of_all_words_with_a_blank_between(text: str, most: int) -> None:
    assert one_line(text, most) == " ".join(text.split())[:most]


@pytest.mark.parametrize("tool", [BASH, MONITOR], ids=lambda tool: tool.name)
def test_a_line_about_a_long_command_does_not_take_all_its_words_apart(tool: AnyTool) -> None:
    given = parse_input(tool, FAR_TOO_LONG)
    tracemalloc.start()
    try:
        assert tool.summary(given).endswith("a " * 50)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(FAR_TOO_LONG), "what is left of the text may be copied"


MADE_TO_BE_SLOW: dict[str, Callable[[int], str]] = {
    "moves": lambda count: "; ".join(f"mv a{number} b{number}" for number in range(count)),
    "copies to one place": lambda count: "; ".join(f"cp a{number} b" for number in range(count)),
    "links": lambda count: "; ".join(f"ln -s a{number} b{number}" for number in range(count)),
    "evals": lambda count: "eval " * count + "ls",
    "wrappers": lambda count: "timeout 5 " * count + "ls",
    "reserved words": lambda count: "time " * count + "ls",
    "statuses": lambda count: "echo " + "$? " * count,
    "quoted statuses": lambda count: 'echo "' + "$?" * count + '"',
    "files": lambda count: "cat " + " ".join(f"f{number}" for number in range(count)),
    "folders": lambda count: "; ".join(f"cd a{number}" for number in range(count)),
    "redirections": lambda count: "ls " + " ".join(f"2>a{number}" for number in range(count)),
    "patterns": lambda count: "ls " + " ".join(f"a{number}*" for number in range(count)),
    "here-strings": lambda count: "cat " + "<<< x " * count,
    "folders below folders": lambda count: " && ".join(["cd a"] * count),
    "folders below named folders": lambda count: " && ".join(f"cd a{number}" for number in range(count)),
    "braces": lambda count: "echo " + "{a,b}" * count,
    "braces in braces": lambda count: "rm " + "{a," * count + "a" + "}" * count,
    "braces as words": lambda count: "echo " + "{a,b} " * count,
    "substitutions": lambda count: "echo " + "$(ls) " * count,
    "files of substitutions": lambda count: "cat " + "<(ls) " * count,
    "loops": lambda count: "; ".join(["for f in a b; do ls $f; done"] * count),
    "conditions": lambda count: "; ".join(["if ls; then ls; fi"] * count),
    "assignments": lambda count: "x=1 " * count + "ls",
    "scripts of sed": lambda count: "sed '" + "s/a/b/;" * count + "' a",
}


@pytest.mark.parametrize("kind", MADE_TO_BE_SLOW)
def test_the_work_for_a_decision_grows_with_the_length_of_the_line_and_no_faster(kind: str, tmp_path: Path) -> None:
    view = SessionView(
        SessionId("s_1"), str(tmp_path), str(tmp_path), (str(tmp_path),), "default", home=f"{tmp_path}-d"
    )

    def count(length: int) -> int:
        command = MADE_TO_BE_SLOW[kind](length)
        clear_cache()
        return count_function_calls(lambda: judge(command, view))

    count(10)
    once, thrice = count(250), count(750)
    assert thrice < once * 4
    assert thrice < 2_000_000
