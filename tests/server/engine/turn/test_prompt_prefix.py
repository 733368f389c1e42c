"""What was sent once is sent again, byte for byte; and where the cache may begin."""

from collections.abc import Callable, Iterator
from typing import Any

from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.recorded_requests import RecordedRequest
from tests.support.messages_api.replies import calls, message, says


def list_cache_breakpoints(request: RecordedRequest) -> list[str]:
    """The places that have one."""
    body = request.body
    found = [f"tools.{tool['name']}" for tool in body["tools"] if "cache_control" in tool]
    found += [f"system.{at}" for at, block in enumerate(body["system"]) if "cache_control" in block]
    for at, one in enumerate(body["messages"]):
        found += [f"messages.{at}.{n}" for n, block in enumerate(one["content"]) if "cache_control" in block]
    return found


def test_breakpoints_stand_on_tools_system_and_the_last_two_user_messages(harness: Harness) -> None:
    driver = harness.open_session()
    path = driver.write_file("a.txt", "alpha\n")
    read = calls("Read", {"file_path": path})
    again = calls("Read", {"file_path": path, "limit": 1})
    harness.api.script(
        driver.name, message(read, again), message(read), message(says("Done.")), message(says("Again."))
    )
    driver.run_turn()
    driver.run_turn()
    names = [tool["name"] for tool in driver.requests[0].body["tools"]]
    # The plug-in's tools stand behind the built-in ones.
    plugged_in = ["AskingGate", "Breaking", "Gate", "ShellGate", "StubbornGate"]
    built_in = names[: -len(plugged_in)]
    assert names == [*built_in, *plugged_in]
    assert built_in == sorted(built_in)
    head = [f"tools.{built_in[-1]}", "system.0"]
    assert [list_cache_breakpoints(request) for request in driver.requests] == [
        [*head, "messages.0.0"],
        [*head, "messages.0.0", "messages.2.1"],
        [*head, "messages.2.1", "messages.4.0"],
        [*head, "messages.4.0", "messages.6.0"],
    ]


def test_modes_and_rules_change_nothing_that_was_sent(harness: Harness) -> None:
    driver = harness.open_session(otherwise=message(says("Yes.")))
    driver.run_turn("One.")
    driver.run_turn("Two.", mode="plan")
    harness.daemon.call("session/update", session_id=driver.id, mode="acceptEdits", title="new")
    harness.daemon.call("session/update", session_id=driver.id, rules={"allow": ["Bash(true)"]})
    driver.run_turn("Three.")
    assert harness.api.prefix_changes == []
    systems = {str(request.body["system"]) for request in driver.requests}
    assert len(systems) == 1
    told = [_join_texts(request.messages[-1]) for request in driver.requests]
    assert "plan" in told[1]
    assert "acceptEdits" in told[2]
    assert "mode" not in told[0]


def test_no_turn_model_mode_or_loaded_tool_changes_what_stands_before_the_conversation(
    own_harness: Callable[..., Harness],
) -> None:
    harness = own_harness(OSTLER_MODEL__TOOL_EXTRAS="always", OSTLER_TOOLS__DEFER="always")
    driver = harness.open_session(otherwise=message(says("Yes.")), model="claude-sonnet-5")
    driver.run_turn("One.")
    harness.api.script(
        driver.name,
        message(says("Yes.")),
        message(calls("ToolSearch", {"query": "select:NotebookEdit,WebFetch"})),
        otherwise=message(says("Yes.")),
    )
    driver.run_turn("Two.", mode="plan")
    (driver.folder / "AGENTS.md").write_text("Always say please.")
    skill = driver.folder / ".ostler" / "skills" / "groom" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("Groom it.")
    assert harness.api.prefix_changes == []
    driver.run_turn("Three.", model="claude-haiku-4-5", mode="acceptEdits")
    driver.run_turn("Four.")
    heads = {(str(request.body["tools"]), str(request.body["system"])) for request in driver.requests}
    assert (len(driver.requests), len(heads)) == (5, 1)
    # Another model has a cache of its own, and nothing else is different.
    assert {change.place for change in harness.api.prefix_changes} == {"model"}
    harness.api.may_rewrite = True


def test_a_restart_sends_the_same_bytes_again(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session()
    path = driver.write_file("a.txt", "alpha\n")
    harness.api.script(
        driver.name,
        message(says("I look."), calls("Read", {"file_path": path}), calls("Nothing", {"a": 1})),
        message(says("Done.")),
        otherwise=message(says("Yes.")),
    )
    driver.run_turn()
    (driver.folder / "AGENTS.md").write_text("Always say please.")
    harness.restart()
    driver.run_turn("And now?")
    driver.run_turn("And now?", mode="plan")
    assert len(driver.requests) == 4
    assert harness.api.prefix_changes == []
    assert len({str(request.body["system"]) for request in driver.requests}) == 1
    assert driver.requests[-1].message_count == 7


def test_a_tool_that_is_denied_as_a_whole_is_not_sent(harness: Harness) -> None:
    driver = harness.open_session(
        message(calls("Bash", {"command": "true"})), message(says("Done.")), rules={"deny": ["Bash"]}
    )
    driver.run_turn()
    names = [tool["name"] for tool in driver.requests[0].body["tools"]]
    assert "Bash" not in names
    assert "Read" in names
    assert "a rule denies it as a whole" in driver.fetch_result_texts()[0]
    driver.expect_usable()


def test_presets_say_which_tools_are_sent(harness: Harness) -> None:
    def names(driver: SessionDriver) -> list[str]:
        driver.run_turn()
        return [tool["name"] for tool in driver.requests[0].body["tools"]]

    words = message(says("Yes."))
    assert names(harness.open_session(words, tools="minimal")) == ["Bash", "Edit", "Read"]
    assert names(harness.open_session(words, tools=["Read", "Glob"])) == ["Glob", "Read"]
    assert "Write" not in names(harness.open_session(words, tools="read-only"))


def _join_texts(sent: dict[str, Any]) -> str:
    def each() -> Iterator[str]:
        for block in sent["content"]:
            if block["type"] == "text":
                yield block["text"]

    return "\n".join(each())
