"""What the scripted model says in many tests: that it is done, and calls of the common tools."""

from pathlib import Path
from typing import Any, Final

from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.behaviors import Reply
from tests.support.messages_api.replies import Block, calls, message, says

DONE: Final = message(says("Done."))


def bash(command: str, **given: Any) -> Block:
    return calls("Bash", {"command": command, **given})


def read(path: Path | str) -> Block:
    return calls("Read", {"file_path": str(path)})


def write(path: Path | str, content: str = "new\n") -> Block:
    return calls("Write", {"file_path": str(path), "content": content})


def edit(path: Path | str, old: str, new: str, **given: Any) -> Block:
    return calls("Edit", {"file_path": str(path), "old_string": old, "new_string": new, **given})


def sleep() -> Reply:
    return message(calls("Sleep", {"seconds": 60}))


def run_scripted_turn(harness: Harness, driver: SessionDriver, *blocks: Block) -> None:
    """A turn with a call a message."""
    harness.api.script(driver.name, *(message(block) for block in blocks), otherwise=DONE)
    assert driver.run_turn()["reason"] == "completed"
