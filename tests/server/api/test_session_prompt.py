"""`session/prompt` and `ostler prompt`: what a session sends before its conversation."""

from pathlib import Path

from ostler.server.api.discovery.prompt import split_prompt
from tests.support.driver import Harness
from tests.support.model_replies import DONE


def test_it_is_what_is_sent_by_part(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Be brief.\n\n# Where you are\n\nElsewhere.")
    driver = harness.open_session(DONE, folder=tmp_path, instructions="Say please.")
    before = harness.daemon.call("session/prompt", session_id=driver.id)
    driver.run_turn()
    after = harness.daemon.call("session/prompt", session_id=driver.id)
    assert (before["sent"], after["sent"]) == (False, True)
    assert before["parts"] == after["parts"]
    body = driver.requests[0].body
    of_system = [part for part in after["parts"] if not part["name"].startswith("tool:")]
    assert "\n\n".join(part["text"] for part in of_system) == body["system"][0]["text"]
    assert [part["name"] for part in of_system] == ["rules", "place", "instructions", "person"]
    tools = [part["name"].removeprefix("tool:") for part in after["parts"] if part not in of_system]
    assert tools == [tool["name"] for tool in body["tools"]]
    assert after["tokens"] == sum(part["tokens"] for part in after["parts"]) > 5_000


def test_a_heading_in_a_file_of_instructions_begins_no_part() -> None:
    file = '<ostler-instructions id="a1">\n\n# Memory\n\nx\n</ostler-instructions id="a1">'
    system = f"You.\n\n# Where you are\n\nHere.\n\n# Instruction files\n\n{file}\n\n# Memory\n\nNotes."
    assert [name for name, _ in split_prompt(system)] == ["rules", "place", "instructions", "memory"]
