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

from tests.server.engine.calls.file_changes import diff, done
from tests.support.driver import Stage
from tests.support.messages_api.replies import calls, message
from tests.support.model_replies import DONE, read
from tests.tools.formats.pdf_documents import PICTURE, nested_forms, pdf, words

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


def picture(path: Path, width: int, height: int) -> None:
    file = io.BytesIO()
    Image.effect_noise((width, height), 50).save(file, "PNG")
    path.write_bytes(file.getvalue())


def notebook(path: Path) -> None:
    path.write_text(json.dumps({"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n")


def test_a_picture_reaches_the_model_and_is_told_to_clients_without_its_data(stage: Stage, folder: Path) -> None:
    path = folder / "a.png"
    picture(path, 3000, 1500)
    talk = stage.talk(message(read(path)), DONE, folder=folder)
    talk.turn()
    [result] = [block for block in talk.requests[-1].messages[-1]["content"] if block["type"] == "tool_result"]
    about, image = result["content"]
    assert about["text"].startswith(f"Image {path} (3000x1500, shown as 1568x784 pixels, ")
    assert image["source"]["media_type"] == "image/png"
    with Image.open(io.BytesIO(base64.b64decode(image["source"]["data"]))) as sent:
        assert sent.size == (1568, 784)
    completed = talk.wait("tool.completed")["data"]["call"]
    assert completed["output"]["image"] == {
        "media_type": "image/png",
        "original_width": 3000,
        "original_height": 1500,
        "width": 1568,
        "height": 784,
        "animated": False,
    }
    assert len(json.dumps(completed["output"])) < 1000
    talk.is_usable()


def test_documents_are_read_by_a_process_that_the_daemon_takes_for_no_orphan(stage: Stage, folder: Path) -> None:
    path = folder / "a.pdf"
    path.write_bytes(pdf([words("The first page"), PICTURE]))
    beside = calls("Bash", {"command": "sleep 0.01 & echo started"})
    many = [calls("Read", {"file_path": str(path), "pages": pages}) for pages in ("1", "2", "1-2")]
    talk = stage.talk(message(*many, beside), DONE, folder=folder, rules={"allow": ["Bash"]})
    talk.turn()
    shown = [[part["type"] for part in result["content"]] for result in talk.results()]
    assert shown == [["text"], ["text", "image", "text"], ["text", "image", "text"], ["text"]]
    talk.is_usable()


def test_an_interrupted_read_of_a_document_leaves_nothing(stage: Stage, folder: Path) -> None:
    path = folder / "a.pdf"
    path.write_bytes(pdf(["/X0 Do"], further=nested_forms(12, 6)))
    talk = stage.talk(message(read(path)), DONE, folder=folder)
    turn_id = talk.start()
    talk.wait("tool.started")
    stage.daemon.call("turn/interrupt", turn_id=turn_id)
    assert talk.ended()["reason"] == "interrupted"
    talk.is_usable()


def test_a_notebook_is_read_changed_and_shown_in_the_diff(stage: Stage, folder: Path) -> None:
    path = folder / "a.ipynb"
    notebook(path)
    change = calls("NotebookEdit", {"notebook_path": str(path), "cell_id": "c", "new_source": "2"})
    talk = done(stage, folder, [read(path), change])
    first, second = talk.result_texts()
    assert first == '<cell id="c" type="python">\n1\n</cell>'
    assert second == f"Cell replaced: c (code) in {path}"
    assert json.loads(path.read_text())["cells"][0]["source"] == ["2"]
    [changed] = diff(talk)
    assert (changed["path"], changed["additions"], changed["deletions"]) == (str(path), 1, 1)
    talk.is_usable()


def test_rules_about_edits_bind_notebooks(stage: Stage, folder: Path) -> None:
    path = folder / "a.ipynb"
    notebook(path)
    change = calls("NotebookEdit", {"notebook_path": str(path), "cell_id": "c", "new_source": "2"})
    rules = {"deny": [f"Edit(/{path})"]}
    talk = stage.talk(message(read(path)), message(change), DONE, folder=folder, mode="acceptEdits", rules=rules)
    talk.turn()
    assert json.loads(path.read_text())["cells"][0]["source"] == ["1"]
    assert talk.results()[1]["is_error"]


def test_what_was_read_is_known_after_a_restart(own_stage: Callable[..., Stage], folder: Path) -> None:
    path = folder / "a.ipynb"
    notebook(path)
    change = calls("NotebookEdit", {"notebook_path": str(path), "cell_id": "c", "new_source": "2"})
    stage = own_stage()
    talk = stage.talk(message(read(path)), DONE, message(change), DONE, folder=folder, mode="acceptEdits")
    talk.turn()
    stage.restart()
    talk.reconnect()
    talk.turn()
    assert talk.result_texts()[-1] == f"Cell replaced: c (code) in {path}"


def test_a_link_to_a_name_that_is_not_utf8_can_be_read(stage: Stage, folder: Path) -> None:
    names = {"a.txt": b"caf\xe9.txt", "a.bin": b"caf\xe9.bin", "a.png": b"caf\xe9.png"}
    for link, name in names.items():
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            file.write({"a.txt": b"hello\n", "a.bin": b"\0\1", "a.png": b"\x89PNG\r\n\x1a\n"}[link])
        os.symlink(name, os.path.join(os.fsencode(folder), os.fsencode(link)))
    talk = stage.talk(message(*[read(folder / link) for link in names]), DONE, folder=folder)
    turn = talk.turn()
    assert turn["reason"] == "completed"
    text, binary, image = talk.result_texts()
    assert text == "     1\thello"
    assert "caf\ufffd.bin is a binary file (2 bytes)" in binary
    assert "caf\ufffd.png is a damaged image (8 bytes)" in image
    talk.is_usable()
