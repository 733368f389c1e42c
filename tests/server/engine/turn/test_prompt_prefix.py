"""What was sent once is sent again, byte for byte; and where the cache may begin."""

from collections.abc import Callable, Iterator
from typing import Any

from tests.support.driver import Stage, Talk
from tests.support.messages_api.recorded_requests import Recorded
from tests.support.messages_api.replies import calls, message, says


def breakpoints(request: Recorded) -> list[str]:
    """The places that have one."""
    body = request.body
    found = [f"tools.{tool['name']}" for tool in body["tools"] if "cache_control" in tool]
    found += [f"system.{at}" for at, block in enumerate(body["system"]) if "cache_control" in block]
    for at, one in enumerate(body["messages"]):
        found += [f"messages.{at}.{n}" for n, block in enumerate(one["content"]) if "cache_control" in block]
    return found


def test_breakpoints_stand_on_tools_system_and_the_last_two_user_messages(stage: Stage) -> None:
    talk = stage.talk()
    path = talk.file("a.txt", "alpha\n")
    read = calls("Read", {"file_path": path})
    again = calls("Read", {"file_path": path, "limit": 1})
    stage.api.script(talk.name, message(read, again), message(read), message(says("Done.")), message(says("Again.")))
    talk.turn()
    talk.turn()
    names = [tool["name"] for tool in talk.requests[0].body["tools"]]
    # The plug-in's tools stand behind the built-in ones.
    plugged_in = ["AskingGate", "Breaking", "Gate", "ShellGate", "StubbornGate"]
    built_in = names[: -len(plugged_in)]
    assert names == [*built_in, *plugged_in]
    assert built_in == sorted(built_in)
    head = [f"tools.{built_in[-1]}", "system.0"]
    assert [breakpoints(request) for request in talk.requests] == [
        [*head, "messages.0.0"],
        [*head, "messages.0.0", "messages.2.1"],
        [*head, "messages.2.1", "messages.4.0"],
        [*head, "messages.4.0", "messages.6.0"],
    ]


def test_modes_and_rules_change_nothing_that_was_sent(stage: Stage) -> None:
    talk = stage.talk(otherwise=message(says("Yes.")))
    talk.turn("One.")
    talk.turn("Two.", mode="plan")
    stage.daemon.call("session/update", session_id=talk.id, mode="acceptEdits", title="new")
    stage.daemon.call("session/update", session_id=talk.id, rules={"allow": ["Bash(true)"]})
    talk.turn("Three.")
    assert stage.api.prefix_changes == []
    systems = {str(request.body["system"]) for request in talk.requests}
    assert len(systems) == 1
    told = [_texts(request.messages[-1]) for request in talk.requests]
    assert "plan" in told[1]
    assert "acceptEdits" in told[2]
    assert "mode" not in told[0]


def test_a_restart_sends_the_same_bytes_again(own_stage: Callable[..., Stage]) -> None:
    stage = own_stage()
    talk = stage.talk()
    path = talk.file("a.txt", "alpha\n")
    stage.api.script(
        talk.name,
        message(says("I look."), calls("Read", {"file_path": path}), calls("Nothing", {"a": 1})),
        message(says("Done.")),
        otherwise=message(says("Yes.")),
    )
    talk.turn()
    (talk.folder / "AGENTS.md").write_text("Always say please.")
    stage.restart()
    talk.turn("And now?")
    talk.turn("And now?", mode="plan")
    assert len(talk.requests) == 4
    assert stage.api.prefix_changes == []
    assert len({str(request.body["system"]) for request in talk.requests}) == 1
    assert talk.requests[-1].message_count == 7


def test_a_tool_that_is_denied_as_a_whole_is_not_sent(stage: Stage) -> None:
    talk = stage.talk(message(calls("Bash", {"command": "true"})), message(says("Done.")), rules={"deny": ["Bash"]})
    talk.turn()
    names = [tool["name"] for tool in talk.requests[0].body["tools"]]
    assert "Bash" not in names
    assert "Read" in names
    assert "a rule denies it as a whole" in talk.result_texts()[0]
    talk.is_usable()


def test_presets_say_which_tools_are_sent(stage: Stage) -> None:
    def names(talk: Talk) -> list[str]:
        talk.turn()
        return [tool["name"] for tool in talk.requests[0].body["tools"]]

    words = message(says("Yes."))
    assert names(stage.talk(words, tools="minimal")) == ["Bash", "Edit", "Read"]
    assert names(stage.talk(words, tools=["Read", "Glob"])) == ["Glob", "Read"]
    assert "Write" not in names(stage.talk(words, tools="read-only"))


def _texts(sent: dict[str, Any]) -> str:
    def each() -> Iterator[str]:
        for block in sent["content"]:
            if block["type"] == "text":
                yield block["text"]

    return "\n".join(each())
