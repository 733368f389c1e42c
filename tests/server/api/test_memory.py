"""Memory notes over the wire: added, listed, in the prompt, and guarded."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.driver import Harness, SessionDriver
from tests.support.messages_api.replies import message
from tests.support.model_replies import DONE, edit, read, run_scripted_turn, write

Json = dict[str, Any]
SECRET = "AKIA" + "ABCDEFGHIJKLMNOP"


def get_prompt(driver: SessionDriver) -> str:
    return str(driver.requests[-1].body["system"][0]["text"])


def add(driver: SessionDriver, text: str, **more: Any) -> Json:
    found: Json = driver.daemon.call("memory/add", session_id=driver.id, text=text, **more)
    return found


def test_a_note_is_kept_and_known_to_sessions_that_begin_later(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(otherwise=DONE)
    noted = add(driver, "The mare bites.\nMind the left side.")
    assert noted["path"] == str(driver.folder / ".ostler" / "memory" / "MEMORY.md")
    own = add(driver, "I like short answers.", scope="user")
    assert own["path"].startswith(str(harness.daemon.home))
    assert os.stat(own["path"]).st_mode & 0o077 == 0
    add(driver, "The foal does not.")
    assert Path(noted["path"]).read_text() == "- The mare bites.\n  Mind the left side.\n- The foal does not.\n"
    (driver.folder / ".ostler" / "memory" / "tack.md").write_text("Saddles hang left.\n")
    notes = harness.daemon.call("memory/list", session_id=driver.id)["notes"]
    assert [(one["scope"], Path(one["path"]).name, one["in_prompt"]) for one in notes] == [
        ("user", "MEMORY.md", True),
        ("project", "MEMORY.md", True),
        ("project", "tack.md", False),
    ]
    driver.run_turn()
    prompt = get_prompt(driver)
    assert "- The mare bites." in prompt
    assert "I like short answers." in prompt
    assert "Saddles" not in prompt
    parts = harness.daemon.call("session/context", session_id=driver.id)["parts"]
    assert next(part["tokens"] for part in parts if part["name"] == "memory") > 0
    before = prompt
    add(driver, "And the stallion kicks.")
    driver.run_turn()
    assert get_prompt(driver) == before  # a prompt that was sent once does not change


def test_a_secret_is_refused_in_the_projects_notes_only(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session(rules={"allow": ["Write", "Edit"]})
    error = driver.expect_error("memory/add", session_id=driver.id, text=f"The key is {SECRET}.")
    assert (error["code"], error["data"]["errors"][0]["path"]) == (-32602, "text")
    assert "an AWS access key" in str(error)
    assert not (driver.folder / ".ostler").exists()
    assert add(driver, f"The key is {SECRET}.", scope="user")["scope"] == "user"
    path = driver.folder / ".ostler" / "memory" / "keys.md"
    run_scripted_turn(harness, driver, write(path, f"key: {SECRET}\n"), write(path, "key: in the vault\n"))
    first, second = driver.fetch_results()
    assert first["is_error"]
    assert "an AWS access key" in str(first["content"])
    assert not second["is_error"]
    made = iter([message(edit(path, "in the vault", SECRET))])
    harness.api.script(driver.name, otherwise=lambda request: next(made, DONE))
    driver.run_turn()
    assert len(driver.fetch_results()) == 3
    assert driver.fetch_results()[-1]["is_error"]
    assert path.read_text() == "key: in the vault\n"


def test_own_notes_are_read_unasked_and_written_after_an_ask(own_harness: Callable[..., Harness]) -> None:
    harness = own_harness()
    driver = harness.open_session()
    path = add(driver, "Short answers.", scope="user")["path"]
    harness.api.script(driver.name, message(read(path)), message(edit(path, "Short", "Long")), otherwise=DONE)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert ask["call"]["tool"] == "Edit"
    driver.answer(ask, "allow")
    assert driver.wait_for_turn_end(turn_id)["reason"] == "completed"
    assert Path(path).read_text() == "- Long answers.\n"
    assert "Short answers." in driver.fetch_result_texts()[0]
    other = Path(harness.daemon.home) / "memory.md"
    other.write_text("no note\n")
    harness.api.script(driver.name, otherwise=lambda request: message(read(other)) if request.step < 4 else DONE)
    driver.run_turn()
    assert "in the daemon's own folder" in driver.fetch_result_texts()[-1]


def test_the_projects_notes_count_only_in_a_trusted_folder(harness: Harness) -> None:
    driver = harness.open_session(otherwise=DONE, on_ask="deny")
    settings = driver.folder / ".ostler"
    (settings / "memory").mkdir(parents=True)
    (settings / "memory" / "MEMORY.md").write_text("- do as I say\n")
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}
    (settings / "settings.json").write_text(json.dumps({"hooks": hooks}))
    driver.run_turn()
    assert "do as I say" not in get_prompt(driver)
    trusting = harness.open_session(otherwise=DONE, folder=driver.folder, trust=True)
    trusting.run_turn()
    assert "do as I say" in get_prompt(trusting)


def test_a_large_index_is_bounded_and_still_takes_notes(harness: Harness) -> None:
    driver = harness.open_session(otherwise=DONE)
    folder = driver.folder / ".ostler" / "memory"
    folder.mkdir(parents=True)
    index = folder / "MEMORY.md"
    index.write_text("".join(f"- note {at} " + "x" * 90 + "\n" for at in range(100_000)))
    assert index.stat().st_size > 10_000_000
    driver.run_turn()
    prompt = get_prompt(driver)
    assert "- note 199 " in prompt
    assert "- note 201 " not in prompt
    assert 'shown="the first 200 lines' in prompt
    assert add(driver, "One more.")["size"] > 10_000_000
    with index.open("rb") as file:
        file.seek(-12, os.SEEK_END)
        assert file.read() == b"- One more.\n"


def test_what_is_no_note_is_left_alone(harness: Harness, tmp_path: Path) -> None:
    driver = harness.open_session(otherwise=DONE)
    folder = driver.folder / ".ostler"
    folder.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "MEMORY.md").write_text("- not of this project\n")
    (folder / "memory").symlink_to(elsewhere)
    error = driver.expect_error("memory/add", session_id=driver.id, text="Hay.")
    assert error["data"]["code"] == "conflict"
    driver.run_turn()
    assert "not of this project" not in get_prompt(driver)
    (folder / "memory").unlink()
    (folder / "memory").mkdir()
    (folder / "memory" / "MEMORY.md").write_bytes(b"\0\1\2 binary")
    other = harness.open_session(otherwise=DONE, folder=driver.folder)
    other.run_turn()
    assert "<ostler-memory" not in get_prompt(other)
    for text in ("", "   ", "x" * 10_001):
        assert driver.expect_error("memory/add", session_id=driver.id, text=text)["code"] == -32602
