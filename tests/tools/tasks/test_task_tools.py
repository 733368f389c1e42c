"""TaskOutput, TaskStop, Sleep and Monitor: what they take, what they say of themselves, and what a model sees."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio
import pytest

from ostler.protocol.ids import SessionId, TaskId
from ostler.protocol.shapes import Task
from ostler.tools.context import WakeSignal
from ostler.tools.search import line_filter
from ostler.tools.search.ripgrep import RipgrepError
from ostler.tools.services import NoTasks, TaskSnapshot
from ostler.tools.tasks.monitor import Monitor, MonitorOutput
from ostler.tools.tasks.sleep import Sleep, SleepOutput
from ostler.tools.tasks.task_output import TaskOutput, TaskOutputOutput, TaskState
from ostler.tools.tasks.task_stop import NOT_RUNNING, UNKNOWN, TaskStop, TaskStopOutput
from ostler.tools.tool import Allow, AnyTool, AskFirst, Failure, Refuse, ToolResult
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio

RUNNING = Task(
    id=TaskId("b0000000a"),
    type="local_bash",
    status="running",
    description="Build it",
    session_id=SessionId("s_1"),
    command="make",
    started_at="2026-01-01T00:00:00.000Z",
)
FAILED = RUNNING.model_copy(
    update={"id": TaskId("b0000000b"), "status": "failed", "exit_code": 2, "ended_at": "2026-01-01T00:00:01.000Z"}
)


@dataclass
class KnownTasks(NoTasks):
    """Two tasks, one of which is over, and what both have printed."""

    printed: str = ""
    enabled = True

    async def list_tasks(self) -> Sequence[Task]:
        return [RUNNING, FAILED]

    async def poll(
        self, task_id: TaskId, seconds: float, most: int, *, whole_lines: bool = False
    ) -> TaskSnapshot | None:
        found = next((task for task in (RUNNING, FAILED) if task.id == task_id), None)
        return None if found is None else TaskSnapshot(found, self.printed[:most], has_more=len(self.printed) > most)


async def call_tool(session: Session, tool: AnyTool, printed: str = "", **given: Any) -> ToolResult[Any] | Failure:
    return await session.call(tool, given, session.make_context(tasks=KnownTasks(printed)))


async def render_call(session: Session, tool: AnyTool, printed: str = "", **given: Any) -> str:
    ran = await call_tool(session, tool, printed, **given)
    assert isinstance(ran, ToolResult), ran
    (block,) = tool.render(ran.output)
    return str(block["text"])


async def fail_call(session: Session, tool: AnyTool, **given: Any) -> Failure:
    failed = await call_tool(session, tool, **given)
    assert isinstance(failed, Failure), failed
    return failed


# What they are.


def test_what_each_says_of_itself() -> None:
    output, stop, sleep, monitor = TaskOutput(), TaskStop(), Sleep(), Monitor()
    assert (output.aliases, output.only_reads, output.deferred) == (("BashOutput", "AgentOutput"), True, False)
    assert (stop.aliases, stop.only_reads, stop.deferred) == (("KillShell",), False, True)
    assert (sleep.only_reads, sleep.deferred) == (True, False)
    assert output.is_concurrency_safe(output.parse({"task_id": "b1"}))
    assert stop.is_concurrency_safe(stop.parse({"task_id": "b1"}))
    assert sleep.is_concurrency_safe(sleep.parse({"seconds": 1}))
    assert not monitor.is_concurrency_safe(monitor.parse({"path": "/a", "description": "a", "timeout": 1000}))


@pytest.mark.parametrize("name", ["task_id", "bash_id", "agentId"])
def test_output_takes_the_old_spellings_of_its_parameter(name: str) -> None:
    assert TaskOutput().parse({name: "b1"}).task_id == "b1"


@pytest.mark.parametrize("name", ["task_id", "shell_id"])
def test_stop_takes_the_old_spelling_of_its_parameter(name: str) -> None:
    assert TaskStop().parse({name: "b1"}).task_id == "b1"


def test_two_spellings_at_once_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="extra_forbidden"):
        TaskOutput().parse({"task_id": "b1", "bash_id": "b2"})
    with pytest.raises(ValueError, match="extra_forbidden"):
        TaskOutput().parse({"bash_id": "b1", "agentId": "b2"})


def test_output_waits_for_30_seconds_unless_told_otherwise() -> None:
    given = TaskOutput().parse({"task_id": "b1"})
    assert (given.block, given.timeout, given.filter) == (True, 30_000, None)


def test_called_as_bashoutput_it_does_not_wait_unless_told_to() -> None:
    tool = TaskOutput()
    assert tool.called_as("BashOutput", {"bash_id": "b1"}) == {"block": False, "bash_id": "b1"}
    assert tool.called_as("BashOutput", {"bash_id": "b1", "block": True})["block"] is True
    assert tool.called_as("AgentOutput", {"agentId": "a1"}) == {"agentId": "a1"}


@pytest.mark.parametrize("timeout", [-1, 600_001])
def test_a_wait_is_from_0_to_600000_milliseconds(timeout: int) -> None:
    tool = TaskOutput()
    assert [tool.parse({"task_id": "b1", "timeout": good}).timeout for good in (0, 600_000)] == [0, 600_000]
    with pytest.raises(ValueError, match="timeout"):
        tool.parse({"task_id": "b1", "timeout": timeout})


# TaskOutput.


async def test_a_task_that_failed_is_shown_with_its_exit_code(session: Session) -> None:
    text = await render_call(session, TaskOutput(), "\x1b[31merror\x1b[0m: no rule\n", task_id=FAILED.id)
    assert text == "b0000000b failed (exit code 2): Build it\nerror: no rule"


async def test_a_task_that_runs_is_shown_with_what_comes_next(session: Session) -> None:
    assert await render_call(session, TaskOutput(), "compiling\n", task_id=RUNNING.id) == (
        "b0000000a running: Build it\n"
        "compiling\n"
        "(It was still running after the time. You are told when it ends; TaskStop ends it.)"
    )
    assert await render_call(session, TaskOutput(), task_id=RUNNING.id, block=False) == (
        "b0000000a running: Build it\n(nothing new)\n(It still runs. You are told when it ends; TaskStop ends it.)"
    )


async def test_of_much_output_a_part_is_shown_and_the_rest_announced(session: Session) -> None:
    text = await render_call(session, TaskOutput(), "x" * 9_000_000, task_id=FAILED.id)
    assert text.endswith("x\n(There is more: call TaskOutput again.)")
    assert len(text) < 8_500_000


def test_a_task_that_was_stopped_says_why() -> None:
    state = TaskState(
        task_id=TaskId("m1"), task_type="monitor_mcp", status="killed", description="d", output="", error="Its end."
    )
    (block,) = TaskOutput().render(TaskOutputOutput(retrieval_status="success", task=state))
    assert block["text"] == "m1 killed (Its end): d\n(nothing new)"


async def test_the_status_of_the_retrieval_says_whether_it_is_over(session: Session) -> None:
    async def status(**given: Any) -> str:
        ran = await call_tool(session, TaskOutput(), **given)
        assert isinstance(ran, ToolResult)
        return str(ran.output.retrieval_status)

    assert await status(task_id=FAILED.id) == await status(task_id=FAILED.id, block=False) == "success"
    assert await status(task_id=RUNNING.id) == "timeout"
    assert await status(task_id=RUNNING.id, block=False) == "not_ready"


async def test_the_output_has_all_facts_of_the_task(session: Session) -> None:
    ran = await call_tool(session, TaskOutput(), "said\n", task_id=FAILED.id)
    assert isinstance(ran, ToolResult)
    assert ran.output.task.model_dump() == {
        "task_id": "b0000000b",
        "task_type": "local_bash",
        "status": "failed",
        "description": "Build it",
        "output": "said\n",
        "exit_code": 2,
        "error": None,
        "prompt": None,
        "result": None,
    }


async def test_a_filter_shows_only_the_lines_that_match(session: Session) -> None:
    printed = "one\n\x1b[1merror\x1b[0m: a\r\ntwo\nerror: b\n"
    text = await render_call(session, TaskOutput(), printed, task_id=FAILED.id, filter="^error.*[ab]$")
    assert text == "b0000000b failed (exit code 2): Build it\nerror: a\nerror: b"
    nothing = await render_call(session, TaskOutput(), printed, task_id=FAILED.id, filter="warning")
    assert nothing == "b0000000b failed (exit code 2): Build it\n(no new line matches)"


async def test_a_filter_that_matches_too_much_is_cut(session: Session) -> None:
    text = await render_call(session, TaskOutput(), "line\n" * 5_000, task_id=FAILED.id, filter="line")
    assert text.count("line\n") == 2_000
    assert text.endswith("(cut after 2000 lines: use a narrower filter)")


async def test_a_filter_that_is_no_pattern_is_explained(session: Session) -> None:
    failed = await fail_call(session, TaskOutput(), task_id=RUNNING.id, filter="(")
    assert failed.message.startswith("filter is no usable pattern: ")
    assert "unclosed group" in failed.message


async def test_lines_that_match_and_are_blank_are_said_to_be(session: Session) -> None:
    text = await render_call(session, TaskOutput(), "\n" * 5_000, task_id=FAILED.id, filter="^$")
    assert text.splitlines()[1:] == ["(only blank lines match)", "(cut after 2000 lines: use a narrower filter)"]
    text = await render_call(session, TaskOutput(), "a\n\nb\n", task_id=FAILED.id, filter="^$")
    assert text.splitlines()[1:] == ["(only blank lines match)"]


async def test_the_words_about_a_cut_count_the_lines_that_are_shown(session: Session) -> None:
    text = await render_call(session, TaskOutput(), ("x" * 9_999 + "\n") * 10, task_id=FAILED.id, filter="x")
    assert text.endswith("(cut after 4 lines: use a narrower filter)")


@pytest.mark.parametrize("pattern", ["x" * 2_001, "x" * 200_000, "x" * 1_999 + "("])
async def test_a_pattern_of_lines_that_is_long_is_refused_in_a_few_words(session: Session, pattern: str) -> None:
    words = "longer than 2000 characters" if len(pattern) > 2_000 else "unclosed group"
    filtering = await fail_call(session, TaskOutput(), task_id=RUNNING.id, filter=pattern)
    until = await fail_call(session, Monitor(), **build_monitor_input(command="make", until=pattern))
    for failed in (filtering, until):
        assert words in failed.message
        assert len(failed.message) < 1_100


async def test_a_pattern_that_explodes_elsewhere_takes_no_time() -> None:
    text = ("a" * 500 + "b\n") * 2_000
    with anyio.fail_after(10):
        assert await line_filter.find_matching_lines("(a+)+$", text, 1) == []
        assert await line_filter.find_matching_lines("(x+x+)+y", "x" * 1_000_000, 1) == []


async def test_lines_are_found_in_whatever_a_command_prints() -> None:
    assert await line_filter.find_matching_lines("b$", "a\0b\r\nöb\n-b\n", 2) == ["a\0b", "öb"]
    assert await line_filter.find_matching_lines("-b", "a\n-b", 5) == ["-b"]
    with pytest.raises(RipgrepError):
        await line_filter.find_matching_lines("[", "a", 1)


@pytest.mark.parametrize("tool", [TaskOutput(), TaskStop()], ids=lambda tool: tool.name)
async def test_an_unknown_task_is_an_error_that_names_those_there_are(session: Session, tool: AnyTool) -> None:
    failed = await fail_call(session, tool, task_id="b_wrong")
    assert failed.code == UNKNOWN
    assert failed.message == (
        "There is no task 'b_wrong' in this session. Its tasks: b0000000b (failed), b0000000a (running)."
    )


async def test_without_any_task_the_error_says_so(session: Session) -> None:
    failed = await session.expect_failure(TaskOutput(), task_id="b1")
    assert failed.message == "There is no task 'b1' in this session. It has no tasks."


# TaskStop.


async def test_what_is_over_cannot_be_stopped(session: Session) -> None:
    failed = await fail_call(session, TaskStop(), task_id=FAILED.id)
    assert (failed.message, failed.code) == ("b0000000b is not running: it is failed already.", NOT_RUNNING)


def test_the_message_of_a_stop_is_what_the_model_sees() -> None:
    output = TaskStopOutput(message="Stopped b1: make", task_id=TaskId("b1"), task_type="local_bash", command="make")
    assert TaskStop().render(output) == [{"type": "text", "text": "Stopped b1: make"}]


# Sleep.


@pytest.mark.parametrize("seconds", [0, -1, 3600.5])
def test_a_sleep_is_at_most_an_hour(seconds: float) -> None:
    assert Sleep().parse({"seconds": 3600}).seconds == 3600
    with pytest.raises(ValueError, match="seconds"):
        Sleep().parse({"seconds": seconds})


async def test_a_sleep_without_news_lasts_its_time(session: Session) -> None:
    slept = (await session.expect_result(Sleep(), seconds=0.2)).output
    assert (slept.slept_seconds >= 0.2, slept.woken_by) == (True, "time")
    [block] = Sleep().render(slept.model_copy(update={"slept_seconds": 0.2}))
    assert block["text"] == "Slept for 0.2 s: nothing has happened."


@pytest.mark.parametrize(
    ("waker", "words"),
    [
        ("message", "the person has said something."),
        ("task", "a background task has ended."),
        ("monitor", "a monitor has seen a line."),
    ],
)
async def test_a_sleep_says_what_woke_it(session: Session, waker: Any, words: str) -> None:
    wake_signal = WakeSignal()
    woken: list[SleepOutput] = []

    async def sleep() -> None:
        ran = await session.call(Sleep(), {"seconds": 60}, replace(session.make_context(), wake_signal=wake_signal))
        assert isinstance(ran, ToolResult)
        woken.append(ran.output)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(sleep)
            await anyio.wait_all_tasks_blocked()
            assert not woken
            wake_signal.set(waker)
    [slept] = woken
    shown = Sleep().render(slept.model_copy(update={"slept_seconds": 1.5}))
    assert shown[0]["text"] == f"Woken after 1.5 s: {words}"


async def test_what_happened_before_the_sleep_wakes_it_at_once_until_the_model_knows(session: Session) -> None:
    wake_signal = WakeSignal()
    wake_signal.set("task")
    ran = await session.call(Sleep(), {"seconds": 60}, replace(session.make_context(), wake_signal=wake_signal))
    assert isinstance(ran, ToolResult)
    assert ran.output.woken_by == "task"
    wake_signal.clear()
    ran = await session.call(Sleep(), {"seconds": 0.1}, replace(session.make_context(), wake_signal=wake_signal))
    assert isinstance(ran, ToolResult)
    assert ran.output.woken_by == "time"


async def test_sleeping_and_looking_are_allowed_without_asking(session: Session) -> None:
    assert await session.check(Sleep(), seconds=1) == Allow()
    assert await session.check(TaskOutput(), task_id="b1") == Allow()
    assert await session.check(TaskStop(), task_id="b1") == Allow(own_state=True)


def test_the_description_of_sleep_names_its_price(session: Session) -> None:
    words = Sleep().description(session.view)
    assert "Each wake costs a request" in words
    assert "The prompt cache lasts five minutes" in words


# Monitor.


def build_monitor_input(**given: Any) -> dict[str, Any]:
    return {"description": "the server", "timeout": 60_000, **given}


@pytest.mark.parametrize("given", [{}, {"command": "a", "path": "/a"}])
async def test_one_thing_is_watched(session: Session, given: dict[str, Any]) -> None:
    failed = await fail_call(session, Monitor(), **build_monitor_input(**given))
    assert failed.message == "Give one of command, path and mcp, and only one."


async def test_a_session_without_mcp_servers_has_none_to_watch(session: Session) -> None:
    failed = await fail_call(session, Monitor(), **build_monitor_input(mcp={"server": "db", "resource": "rows"}))
    assert failed.message == "There is no MCP server 'db'. The session has none."


@pytest.mark.parametrize("timeout", [999, 86_400_001])
def test_a_monitor_ends_within_a_day(timeout: int) -> None:
    with pytest.raises(ValueError, match="timeout"):
        Monitor().parse(build_monitor_input(path="/a", timeout=timeout))


async def test_what_cannot_be_watched_is_explained(session: Session) -> None:
    async def why(**given: Any) -> str:
        return (await fail_call(session, Monitor(), **build_monitor_input(**given))).message

    assert await why(path="a.log") == "The path 'a.log' is relative: give it absolute, from / on."
    assert await why(path=str(session.folder)) == f"{session.folder} is no file that can grow."
    assert await why(path="/dev/zero") == "/dev/zero is no file that can grow."
    assert await why(path="/dev/stdin") == "/dev/stdin is a stream without an end, not a file."
    assert await why(command=" ") == "The command is empty."
    assert await why(command="a\0") == "The command holds a NUL byte."
    assert "unclosed group" in await why(command="make", until="(")
    assert (await session.expect_failure(Monitor(), **build_monitor_input(command="make"))).message == (
        "Nothing goes on in the background here, so nothing can be watched."
    )


async def test_a_file_may_be_watched_where_it_may_be_read(session: Session) -> None:
    inside = str(session.folder / "a.log")
    assert await session.check(Monitor(), **build_monitor_input(path=inside)) == Allow()
    outside = str(session.folder.parent / "b.log")
    check = await session.check(Monitor(), **build_monitor_input(path=outside))
    assert check == AskFirst(f"Follow {outside}?", reason="It is outside the session's folders.")
    session.change_view(home=str(session.folder.parent))
    assert isinstance(await session.check(Monitor(), **build_monitor_input(path=outside)), Refuse)


async def test_a_command_is_judged_as_bash_judges_it(session: Session) -> None:
    check = await session.check(Monitor(), **build_monitor_input(command="make"))
    assert isinstance(check, AskFirst)
    assert check.message == "Run this command: make"
    assert await session.check(Monitor(), **build_monitor_input(command="ls")) == Allow()
    session.change_view(mode="acceptEdits")
    assert isinstance(await session.check(Monitor(), **build_monitor_input(command="mkdir d")), AskFirst)


def test_a_monitor_is_switched_off_by_its_setting_and_with_background_tasks(session: Session) -> None:
    assert Monitor().is_enabled(session.view)
    assert not Monitor().is_enabled(session.change_config(monitor=False).view)
    assert not Monitor().is_enabled(replace(session.view, background=False))


def test_the_start_of_a_monitor_says_what_follows() -> None:
    output = MonitorOutput(task_id=TaskId("m1"), description="d", until="x", timeout_ms=60_000)
    assert Monitor().render(output)[0]["text"] == (
        "Monitoring as m1, for 60 s at most. The first line that matches is told to you as a message: go on with "
        "something else, or use Sleep. TaskStop ends it."
    )
    each = output.model_copy(update={"until": None})
    assert "Each line is told to you" in Monitor().render(each)[0]["text"]
