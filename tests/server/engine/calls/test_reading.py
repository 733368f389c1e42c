"""What the model is sent of pictures, documents and notebooks, over the wire; and a notebook that it changes."""

import base64
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.server.engine.calls.file_changes import diff_session, run_editing_session
from tests.support.driver import Harness
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, read
from tests.tools.formats.pdf_documents import PICTURE, build_nested_forms, build_pdf, build_text_content

CELL: dict[str, Any] = {
    "cell_type": "code",
    "id": "c",
    "metadata": {},
    "execution_count": None,
    "outputs": [],
    "source": ["1"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "project"
    place.mkdir()
    return place


def write_picture(path: Path, width: int, height: int) -> None:
    file = io.BytesIO()
    Image.effect_noise((width, height), 50).save(file, "PNG")
    path.write_bytes(file.getvalue())


def write_notebook(path: Path) -> None:
    path.write_text(json.dumps({"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n")


def test_a_picture_reaches_the_model_and_is_told_to_clients_without_its_data(harness: Harness, folder: Path) -> None:
    path = folder / "a.png"
    write_picture(path, 3000, 1500)
    driver = harness.open_session(message(read(path)), DONE, folder=folder)
    driver.run_turn()
    [result] = [block for block in driver.requests[-1].messages[-1]["content"] if block["type"] == "tool_result"]
    about, image = result["content"]
    assert about["text"].startswith(f"Image {path} (3000x1500, shown as 1568x784 pixels, ")
    assert image["source"]["media_type"] == "image/png"
    with Image.open(io.BytesIO(base64.b64decode(image["source"]["data"]))) as sent:
        assert sent.size == (1568, 784)
    completed = driver.wait("tool.completed")["data"]["call"]
    assert completed["output"]["image"] == {
        "media_type": "image/png",
        "original_width": 3000,
        "original_height": 1500,
        "width": 1568,
        "height": 784,
        "animated": False,
    }
    assert len(json.dumps(completed["output"])) < 1000
    driver.expect_usable()


def test_documents_are_read_by_a_process_that_the_daemon_takes_for_no_orphan(harness: Harness, folder: Path) -> None:
    path = folder / "a.pdf"
    path.write_bytes(build_pdf([build_text_content("The first page"), PICTURE]))
    background_command = calls("Bash", {"command": "sleep 0.01 & echo started"})
    many = [calls("Read", {"file_path": str(path), "pages": pages}) for pages in ("1", "2", "1-2")]
    driver = harness.open_session(message(*many, background_command), DONE, folder=folder, rules={"allow": ["Bash"]})
    driver.run_turn()
    shown = [[part["type"] for part in result["content"]] for result in driver.fetch_results()]
    assert shown == [["text"], ["text", "image", "text"], ["text", "image", "text"], ["text"]]
    driver.expect_usable()


def test_an_interrupted_read_of_a_document_leaves_nothing(harness: Harness, folder: Path) -> None:
    path = folder / "a.pdf"
    path.write_bytes(build_pdf(["/X0 Do"], further=build_nested_forms(12, 6)))
    driver = harness.open_session(message(read(path)), DONE, folder=folder)
    turn_id = driver.start()
    driver.wait("tool.started")
    harness.daemon.call("turn/interrupt", turn_id=turn_id)
    assert driver.wait_for_turn_end()["reason"] == "interrupted"
    driver.expect_usable()


def test_a_notebook_is_read_changed_and_shown_in_the_diff(harness: Harness, folder: Path) -> None:
    path = folder / "a.ipynb"
    write_notebook(path)
    change = calls("NotebookEdit", {"notebook_path": str(path), "cell_id": "c", "new_source": "2"})
    driver = run_editing_session(harness, folder, [read(path), change])
    first, second = driver.fetch_result_texts()
    assert first == '<cell id="c" type="python">\n1\n</cell>'
    assert second == f"Cell replaced: c (code) in {path}"
    assert json.loads(path.read_text())["cells"][0]["source"] == ["2"]
    [changed] = diff_session(driver)
    assert (changed["path"], changed["additions"], changed["deletions"]) == (str(path), 1, 1)
    driver.expect_usable()


def test_rules_about_edits_bind_notebooks(harness: Harness, folder: Path) -> None:
    path = folder / "a.ipynb"
    write_notebook(path)
    change = calls("NotebookEdit", {"notebook_path": str(path), "cell_id": "c", "new_source": "2"})
    rules = {"deny": [f"Edit(/{path})"]}
    driver = harness.open_session(
        message(read(path)), message(change), DONE, folder=folder, mode="acceptEdits", rules=rules
    )
    driver.run_turn()
    assert json.loads(path.read_text())["cells"][0]["source"] == ["1"]
    assert driver.fetch_results()[1]["is_error"]


def test_what_was_read_is_known_after_a_restart(own_harness: Callable[..., Harness], folder: Path) -> None:
    path = folder / "a.ipynb"
    write_notebook(path)
    change = calls("NotebookEdit", {"notebook_path": str(path), "cell_id": "c", "new_source": "2"})
    harness = own_harness()
    driver = harness.open_session(message(read(path)), DONE, message(change), DONE, folder=folder, mode="acceptEdits")
    driver.run_turn()
    harness.restart()
    driver.reconnect()
    driver.run_turn()
    assert driver.fetch_result_texts()[-1] == f"Cell replaced: c (code) in {path}"


def test_a_link_to_a_name_that_is_not_utf8_can_be_read(harness: Harness, folder: Path) -> None:
    names = {"a.txt": b"caf\xe9.txt", "a.bin": b"caf\xe9.bin", "a.png": b"caf\xe9.png"}
    for link, name in names.items():
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            file.write({"a.txt": b"hello\n", "a.bin": b"\0\1", "a.png": b"\x89PNG\r\n\x1a\n"}[link])
        os.symlink(name, os.path.join(os.fsencode(folder), os.fsencode(link)))
    driver = harness.open_session(message(*[read(folder / link) for link in names]), DONE, folder=folder)
    turn = driver.run_turn()
    assert turn["reason"] == "completed"
    text, binary, image = driver.fetch_result_texts()
    assert text == "     1\thello"
    assert "caf\ufffd.bin is a binary file (2 bytes)" in binary
    assert "caf\ufffd.png is a damaged image (8 bytes)" in image
    driver.expect_usable()
