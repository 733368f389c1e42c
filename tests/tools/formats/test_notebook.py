"""Read and notebooks: cells, outputs, pictures, and what is broken."""

import base64
import functools
import io
import json
import os
import random
from collections.abc import Callable
from typing import Any

import nbformat.v4
import pytest
from PIL import Image

from ostler.tools.files.edit import Edit
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from ostler.tools.formats import notebook_json
from ostler.tools.formats.image import Picture
from ostler.tools.formats.notebook import MAX_PICTURE_CHARS, Cell, LargePicture, RenderedOutput, open_large_pictures
from tests.support.tool_calls import Session, put_file

pytestmark = pytest.mark.anyio
READ = Read()


def build_code_cell(source: str, *outputs: Any, cell_id: str = "c1", run: int | None = None) -> Any:
    return nbformat.v4.new_code_cell(source, outputs=list(outputs), id=cell_id, execution_count=run)  # type: ignore[no-untyped-call]


def build_markdown_cell(source: str, cell_id: str = "m1") -> Any:
    return nbformat.v4.new_markdown_cell(source, id=cell_id)  # type: ignore[no-untyped-call]


def build_stream_output(text: str, name: str = "stdout") -> Any:
    return nbformat.v4.new_output("stream", name=name, text=text)  # type: ignore[no-untyped-call]


def build_error_output(*traceback: str) -> Any:
    return nbformat.v4.new_output("error", ename="E", evalue="v", traceback=list(traceback))  # type: ignore[no-untyped-call]


def build_display_output(data: dict[str, Any], kind: str = "display_data") -> Any:
    return nbformat.v4.new_output(kind, data)  # type: ignore[no-untyped-call]


def write_notebook(session: Session, *cells: Any, name: str = "a.ipynb", **metadata: Any) -> str:
    notebook = nbformat.v4.new_notebook(cells=list(cells), metadata=metadata)  # type: ignore[no-untyped-call]
    path = session.folder / name
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
    return str(path)


def write_raw_notebook(session: Session, content: Any) -> str:
    path = session.folder / "raw.ipynb"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


@functools.cache
def encode_plot(width: int, height: int) -> str:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(file, "PNG", compress_level=1)
    return base64.b64encode(file.getvalue()).decode()


async def test_cells_are_shown_with_ids_sources_and_outputs(session: Session) -> None:
    path = write_notebook(
        session,
        build_markdown_cell("# Title\nwords"),
        build_code_cell(
            "print('a')\nx",
            build_stream_output("a\n"),
            build_display_output({"text/plain": "42"}, "execute_result"),
            run=3,
        ),
        build_code_cell("1 / 0", build_error_output("\x1b[31mE\x1b[0m: v"), cell_id="c2"),
        language_info={"name": "julia"},
    )
    output = (await session.expect_result(READ, file_path=path)).output
    assert (output.kind, output.language, output.total_cells) == ("notebook", "julia", 3)
    assert READ.render(output) == [
        {
            "type": "text",
            "text": (
                '<cell id="m1" type="markdown">\n# Title\nwords\n</cell>\n'
                '<cell id="c1" type="julia" run="3">\nprint(\'a\')\nx\n</cell>\n'
                '<output kind="stdout">\na\n</output>\n'
                '<output kind="execute_result">\n42\n</output>\n'
                '<cell id="c2" type="julia">\n1 / 0\n</cell>\n'
                '<output kind="error">\nE: v\n</output>'
            ),
        }
    ]


async def test_pictures_of_outputs_are_image_blocks(session: Session) -> None:
    small = encode_plot(20, 10)
    path = write_notebook(
        session,
        build_code_cell("plot()", build_display_output({"image/png": small, "text/plain": "<Figure>"})),
        build_markdown_cell("end"),
    )
    output = (await session.expect_result(READ, file_path=path)).output
    before, image, after = READ.render(output)
    assert before["text"] == ('<cell id="c1" type="python">\nplot()\n</cell>\n<output kind="display_data">\n<Figure>\n')
    assert image == {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": small}}
    assert after["text"] == '</output>\n<cell id="m1" type="markdown">\nend\n</cell>'
    assert small not in json.dumps(output.model_dump(mode="json"))


async def test_large_pictures_are_made_smaller_however_large_a_file_may_be(session: Session) -> None:
    large = build_display_output({"image/png": encode_plot(4000, 3000), "text/plain": "<Figure>"})
    path = write_notebook(
        session, build_code_cell("a", build_display_output({"image/png": encode_plot(2000, 1000)}), large)
    )
    outputs = (await session.expect_result(READ, file_path=path)).output.cells[0].outputs
    picture = outputs[0].pictures[0]
    assert (picture.original_width, picture.width, picture.height) == (2000, 1568, 784)
    [picture] = outputs[1].pictures
    assert (picture.original_width, picture.width, picture.height) == (4000, 1568, 1176)
    assert outputs[1].text == "<Figure>"


async def test_a_picture_that_no_process_opens_is_words(session: Session) -> None:
    damaged = base64.b64encode(base64.b64decode(encode_plot(4000, 3000))[:300]).decode()
    path = write_notebook(
        session,
        build_code_cell(
            "a",
            build_display_output({"image/png": damaged, "text/plain": "<Figure>"}),
            build_display_output({"image/png": damaged}),
        ),
    )
    first, second = (await session.expect_result(READ, file_path=path)).output.cells[0].outputs
    assert (first.pictures, second.pictures) == ([], [])
    assert first.text.startswith("<Figure>\n(The image/png is a damaged image (300 bytes): ")
    assert second.text.startswith("(The image/png is a damaged image (300 bytes): ")


async def test_no_more_pictures_are_opened_when_those_that_are_shown_are_large_enough() -> None:
    small = Picture("image/png", "x" * MAX_PICTURE_CHARS, (1, 1), (1, 1))
    outputs = [
        RenderedOutput("display_data", "", [small]),
        RenderedOutput("display_data", "", [], [LargePicture("image/png", b"")]),
    ]
    [cell] = await open_large_pictures([Cell("c", "code", "a", None, outputs)])
    assert [each.pictures for each in cell.outputs] == [[small], []]
    assert cell.outputs[1].text == "(a picture is left out: those that are shown are large enough)"


async def test_damaged_pictures_are_words(session: Session) -> None:
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n....").decode()
    path = write_notebook(
        session,
        build_code_cell(
            "a",
            build_display_output({"image/png": png}),
            build_display_output({"image/jpeg": "§§"}),
            build_display_output({"image/png": "YQ=="}),
        ),
    )
    texts = [each.text for each in (await session.expect_result(READ, file_path=path)).output.cells[0].outputs]
    assert texts[0].startswith("(The image/png is a damaged image (12 bytes): ")
    assert texts[1] == "(The image/jpeg is damaged: it is no base64.)"
    assert texts[2] == "(The image/png is no image that can be shown: PNG, JPEG, GIF and WebP are.)"


async def test_only_twenty_pictures_are_shown(session: Session) -> None:
    path = write_notebook(session, build_code_cell("a", *[build_display_output({"image/png": encode_plot(2, 2)})] * 22))
    outputs = (await session.expect_result(READ, file_path=path)).output.cells[0].outputs
    assert sum(len(each.pictures) for each in outputs) == 20
    assert outputs[-1].text == "(a picture is left out: 20 are shown already)"


async def test_a_long_output_is_cut_and_marked(session: Session) -> None:
    path = write_notebook(session, build_code_cell("a", build_stream_output("x" * 10_000 + "yz")))
    text = (await session.expect_result(READ, file_path=path)).output.cells[0].outputs[0].text
    assert text == "x" * 10_000 + "\n… (cut: 2 more characters)"


async def test_other_forms_are_shown_as_well_as_can_be(session: Session) -> None:
    path = write_notebook(
        session,
        build_code_cell(
            "a",
            build_display_output({"text/html": "<b>x</b>"}),
            build_display_output({"application/json": {"a": [1]}}),
            build_display_output({"image/svg+xml": "<svg/>"}),
            build_display_output({}),
        ),
    )
    texts = [each.text for each in (await session.expect_result(READ, file_path=path)).output.cells[0].outputs]
    assert texts == ["<b>x</b>", '{"a": [1]}', "(not shown: image/svg+xml)", "(not shown: nothing)"]


async def test_cells_of_old_notebooks_go_by_their_place(session: Session) -> None:
    cells = [{"cell_type": "raw", "metadata": {}, "source": ["a\n", "b"]}, {"cell_type": "code", "source": "c"}]
    path = write_raw_notebook(session, {"nbformat": 4, "nbformat_minor": 2, "metadata": {}, "cells": cells})
    shown_cells = (await session.expect_result(READ, file_path=path)).output.cells
    assert [(cell.id, cell.source) for cell in shown_cells] == [("cell-0", "a\nb"), ("cell-1", "c")]


async def test_offset_and_limit_count_cells(session: Session) -> None:
    path = write_notebook(session, *[build_markdown_cell(f"cell {number}", f"m{number}") for number in range(1, 11)])
    text = await session.expect_text(READ, file_path=path, offset=4, limit=2)
    assert text == (
        '<cell id="m4" type="markdown">\ncell 4\n</cell>\n<cell id="m5" type="markdown">\ncell 5\n</cell>\n'
        "(5 more cells; go on with offset 6)"
    )
    past = await session.expect_text(READ, file_path=path, offset=11)
    assert past == "(The notebook has only 10 cells: cell 11 is past its end.)"


async def test_the_same_cells_are_not_shown_again(session: Session) -> None:
    path = write_notebook(session, *[build_markdown_cell(f"cell {number}", f"m{number}") for number in range(1, 11)])
    await session.expect_result(READ, file_path=path, limit=5)
    again = await session.expect_text(READ, file_path=path, offset=2, limit=2)
    assert again == "(These cells are in the conversation already, and the file has not changed since.)"
    assert (await session.expect_result(READ, file_path=path)).output.kind == "notebook"
    write_notebook(session, build_markdown_cell("other"))
    os.utime(path, ns=(1, 1))
    assert (await session.expect_result(READ, file_path=path)).output.cells[0].source == "other"


async def test_an_empty_notebook_says_so(session: Session) -> None:
    assert await session.expect_text(READ, file_path=write_notebook(session)) == "(The notebook has no cells.)"


async def test_too_many_tokens_are_an_error_that_says_how_to_go_on(session: Session) -> None:
    path = write_notebook(session, *[build_markdown_cell("word " * 10_000, f"m{number}") for number in range(3)])
    assert (await session.expect_failure(READ, file_path=path)).message == (
        f"Cells 1-3 of 3 in {path} are more than 25000 tokens. "
        "Read fewer with offset and limit, which count the cells of a notebook, or find the place with Grep."
    )
    path = write_notebook(session, build_markdown_cell("word " * 30_000))
    assert (await session.expect_failure(READ, file_path=path)).message == (
        f"Cells 1-1 of 1 in {path} are more than 25000 tokens. "
        "Find the place with Grep, or take a part of the file with a command."
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is no valid notebook: its JSON is broken ("),
        ("", "is empty: there is no notebook in it yet. Write creates it."),
        ("[" * 100_000, "is no valid notebook: its JSON is broken ("),
        ([], "is no notebook: it does not say which nbformat it has."),
        ({"cells": []}, "is no notebook: it does not say which nbformat it has."),
        ({"nbformat": 3, "worksheets": []}, "is a notebook of nbformat 3, and only 4 is known here. Convert it first"),
        ({"nbformat": 5, "cells": []}, "is a notebook of nbformat 5, and only 4 is known here."),
        ({"nbformat": 4}, "is no valid notebook: it has no list of cells."),
        ({"nbformat": 4, "cells": [3]}, "is no valid notebook: cell 0 has no type or no source."),
        ({"nbformat": 4, "cells": [{"cell_type": "code", "source": 3}]}, "cell 0 has no type or no source."),
    ],
)
async def test_what_is_no_notebook_is_refused(session: Session, content: Any, words: str) -> None:
    path = write_raw_notebook(session, content)
    failure = await session.expect_failure(READ, file_path=path)
    assert failure.message.startswith(path)
    assert words in failure.message
    assert session.reads.by_path == {}


async def test_odd_outputs_do_no_harm(session: Session) -> None:
    outputs: list[Any] = [
        3,
        {},
        {"output_type": 3},
        {"output_type": "stream"},
        {"output_type": "error", "traceback": None},
        {"output_type": "error", "traceback": 3},
    ]
    outputs += [
        {"output_type": "display_data", "data": 3},
        {"output_type": "display_data", "data": {"text/plain": None}},
    ]
    cell = {"cell_type": "code", "source": "", "outputs": outputs, "execution_count": "x", "id": 7}
    path = write_raw_notebook(
        session, {"nbformat": 4, "nbformat_minor": "x", "metadata": 3, "cells": [cell, {**cell, "outputs": 3}]}
    )
    output = (await session.expect_result(READ, file_path=path)).output
    assert [each.id for each in output.cells] == ["cell-0", "cell-1"]
    assert len(output.cells[0].outputs) == 7
    assert READ.render(output)


async def test_half_a_character_is_shown_as_one_that_is_unknown(session: Session) -> None:
    printed = {"output_type": "stream", "name": "stdout", "text": "out \ud800"}
    drawn = {"output_type": "display_data", "data": {"\ud800": ""}}
    cell = {"cell_type": "code", "id": "a\ud800", "source": ["x \ud800\n", "y"], "outputs": [printed, drawn]}
    path = write_raw_notebook(session, {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]})
    text = await session.expect_text(READ, file_path=path)
    assert text.startswith('<cell id="a\N{REPLACEMENT CHARACTER}" type="python">\nx \N{REPLACEMENT CHARACTER}\ny\n')
    assert "\nout \N{REPLACEMENT CHARACTER}\n" in text
    assert text.encode()


async def test_a_notebook_of_more_than_twenty_thousand_cells_is_refused_and_one_less_is_read(session: Session) -> None:
    path = session.folder / "many.ipynb"
    # What is only text of a cell does not count.
    cells = [{"cell_type": "raw", "metadata": {}, "source": '"cell_type"'} for _ in range(20_001)]
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}))
    failure = await session.expect_failure(READ, file_path=str(path))
    assert failure.message == f"{path} is too large for a notebook (20001 cells; the limit is 20000)."
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells[1:]}))
    assert "cell-0" in await session.expect_text(READ, file_path=str(path), limit=2)


async def test_a_notebook_of_more_than_64_megabytes_is_refused(session: Session) -> None:
    path = session.folder / "a.ipynb"
    with path.open("wb") as file:
        file.write(b"{")
        file.truncate(65 * 1024 * 1024)
    failure = await session.expect_failure(READ, file_path=str(path))
    assert failure.message == f"{path} is too large for a notebook (65.0 MB; the limit is 64.0 MB)."


def build_notebook_text(values: str, place: str = "metadata") -> str:
    """A notebook with these values in a place of its only cell."""
    cell = '{"cell_type": "code", "id": "a", "execution_count": null, "metadata": {}, "outputs": [], "source": ""}'
    empty = {"metadata": "{}", "outputs": "[]", "source": '""'}[place]
    cell = cell.replace(f'"{place}": {empty}', f'"{place}": {values}')
    return f'{{"cells": [{cell}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}'


# Made when they are needed: every process that collects the tests would make all of them.
@pytest.mark.parametrize(
    ("build_values", "place"),
    [
        (lambda: '{"x": [' + "1.5," * 500_000 + "1]}", "metadata"),
        (lambda: '{"x": [' + "[]," * 200_000 + "1]}", "metadata"),
        (lambda: "{" + ",".join(f'"{number}":""' for number in range(250_001)) + "}", "metadata"),
        (lambda: "[" + r'"\"\\",' * 500_000 + '"x"]', "source"),
        (
            lambda: '[{"output_type": "display_data", "data": {"application/json": [' + "1," * 500_000 + "1]}}]",
            "outputs",
        ),
        (lambda: "[" + '{"output_type": "stream"},' * 150_000 + "{}]", "outputs"),
    ],
    ids=["numbers", "lists", "names", "lines", "data", "outputs"],
)
async def test_a_notebook_of_more_than_half_a_million_values_is_refused(
    session: Session, build_values: Callable[[], str], place: str
) -> None:
    path = write_raw_notebook(session, build_notebook_text(build_values(), place))
    assert (await session.expect_failure(READ, file_path=path)).message == (
        f"{path} is too large for a notebook (its JSON holds more than 500000 values). "
        "Take a part of it with a command, or clear its outputs, as with `jupyter nbconvert --clear-output`."
    )
    assert session.reads.by_path == {}


async def test_the_large_data_of_a_chart_is_read(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_json, "MAX_VALUES", 50_000)
    data = "[" + "0.123456789," * 49_000 + "-1.5e300]"
    path = write_raw_notebook(
        session,
        build_notebook_text(f'[{{"output_type": "display_data", "data": {{"application/json": {data}}}}}]', "outputs"),
    )
    text = (await session.expect_result(READ, file_path=path)).output.cells[0].outputs[0].text
    assert text.startswith("[0.123456789, 0.123456789, ")
    assert text.endswith(" more characters)")


# More than there may be values, and long enough that each place of their escapes is at a border of the pieces that are
# looked at.
@pytest.mark.parametrize("part", ['",', '\\",['], ids=["quotes", "backslashes"])
async def test_commas_and_brackets_within_texts_are_no_values(session: Session, part: str) -> None:
    printed = part * 510_000
    cell = {"cell_type": "code", "source": "", "outputs": [{"output_type": "stream", "text": printed}]}
    path = write_raw_notebook(session, {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [cell]})
    assert (await session.expect_result(READ, file_path=path)).output.cells[0].outputs[0].text.startswith(printed[:100])


async def test_a_notebook_that_is_nested_too_deep_is_refused(session: Session) -> None:
    path = write_raw_notebook(session, build_notebook_text("[" * 96 + "1" + "]" * 96, "metadata"))
    assert (await session.expect_result(READ, file_path=path)).output.total_cells == 1
    path = write_raw_notebook(session, build_notebook_text("[" * 97 + "1" + "]" * 97, "metadata"))
    words = "cannot be used as a notebook: its JSON is nested deeper than 100."
    assert (await session.expect_failure(READ, file_path=path)).message == f"{path} {words}"


async def test_a_notebook_of_more_than_fifty_thousand_outputs_is_refused(session: Session) -> None:
    outputs = [{"output_type": "stream"}] * 50_001
    title, cell = {"cell_type": "raw", "source": ""}, {"cell_type": "code", "source": "", "outputs": outputs}
    path = write_raw_notebook(session, {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [title, cell]})
    words = "is too large for a notebook (50001 outputs; the limit is 50000)."
    assert (await session.expect_failure(READ, file_path=path, limit=1)).message == f"{path} {words}"
    cell["outputs"] = outputs[1:]
    write_raw_notebook(session, {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [title, cell]})
    assert (await session.expect_result(READ, file_path=path, limit=1)).output.total_cells == 2


async def test_thousands_of_empty_outputs_are_too_many_tokens(session: Session) -> None:
    path = write_raw_notebook(
        session, build_notebook_text("[" + '{"output_type": "stream"},' * 4_999 + "{}]", "outputs")
    )
    words = f"Cells 1-1 of 1 in {path} are more than 25000 tokens."
    assert (await session.expect_failure(READ, file_path=path)).message.startswith(words)
    path = write_raw_notebook(
        session, build_notebook_text("[" + '{"output_type": "stream"},' * 2_999 + "{}]", "outputs")
    )
    assert len((await session.expect_result(READ, file_path=path)).output.cells[0].outputs) == 3_000


@pytest.mark.parametrize(
    ("part", "count"),
    [("x", 24_200_000), (r"\n", 5_000_000), (r"\"", 5_000_000)],
    ids=["plain", "lines", "quotes"],
)
async def test_a_text_that_would_be_parsed_in_one_long_go_is_refused(session: Session, part: str, count: int) -> None:
    path = write_raw_notebook(session, build_notebook_text(f'["{part * count}"]', "metadata"))
    words = "is too large for a notebook (it holds a text of about 24000000 characters or more)."
    assert (await session.expect_failure(READ, file_path=path)).message.startswith(f"{path} {words}")


async def test_many_long_texts_are_no_long_one(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_json, "MAX_STRING", 2_400_000)
    texts = ",".join(['"' + r"<p class=\"a\">" * 20_000 + '"'] * 10)
    path = write_raw_notebook(session, build_notebook_text(f"[{texts}]", "metadata"))
    assert (await session.expect_result(READ, file_path=path)).output.total_cells == 1


WRITE = Write()


EDIT = Edit()


NOTEBOOK = NotebookEdit()


async def test_the_pictures_of_a_notebook_are_together_no_more_than_one_answer_takes(session: Session) -> None:
    def output(number: int) -> dict[str, Any]:
        file = io.BytesIO()
        noise = Image.frombytes("RGB", (1000, 1000), random.Random(number).randbytes(3_000_000))
        noise.save(file, "PNG", compress_level=0)  # a better compression leaves as much of it
        data = {"image/png": base64.b64encode(file.getvalue()).decode()}
        return {"output_type": "display_data", "data": data, "metadata": {}}

    cell: dict[str, Any] = {"cell_type": "code", "id": "c", "metadata": {}, "execution_count": 1, "source": ["draw()"]}
    cell["outputs"] = [output(number) for number in range(4)]
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    shown = (await session.expect_result(READ, file_path=put_file(session, "a.ipynb", text))).output.cells[0].outputs
    # Each has 4 MB as it is sent: with the third, more than 8 MB are used up.
    assert [len(each.pictures) for each in shown] == [1, 1, 1, 0]
    assert shown[3].text == "(a picture is left out: 3 are shown already)"
