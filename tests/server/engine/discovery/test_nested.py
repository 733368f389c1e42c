"""Instruction files below the session's folder: told once, when a file there is read."""

from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.replies import message
from tests.support.model_replies import DONE, read


def list_texts(driver: SessionDriver, request: int) -> list[str]:
    return [block["text"] for block in driver.requests[request].messages[-1]["content"] if block["type"] == "text"]


def test_those_of_a_folder_are_told_once_when_a_file_in_it_is_read(harness: Harness) -> None:
    driver = harness.open_session()
    deep = driver.folder / "web" / "deep"
    deep.mkdir(parents=True)
    (driver.folder / "web" / "AGENTS.md").write_text("Use tabs. @more.md")
    (driver.folder / "web" / "more.md").write_text("And no semicolons.")
    for name in ("one.txt", "two.txt"):
        (deep / name).write_text("words\n")
    top = driver.write_file("top.txt", "words\n")
    steps = (message(read(top)), message(read(deep / "one.txt")), message(read(deep / "two.txt")))
    harness.api.script(driver.name, *steps, otherwise=DONE)
    driver.run_turn()
    assert list_texts(driver, 1) == []
    tabs, semicolons = list_texts(driver, 2)
    assert tabs.startswith("<ostler-instructions ")
    assert "Use tabs." in tabs
    assert "And no semicolons." in semicolons
    assert list_texts(driver, 3) == []
