"""Read and PDF documents: pages as text or pictures, and what is bounded."""

import base64
import io
import os
import time
import zlib
from pathlib import Path

import anyio
import pytest
from PIL import Image

from ostler.tools.files.edit import Edit
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.reading.output import DocumentOutput, PageOutput
from ostler.tools.files.write import Write
from ostler.tools.formats import pdf, worker
from ostler.tools.formats.pdf import Page, Pages, load_document, parse_pages
from tests.support.tool_calls import Session, poll_until
from tests.tools.formats.pdf_documents import (
    PICTURE,
    build_locked_pdf,
    build_nested_forms,
    build_pdf,
    build_stream,
    build_text_content,
)

pytestmark = pytest.mark.anyio
READ = Read()


def write_file(session: Session, data: bytes, name: str = "a.pdf") -> str:
    path = session.folder / name
    path.write_bytes(data)
    return str(path)


def list_workers() -> list[str]:
    """Pids of our worker programs that run now as children of this process."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            parent = (each / "stat").read_text().rpartition(")")[2].split()[1]
            command = (each / "cmdline").read_bytes()
        except OSError:
            continue
        if int(parent) == os.getpid() and b"_worker.py" in command:
            found.append(each.name)
    return found


def compress_spaces(megabytes: int) -> bytes:
    """Compressed spaces: each block is independent of the others, so one is compressed once and repeated."""
    packer, block = zlib.compressobj(1), b" " * 1024 * 1024
    first = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + again * (megabytes - 1) + packer.flush()


async def test_a_small_document_is_shown_whole(session: Session) -> None:
    path = write_file(
        session, build_pdf([build_text_content("Good morning, reader"), build_text_content("Good night, everybody")])
    )
    output = (await session.expect_result(READ, file_path=path)).output
    assert (output.kind, output.total_pages) == ("pdf", 2)
    assert READ.render(output) == [
        {
            "type": "text",
            "text": (
                f"PDF document {path} (2 pages)\n"
                '<page number="1">\nGood morning, reader\n</page>\n'
                '<page number="2">\nGood night, everybody\n</page>'
            ),
        }
    ]


@pytest.mark.parametrize(
    ("pages", "numbers"), [("3", [3]), ("1-5", [1, 2, 3, 4, 5]), ("28-", [28, 29, 30]), ("29-40", [29, 30])]
)
async def test_parts_of_a_long_document_are_shown(session: Session, pages: str, numbers: list[int]) -> None:
    path = write_file(session, build_pdf([build_text_content(f"This is page {number}") for number in range(1, 31)]))
    output = (await session.expect_result(READ, file_path=path, pages=pages)).output
    assert (output.kind, output.total_pages) == ("parts", 30)
    assert [(page.number, page.text) for page in output.pages] == [(n, f"This is page {n}") for n in numbers]
    assert READ.summary(READ.parse({"file_path": path, "pages": pages})) == f"Read {path} (pages {pages})"


async def test_ten_pages_are_whole_and_eleven_need_pages(session: Session) -> None:
    ten = write_file(session, build_pdf([build_text_content("A page of text")] * 10))
    assert len((await session.expect_result(READ, file_path=ten)).output.pages) == 10
    eleven = write_file(session, build_pdf([build_text_content("A page of text")] * 11), "b.pdf")
    assert (await session.expect_failure(READ, file_path=eleven)).message == (
        f"{eleven} has 11 pages, and only documents of up to 10 are shown whole. "
        "Say which ones with pages, like '1-10', at most 20 in a call."
    )


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ("31", "{path} has only 30 pages: page 31 is past its end."),
        ("5-", "Pages 5 to 30 of {path} are more than 20, which is the most in a call. Say where to end, like '5-24'."),
        ("1-21", "pages is '1-21', but at most 20 pages can be read at once."),
        ("5-3", "pages is '5-3', which ends before it begins."),
        ("0", "pages begins with 0, but pages are counted from 1."),
        ("-3", "pages is '-3', but must be like '3', '1-5' or '10-'."),
        ("1,2", "pages is '1,2', but must be like '3', '1-5' or '10-'."),
        ("1 2", "pages is '1 2', but must be like '3', '1-5' or '10-'."),
        ("", "pages is '', but must be like '3', '1-5' or '10-'."),
    ],
)
async def test_pages_that_cannot_be_are_errors(session: Session, pages: str, said: str) -> None:
    path = write_file(session, build_pdf([build_text_content("A page of text")] * 30))
    assert (await session.expect_failure(READ, file_path=path, pages=pages)).message == said.format(path=path)


def test_pages_may_have_spaces() -> None:
    assert parse_pages(" 1 - 5 ") == Pages(1, 5)
    assert parse_pages("10-") == Pages(10, None)


async def test_lines_are_not_for_documents(session: Session) -> None:
    path = write_file(session, build_pdf([build_text_content("A page of text")]))
    failure = await session.expect_failure(READ, file_path=path, offset=3)
    assert failure.message == f"offset and limit count lines, and {path} is a PDF document. Use pages."


async def test_a_page_without_text_is_shown_as_a_picture(session: Session) -> None:
    path = write_file(
        session,
        build_pdf([build_text_content("Text and more text"), PICTURE, "", build_text_content("7") + " " + PICTURE]),
    )
    output = (await session.expect_result(READ, file_path=path)).output
    first, image, second, third, fourth = READ.render(output)
    assert first["text"].endswith('</page>\n<page number="2">\n(as a picture)\n')
    assert second["text"] == '</page>\n<page number="3">\n(nothing)\n</page>\n<page number="4">\n7\n(as a picture)\n'
    assert third["type"] == "image"
    assert fourth["text"] == "</page>"
    drawn = Image.open(io.BytesIO(base64.b64decode(image["source"]["data"])))
    assert (drawn.size, image["source"]["media_type"]) == ((1212, 1568), "image/jpeg")
    assert "data" not in output.model_dump(mode="json")["pages"][1]["picture"]


LINES = build_text_content("A line of text that is long enough")
LYING_RULES = "72 700 m 540 700 l S 72 690 400 0.5 re f 72 680 m 540 680 l S 72 670 m 540 670 l S"
TABLE = " ".join(f"{left} 300 m {left} 600 l S" for left in (72, 200, 300))
PLOT = " ".join(f"{left} {left} 3 3 re f" for left in range(100, 340, 20))
PIXELS = "BI /W 1 /H 1 /CS /G /BPC 8 ID x EI"


DRAWN = {
    "a box": PICTURE,
    "a slanting line": "100 100 m 300 200 l S",
    "a curve": "100 100 m 150 200 250 200 300 100 c S",
    "a table": TABLE,
    "a plot": PLOT,
    "a picture": f"q 200 0 0 100 72 72 cm {PIXELS} Q",
    "a form": "/X0 Do",
    "a form of small units": "q 100 0 0 100 0 0 cm /X1 Do Q",
}
PLAIN = {
    "nothing": "",
    "lying rules": LYING_RULES,
    "a background": "1 1 1 rg 0 0 612 792 re f",
    "an icon": f"q 12 0 0 12 72 72 cm {PIXELS} Q",
    "a margin": "72 300 m 72 600 l S",
    "text in a form": "/X2 Do",
}


async def test_pages_with_drawings_come_as_text_and_as_a_picture_and_others_as_text(session: Session) -> None:
    form = "/Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >>"
    forms = [build_stream(each.encode(), form) for each in (PICTURE, "1 1 2 2 re f", LINES)]
    pages = [f"{LINES} {content}" for content in (DRAWN | PLAIN).values()]
    path = write_file(session, build_pdf(pages, further=forms))
    output = (await session.expect_result(READ, file_path=path, pages=f"1-{len(pages)}")).output
    shown = dict(zip(DRAWN | PLAIN, output.pages, strict=True))
    assert all(page.text.startswith("A line of text that is long enough") for page in shown.values())
    assert {name for name, page in shown.items() if page.picture is not None} == set(DRAWN)
    assert [block["type"] for block in READ.render(output)].count("image") == len(DRAWN)


async def test_pictures_beside_texts_are_bounded_and_the_texts_are_kept(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, "_PICTURE_CHARS", 1)
    path = write_file(session, build_pdf([f"{LINES} {PICTURE}"] * 2))
    first, second = (await session.expect_result(READ, file_path=path)).output.pages
    assert (first.picture is not None, second.picture, second.text) == (True, None, first.text)
    assert second.trouble == "its drawings, and there is no more room for a picture in this read"


async def test_page_1500_of_2000_comes_within_a_second(session: Session) -> None:
    path = write_file(session, build_pdf([build_text_content(f"This is page {number}") for number in range(1, 2001)]))
    # Not at once on every machine: others use its processors, and the library may not be in the disk's cache yet.
    took = 0.0
    for number in range(1500, 1504):
        began = time.perf_counter()
        output = (await session.expect_result(READ, file_path=path, pages=str(number))).output
        took = time.perf_counter() - began
        assert output.pages[0].text == f"This is page {number}"
        if took < 1:
            break
    assert took < 1


async def test_a_document_that_needs_a_password_says_so(session: Session) -> None:
    path = write_file(session, build_locked_pdf([build_text_content("secret")]))
    assert (
        await session.expect_failure(READ, file_path=path)
    ).message == f"{path} is a PDF document that needs a password."


async def test_damaged_documents_are_refused(session: Session) -> None:
    whole = build_pdf([build_text_content("A page of text")] * 3)
    for data in (b"%PDF-1.4\n" + bytes(range(256)) * 4, whole[: len(whole) // 2], b"%PDF-"):
        path = write_file(session, data)
        failure = await session.expect_failure(READ, file_path=path)
        size = f"{len(data) / 1024:.1f} KB" if len(data) > 1023 else f"{len(data)} bytes"
        assert failure.message == f"{path} is a damaged PDF document ({size})."


async def test_a_mark_that_stands_a_bit_further_on_is_found(session: Session) -> None:
    path = write_file(
        session, b"Content-Type: application/pdf\n\n" + build_pdf([build_text_content("Found all the same")])
    )
    assert (await session.expect_result(READ, file_path=path)).output.pages[0].text == "Found all the same"


async def test_an_enormous_page_becomes_a_picture_of_the_usual_size(session: Session) -> None:
    path = write_file(session, build_pdf([PICTURE], box=(2_000_000_000, 2_000_000_000)))
    page = (await session.expect_result(READ, file_path=path)).output.pages[0]
    assert (page.picture.width, page.picture.height) == (1568, 1568)


async def test_a_document_that_takes_for_ever_is_given_up(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "TIME_LIMIT", 1.0)
    path = write_file(session, build_pdf(["/X0 Do"], further=build_nested_forms(12, 6)))
    failure = await session.expect_failure(READ, file_path=path)
    assert failure.message == f"{path} is a PDF document that takes too long to open. Read fewer of its pages."
    assert list_workers() == []


async def test_a_document_that_wants_all_memory_is_given_up(session: Session) -> None:
    # Unpacked in pieces, which are then joined: the worker may have a gigabyte.
    packed = compress_spaces(600)
    form = (
        "/Type /XObject /Subtype /Form /BBox [0 0 600 600] /Filter /FlateDecode /Resources << /Font << /F1 3 0 R >> >>"
    )
    path = write_file(session, build_pdf(["/X0 Do"], further=[build_stream(packed, form)]))
    failure = await session.expect_failure(READ, file_path=path)
    assert failure.message.startswith(f"{path} cannot be opened as a PDF document (")
    assert failure.message.endswith("): it is damaged, or needs too much memory.")
    assert list_workers() == []


async def test_an_interrupted_read_leaves_no_process(session: Session) -> None:
    path = write_file(session, build_pdf(["/X0 Do"], further=build_nested_forms(12, 6)))
    async with anyio.create_task_group() as group:
        group.start_soon(load_document, path, None)
        await poll_until(list_workers)
        group.cancel_scope.cancel()
    await poll_until(lambda: not list_workers())


async def test_the_worker_gets_none_of_our_secrets(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-key")
    path = write_file(session, build_pdf(["/X0 Do"], further=build_nested_forms(12, 6)))
    async with anyio.create_task_group() as group:
        group.start_soon(load_document, path, None)
        await poll_until(list_workers)
        for pid in list_workers():
            assert b"secret-key" not in Path(f"/proc/{pid}/environ").read_bytes()  # noqa: ASYNC240 - not a disk
            assert b"pdf_worker.py" in Path(f"/proc/{pid}/cmdline").read_bytes()  # noqa: ASYNC240 - as above
        group.cancel_scope.cancel()


async def test_more_text_than_the_tokens_allow_is_an_error_but_one_page_is_cut(session: Session) -> None:
    page = "BT /F1 1 Tf " + "".join(f"1 0 0 1 0 {line % 700} Tm ({'word ' * 40}) Tj " for line in range(300)) + "ET"
    path = write_file(session, build_pdf([page] * 3))
    failure = await session.expect_failure(READ, file_path=path)
    assert failure.message == f"Pages 1-3 of {path} are more than 25000 tokens. Read fewer with pages."
    long = write_file(session, build_pdf([page.replace("word ", "words words ")]), "b.pdf")
    output = (await session.expect_result(READ, file_path=long)).output
    assert output.pages[0].cut
    assert READ.render(output)[0]["text"].endswith("\n(cut: there is more text on this page)\n</page>")


async def test_a_page_past_the_end_is_not_taken_for_one_that_was_shown(session: Session) -> None:
    path = write_file(session, build_pdf([build_text_content("A page of text")] * 12))
    await session.expect_result(READ, file_path=path, pages="1-12")
    failure = await session.expect_failure(READ, file_path=path, pages="13")
    assert failure.message == f"{path} has only 12 pages: page 13 is past its end."


async def test_the_same_pages_are_not_shown_again(session: Session) -> None:
    path = write_file(session, build_pdf([build_text_content("A page of text")] * 12))
    await session.expect_result(READ, file_path=path, pages="1-6")
    assert (await session.expect_result(READ, file_path=path, pages="2-3")).output.kind == "file_unchanged"
    assert (await session.expect_result(READ, file_path=path, pages="6-7")).output.kind == "parts"
    await session.expect_result(READ, file_path=path, pages="7-12")
    assert (await session.expect_result(READ, file_path=path, pages="11-")).output.kind == "file_unchanged"
    assert session.reads.by_path[path].ranges == ((1, 12),)
    write_file(session, build_pdf([build_text_content("Another text")] * 12))
    os.utime(path, ns=(1, 1))
    assert (await session.expect_result(READ, file_path=path, pages="2")).output.pages[0].text == "Another text"


WRITE = Write()


EDIT = Edit()


NOTEBOOK = NotebookEdit()


async def test_a_page_that_cannot_be_shown_says_why() -> None:
    page = PageOutput.of(Page(1, "", False, None, "it is a picture, and there is no more room"))
    output = DocumentOutput(kind="pdf", file_path="/a.pdf", file_bytes=9, pages=[page], total_pages=1)
    assert READ.render(output)[0]["text"] == (
        'PDF document /a.pdf (1 pages)\n<page number="1">\n'
        "(not shown: it is a picture, and there is no more room)\n</page>"
    )
