"""SendUserMessage: what people get, live and later, with files as they were when it was sent."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.protocol.errors import InvalidParams
from tests.clients.conftest import Cli
from tests.support.driver import Harness, Json
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 600
"""More than two pieces of bytes that are no text."""


@pytest.fixture
def assistant(own_harness: Callable[..., Harness]) -> Harness:
    return own_harness(OSTLER_ASSISTANT="true")


def test_a_message_reaches_who_is_there_and_who_comes_later(assistant: Harness, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    picture, note = folder / 'pláce "1".png', folder / "note.txt"
    picture.write_bytes(PICTURE)
    note.write_text("as it was")
    given = {"message": "**Done.**", "attachments": [str(picture), str(note)], "status": "proactive"}
    driver = assistant.open_session(message(calls("SendUserMessage", given)), otherwise=DONE, folder=folder)
    turn = driver.run_turn()
    assert (turn["reason"], driver.list_event_data("ask.opened")) == ("completed", [])
    brief = driver.wait("brief.sent")["data"]
    note.write_text("changed since")
    assert (brief["message"], brief["status"]) == ("**Done.**", "proactive")
    first, second = brief["attachments"]
    assert [first["is_image"], second["is_image"], first["size"], second["path"]] == [
        True,
        False,
        len(PICTURE),
        str(note),
    ]
    assert driver.fetch_result_texts() == [
        f"The person has the message.\nWith {picture} (150.0 KB), kept as {first['id']}.\n"
        f"With {note} (9 bytes), kept as {second['id']}."
    ]
    assert assistant.daemon.call("session/get", session_id=driver.id)["briefs"] == [brief]
    driver.reconnect(after=0)
    assert driver.wait("brief.sent")["data"] == brief, "who comes later"

    cli = Cli(assistant.daemon.home)
    attached = cli.run("attach", driver.id).out
    assert attached.count("✉ **Done.**\n") == 1
    assert f"\n  {note} (9 bytes): ostler show {second['id']} > FILE\n" in attached
    assert "✉ **Done.**\n" in cli.run("show", driver.id).out
    assert cli.run("show", second["id"]).out == "as it was"

    whole = assistant.daemon.send_http("GET", f"/results/{first['id']}")
    assert (whole.body, whole.headers["content-type"]) == (PICTURE, "image/png")
    assert whole.headers["content-disposition"] == "attachment; filename*=UTF-8''pl%C3%A1ce%20%221%22.png"
    plain = assistant.daemon.send_http("GET", f"/results/{second['id']}")
    assert (plain.body, plain.headers["content-disposition"]) == (b"as it was", 'attachment; filename="note.txt"')
    assert assistant.daemon.send_http("GET", f"/results/{first['id']}", authorised=False).status == 401
    refused = driver.expect_error("result/read", result_id=first["id"])
    assert refused["code"] == InvalidParams.code
    assert "download it from /results/" in str(refused)

    assistant.daemon.kill()
    assistant.daemon.start()
    assert assistant.daemon.send_http("GET", f"/results/{first['id']}").body == PICTURE, "after a crash"
    assistant.daemon.call("session/delete", session_id=driver.id)
    assert assistant.daemon.send_http("GET", f"/results/{first['id']}").status == 404


def test_what_cannot_be_sent_is_told_and_nothing_is_sent(assistant: Harness, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "secret.txt").write_text("s")
    (folder / "big").touch()
    with (folder / "big").open("r+b") as big:
        big.truncate(101 * 1024 * 1024)
    outside = tmp_path / "outside.txt"
    outside.write_text("o")
    wrong: dict[str, Json] = {
        "blank": {"message": " \n"},
        "relative": {"message": "a", "attachments": ["a.txt"]},
        "secre.txt does not exist": {"message": "a", "attachments": [str(folder / "secre.txt")]},
        "denies": {"message": "a", "attachments": [str(folder / "secret.txt")]},
        "a folder, not a file": {"message": "a", "attachments": [str(folder)]},
        "is too large to be sent: 101.0 MB": {"message": "a", "attachments": [str(folder / "big")]},
        "Nobody is asked": {"message": "a", "attachments": [str(outside)]},
        "status": {"message": "a", "status": "urgent"},
    }
    script = message(*(calls("Brief", given) for given in wrong.values()))
    rules = {"deny": ["Read(secret.txt)"]}
    driver = assistant.open_session(script, otherwise=DONE, folder=folder, on_ask="deny", rules=rules)
    driver.run_turn()
    told = driver.fetch_result_texts()
    found = {words: words.lower() in text.lower() for words, text in zip(wrong, told, strict=True)}
    assert all(found.values()), "\n".join(told)
    assert driver.list_event_data("brief.sent") == []


def test_it_is_there_in_assistant_mode_only(harness: Harness) -> None:
    driver = harness.open_session(message(calls("SendUserMessage", {"message": "Hello."})), otherwise=DONE)
    driver.run_turn()
    (text,) = driver.fetch_result_texts()
    assert "it is disabled" in text
    assert "SendUserMessage" not in str(driver.requests[0].body["tools"])
