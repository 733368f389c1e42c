"""`tool/list`: what clients are told of each tool."""

from typing import Any

import jsonschema_rs

from tests.support.driver import Harness
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE


def test_what_a_tool_gives_fits_the_output_schema_that_is_told_of_it(harness: Harness) -> None:
    driver = harness.open_session(mode="acceptEdits", rules={"allow": ["Bash"]})
    path = driver.write_file("oats.txt", "one\ntwo\n")
    inputs: list[tuple[str, dict[str, Any]]] = [
        ("Bash", {"command": "git init -q . && git -c user.name=a -c user.email=a commit -q --allow-empty -m one"}),
        ("Read", {"file_path": path}),
        ("Edit", {"file_path": path, "old_string": "two", "new_string": "three"}),
        ("Write", {"file_path": str(driver.folder / "new.txt"), "content": "new\n"}),
        ("Glob", {"pattern": "*.txt"}),
        ("Grep", {"pattern": "three", "output_mode": "content"}),
        ("Bash", {"command": "false"}),
    ]
    harness.api.script(driver.name, *(message(calls(*one)) for one in inputs), otherwise=DONE)
    driver.run_turn()
    tools = harness.daemon.call("tool/list", session_id=driver.id)["tools"]
    schemas = {tool["name"]: tool["output_schema"] for tool in tools}
    ended = [data["call"] for data in driver.list_event_data("tool.completed")]
    assert [call["tool"] for call in ended] == [name for name, _ in inputs]
    for call in ended:
        validator = jsonschema_rs.validator_for(schemas[call["tool"]])
        validator.validate(call["output"])
        assert not validator.is_valid({**call["output"], "surprise": 1})
    assert all(schemas.values())
