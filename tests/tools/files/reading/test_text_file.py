"""Read and texts that are not simply UTF-8 with line feeds: encodings, sizes, and files that are not text."""

import io
import os
import time
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from ostler.tools.files.edit import Edit
from ostler.tools.files.read import Read
from ostler.tools.files.reading.line_reader import read_cached_window, read_window
from ostler.tools.files.reading.output import ReadOutput
from ostler.tools.fs import charset
from ostler.tools.fs.cached_io import WouldBlock, read_file
from ostler.tools.fs.encoding import decode_bytes
from ostler.tools.fs.text_file import load
from ostler.tools.tool import Allow, Failure, ToolResult
from tests.support.stored_results import StoredResults
from tests.support.tool_calls import Session, poll_until

pytestmark = pytest.mark.anyio
READ, EDIT = Read(), Edit()

LEGACY = {
    "cp1252": "L’été dernier, à la forêt, nous avons mangé des crêpes très sucrées.\n",
    "cp1250": "Příliš žluťoučký kůň úpěl ďábelské ódy, řekl král.\n",
    "cp1251": "Привет, мир! Это обычный русский текст для проверки кодировки.\n",
    "koi8_r": "Привет, мир! Это обычный русский текст для проверки кодировки.\n",
    "cp932": "こんにちは世界、これは日本語のテキストです。漢字とカタカナもあります。\n",
    "euc_jp": "こんにちは世界、これは日本語のテキストです。漢字とカタカナもあります。\n",
    "gb18030": "你好世界,这是一个中文文本,用于测试编码检测。\n",
    "big5": "你好世界,這是一個繁體中文文本,用於測試編碼。\n",
    "cp949": "안녕하세요 세계, 이것은 한국어 텍스트입니다.\n",
}


def write_file(session: Session, name: str, data: bytes) -> str:
    path = session.folder / name
    path.write_bytes(data)
    return str(path)


def read_bytes(path: str) -> bytes:
    return Path(path).read_bytes()


@pytest.mark.parametrize(
    "data",
    [
        "grün “x”\n".encode("utf-8-sig"),
        "grün “x”\n".encode("utf-16"),
        b"\xfe\xff" + "grün “x”\n".encode("utf-16-be"),
        "grün “x”\n".encode("utf-32"),
        "grün “x”\r\n".encode("cp1252"),
    ],
)
async def test_encodings_are_recognised(session: Session, data: bytes) -> None:
    assert await session.expect_text(READ, file_path=write_file(session, "a.txt", data)) == "     1\tgrün “x”"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text", ["plain words", "Обычный русский текст", "日本語 と\u3000カタカナ", "non\u00a0breaking ∀"]
)
async def test_utf16_without_a_mark_is_recognised(session: Session, codec: str, text: str) -> None:
    path = write_file(session, "a.txt", f"{text}\n".encode(codec))
    assert await session.expect_text(READ, file_path=path) == f"     1\t{text}"
    await session.expect_result(EDIT, file_path=path, old_string=text, new_string=f"{text} 2")
    assert read_bytes(path) == f"{text} 2\n".encode(codec)


@pytest.mark.parametrize("codec", LEGACY)
async def test_an_old_encoding_is_guessed_and_an_edit_keeps_it(session: Session, codec: str) -> None:
    text = "first line\n" + LEGACY[codec] * 3
    path = write_file(session, "a.txt", text.encode(codec))
    assert (await session.expect_result(READ, file_path=path)).output.content == text.removesuffix("\n")
    await session.expect_result(EDIT, file_path=path, old_string="first line", new_string="1st line")
    assert read_bytes(path) == text.replace("first", "1st").encode(codec)


@pytest.mark.parametrize("codec", LEGACY)
async def test_a_window_and_the_whole_are_decoded_alike(session: Session, codec: str) -> None:
    """The first lines are ASCII; the encoding of the file shows only further on."""
    text = "plain\n" * 5000 + LEGACY[codec] * 10
    path = write_file(session, "a.txt", text.encode(codec))
    shown = (await session.expect_result(READ, file_path=path, offset=5001, limit=1)).output.content
    assert shown + "\n" == LEGACY[codec]
    assert load(path).text == text


@pytest.mark.parametrize("data", [bytes(range(1, 256)), b"\x81\x8d\x8f\n" * 9, b"caf\xe9 \xff\xfe\xfd ok\n" * 5])
async def test_bytes_that_are_in_no_encoding_come_back_as_they_were(session: Session, data: bytes) -> None:
    path = write_file(session, "a.txt", b"begin\n" + data)
    await session.expect_result(READ, file_path=path)
    await session.expect_result(EDIT, file_path=path, old_string="begin", new_string="began")
    assert read_bytes(path) == b"began\n" + data


async def test_a_few_foreign_letters_are_western_and_not_chinese(session: Session) -> None:
    for text in ("grün\r\n", "José Müller\n", "naïve café\n"):
        assert charset.guess_codec(text.encode("cp1252")) == "cp1252"


def test_the_guess_looks_at_a_bounded_part_and_cuts_no_character() -> None:
    line = "日本語のテキスト、" * 20_000
    assert charset.guess_codec(line.encode("cp932")) == "cp932"
    data = b"plain\n" * 1_000_000 + LEGACY["koi8_r"].encode("koi8_r") * 20_000
    began = time.perf_counter()
    assert charset.guess_codec(data) == "koi8_r"
    assert time.perf_counter() - began < 5


async def test_what_is_not_utf8_is_never_decoded_on_the_event_loop(session: Session) -> None:
    for data in (LEGACY["cp932"].encode("cp932"), "a\n".encode("utf-16"), b"a\rb\r"):
        with pytest.raises(WouldBlock):
            read_cached_window(read_file(write_file(session, "a.txt", data)), 1, 10)


async def test_a_large_file_with_stray_bytes_is_shown_line_by_line(session: Session) -> None:
    path = write_file(session, "a.log", "grün\n".encode() * 1_500_000 + b"gr\xfcn\n")
    assert (await session.expect_result(READ, file_path=path, limit=1)).output.content == "grün"
    assert (await session.expect_result(READ, file_path=path, offset=1_500_001)).output.content == "gr\uf7fcn"


async def test_a_file_whose_lines_end_with_carriage_returns_has_lines(session: Session) -> None:
    path = write_file(session, "a.txt", b"one\rtwo\r\rfour\r")
    assert await session.expect_text(READ, file_path=path) == "     1\tone\n     2\ttwo\n     3\t\n     4\tfour"
    await session.expect_result(EDIT, file_path=path, old_string="two", new_string="2")
    assert read_bytes(path) == b"one\r2\r\rfour\r"
    mixed = write_file(session, "b.txt", b"progress\rdone\nnext\n")
    assert (await session.expect_result(READ, file_path=mixed)).output.total_lines == 2


async def test_one_line_of_fifty_megabytes_is_cut(session: Session) -> None:
    path = write_file(session, "a.txt", b"x" * 50_000_000)
    output = (await session.expect_result(READ, file_path=path)).output
    assert output.content == "x" * 2000 + "… (cut after 2000 characters; alone, with limit 1, more of it is shown)"
    assert (output.num_lines, output.total_lines) == (1, 1)


@pytest.mark.parametrize("letter", ["漢", "ü", "🐎"])
async def test_a_long_line_that_is_read_alone_is_cut_to_what_fits(session: Session, letter: str) -> None:
    path = write_file(session, "a.txt", f"short\n{letter * 60_000}\n".encode())
    alone = (await session.expect_result(READ, file_path=path, offset=2, limit=1)).output
    shown, _, words = alone.content.partition("…")
    assert shown == letter * len(shown)
    assert words == f" (cut after {len(shown)} characters)"
    assert 95_000 < len(alone.content.encode()) <= 100_003
    whole = write_file(session, "b.txt", f"{letter * 20_000}\n".encode())
    assert (await session.expect_result(READ, file_path=whole, limit=1)).output.content == letter * 20_000


async def test_a_long_line_that_is_read_alone_is_shown_further(session: Session) -> None:
    path = write_file(session, "a.txt", b"short\n" + b"x" * 60_000 + b"\nlast\n")
    assert "cut after 2000 characters; alone" in await session.expect_text(READ, file_path=path)
    alone = (await session.expect_result(READ, file_path=path, offset=2, limit=1)).output
    assert alone.content == "x" * 50_000 + "… (cut after 50000 characters)"
    assert (await session.expect_result(READ, file_path=path, offset=1, limit=1)).output.kind == "file_unchanged"


async def test_a_file_of_two_gigabytes_is_refused_at_once(session: Session) -> None:
    path = session.folder / "sparse"
    with path.open("wb") as file:
        file.truncate(2 * 1024**3)
    failure = await session.expect_failure(READ, file_path=str(path))
    assert failure.message == (
        f"{path} is too large (2.0 GB; the limit is 1 GiB). Search it with Grep, or take a part of it with a command."
    )
    with path.open("wb") as file:
        file.truncate(1024**3)
    failure = await session.expect_failure(READ, file_path=str(path))
    assert failure.message == f"{path} is a binary file (1.0 GB), which cannot be read as text."


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.bin", b"ab\0\1\2\3cd", "is a binary file (8 bytes), which cannot be read as text."),
        ("late.bin", b"a\n" * 5000 + b"\0\1\n", "is a binary file (9.8 KB), which cannot be read as text."),
        ("a.zip", b"PK\x03\x04\0\0\0\0", "is a ZIP archive (8 bytes), which cannot be read as text."),
        ("a.gz", b"\x1f\x8b\x08\0\0\0\0\0", "is a gzip archive (8 bytes), which cannot be read as text."),
        ("a.db", b"SQLite format 3\0....", "is an SQLite database (20 bytes), which cannot be read as text."),
        ("a.wav", b"RIFF\0\0\0\0WAVE", "is a WAV file (12 bytes), which cannot be read as text."),
        ("a.mp4", b"\0\0\0\x18ftypisom\0\0", "is a film or sound (MP4) (14 bytes), which cannot be read as text."),
        ("a.heic", b"\0\0\0\x18ftypheic\0\0", "is a HEIC image (14 bytes), which cannot be read as text."),
        ("a.tar", bytes(257) + b"ustar" + bytes(250), "is a tar archive (512 bytes), which cannot be read as text."),
        ("a.exe", b"MZ\0\0PE\0\0", "is a Windows program (8 bytes), which cannot be read as text."),
        ("ls", b"\x7fELF\2\1\1\0", "is a program or library (ELF) (8 bytes), which cannot be read as text."),
        ("cut.txt", b"\xff\xfea\0b", "begins as UTF-16-LE, but is damaged further on."),
    ],
)
async def test_what_is_no_text_is_refused_by_kind_and_size(
    session: Session, name: str, data: bytes, words: str
) -> None:
    path = write_file(session, name, data)
    assert (await session.expect_failure(READ, file_path=path, limit=10_000)).message == f"{path} {words}"


async def test_a_text_that_begins_like_something_else_is_a_text(session: Session) -> None:
    for start in ("ID3 tags", "BZh", "MZ", "%PDF is a format", "II*"):
        assert (
            await session.expect_text(READ, file_path=write_file(session, f"{start[:2]}.txt", start.encode()))
            == f"     1\t{start}"
        )


async def test_a_file_that_changes_while_it_is_read_counts_as_changed(session: Session) -> None:
    path = write_file(session, "a.txt", b"one\n" * 3000)
    os.utime(path, ns=(1, 1))

    class Growing(io.BytesIO):
        """Somebody appends a line after the first piece was read."""

        def read(self, size: int | None = -1) -> bytes:
            piece = super().read(size)
            with open(path, "ab") as other:
                other.write(b"two\n")
            return piece

    status = os.stat(path)
    seen = read_window(path, status, Growing(b"one\n" * 3000 + b"two\n"), 1, 5000)
    assert seen.total_lines == 3001
    assert seen.status.st_mtime_ns != os.stat(path).st_mtime_ns


async def test_a_growing_file_can_be_read_and_is_stale_afterwards(session: Session) -> None:
    path = write_file(session, "a.log", b"x" * 99 + b"\n")
    going = True

    def append() -> None:
        while going:
            with open(path, "ab") as file:
                file.write(b"y" * 99 + b"\n")

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, append)
        await poll_until(lambda: os.path.getsize(path) > 1000)
        for _ in range(20):
            output = (await session.expect_result(READ, file_path=path, limit=1)).output
            assert output.kind == "file_unchanged" or output.content == "x" * 99
        size = len(read_bytes(path))
        await poll_until(lambda: os.path.getsize(path) > size)
        going = False
    failure = await session.expect_failure(EDIT, file_path=path, old_string="x" * 99, new_string="z")
    assert failure.code == 3


async def test_what_cannot_be_opened_says_why(session: Session) -> None:
    loop = session.folder / "loop"
    loop.symlink_to("loop")
    gone = session.folder / "dangling"
    gone.symlink_to("nothing-there")
    file = write_file(session, "a.txt", b"a")
    for path, words in {
        str(loop): f"{loop} cannot be read: Too many levels of symbolic links.",
        "/" + "x" * 4000: f"/{'x' * 499} cannot be read: File name too long.",
        f"{file}/b": f"{file}/b cannot be read: Not a directory.",
    }.items():
        assert (await session.expect_failure(READ, file_path=path)).message == words
    failure = await session.expect_failure(READ, file_path=str(gone))
    assert (failure.code, failure.message) == (1, f"{gone} is a link to nothing-there, which does not exist.")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_that_may_not_be_read_says_so(session: Session) -> None:
    path = write_file(session, "a.txt", b"a")
    os.chmod(path, 0)
    assert (await session.expect_failure(READ, file_path=path)).message == f"{path} cannot be read: Permission denied."


@pytest.mark.parametrize(
    "path",
    ["/dev/stdin", "/dev/tty", "/dev/fd/0", "/proc/self/fd/0", "/proc/1/fd/2", "/proc/self/task/1/fd/1", "/proc/kmsg"],
)
async def test_streams_are_refused_by_their_names(session: Session, path: str) -> None:
    assert (
        await session.expect_failure(READ, file_path=path)
    ).message == f"{path} is a stream without an end, not a file."


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/random", "/dev/full"])
async def test_devices_are_refused(session: Session, path: str) -> None:
    assert (await session.expect_failure(READ, file_path=path)).message == f"{path} is a device, not a file."


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"offset": -1}, "offset is -1, but lines are counted from 1."),
        ({"limit": 0}, "limit is 0, but must be 1 or more."),
        ({"pages": "x"}, "pages is 'x', but must be like '3', '1-5' or '10-'."),
        ({"pages": "3"}, "pages is for PDF documents, and {path} is none. Use offset and limit."),
    ],
)
async def test_a_part_that_cannot_be_is_an_error(session: Session, given: dict[str, object], words: str) -> None:
    path = write_file(session, "a.txt", b"a\n")
    assert (await session.expect_failure(READ, file_path=path, **given)).message == words.format(path=path)


async def test_a_persisted_result_is_read_like_a_file(session: Session) -> None:
    kept = StoredResults({"r_1": "".join(f"line {number}\n" for number in range(1, 101))})

    async def read(**given: object) -> ToolResult[ReadOutput] | Failure:
        context = session.make_context(results=kept)
        parsed = READ.parse({"file_path": "result://r_1", **given})
        assert await READ.validate(parsed, context) is None
        assert isinstance(await READ.check_permission(parsed, context), Allow)
        return await READ.run(parsed, context)

    shown = await read(offset=99)
    assert isinstance(shown, ToolResult)
    assert READ.render(shown.output)[0]["text"] == "    99\tline 99\n   100\tline 100"
    shown = await read(offset=101)
    assert isinstance(shown, ToolResult)
    assert READ.render(shown.output)[0]["text"] == "(The result has only 100 lines: line 101 is past its end.)"
    wrong = await read(pages="1")
    assert wrong == Failure("pages is for PDF documents, and result://r_1 is none. Use offset and limit.")
    kept = StoredResults({})
    assert await read() == Failure("There is no result 'r_1'.")
    assert session.reads.by_path == {}
    assert READ.summary(READ.parse({"file_path": "result://r_1", "limit": 5})) == "Read result://r_1 (lines 1-5)"


async def test_renderings_of_text(session: Session) -> None:
    assert await session.expect_text(READ, file_path=write_file(session, "empty", b"")) == "(The file is empty.)"
    path = write_file(session, "a.txt", b"a\nb\n")
    past = await session.expect_text(READ, file_path=path, offset=5)
    assert past == "(The file has only 2 lines: line 5 is past its end.)"
    await session.expect_result(READ, file_path=path)
    again = await session.expect_text(READ, file_path=path)
    assert again == "(These lines are in the conversation already, and the file has not changed since.)"
    long = write_file(session, "long", (b"word " * 300 + b"\n") * 100)
    failure = await session.expect_failure(READ, file_path=long)
    assert failure.message == (
        f"Lines 1-100 of {long} are more than 25000 tokens. "
        "Read fewer with offset and limit, or find the place with Grep."
    )


async def test_how_much_is_shown_is_a_setting(session: Session) -> None:
    path = write_file(session, "a.txt", b"word\n" * 1000)
    less = session.change_config(read_tokens=1_000)
    failure = await less.expect_failure(READ, file_path=path)
    assert f"Lines 1-1000 of {path} are more than 1000 tokens." in failure.message
    assert "A read of more than 1,000 tokens is an error" in READ.description(less.view)
    await session.change_config(read_tokens=25_000).expect_result(READ, file_path=path)
    assert "A read of more than 25,000 tokens is an error" in READ.description(session.view)


async def test_a_few_bytes_that_are_no_utf8_spoil_nothing_but_themselves(session: Session) -> None:
    path = session.folder / "app.log"
    data = "".join(f"{number} café\n" for number in range(50)).encode() + b"bad \xff\xfe bytes\n" + "naïve\n".encode()
    path.write_bytes(data)
    shown = await session.expect_text(READ, file_path=str(path))
    assert "    50\t49 café" in shown
    assert "    52\tnaïve" in shown
    bad = next(line for line in shown.splitlines() if "bad" in line).partition("\t")[2]
    await session.expect_result(EDIT, file_path=str(path), old_string="49 café", new_string="49 thé")
    assert path.read_bytes() == data.replace("49 café".encode(), "49 thé".encode())
    # As it was shown, it can be found again.
    await session.expect_result(EDIT, file_path=str(path), old_string=bad, new_string=bad.replace("bad", "odd"))
    assert b"odd \xff\xfe bytes\n" in path.read_bytes()


@pytest.mark.parametrize("codec", ["latin-1", "cp1251", "koi8-r", "shift-jis", "gb18030", "euc-kr"])
async def test_what_is_in_another_encoding_is_not_taken_for_utf8_with_a_few_strays(codec: str) -> None:
    words = {
        "latin-1": "déjà vu, garçon à côté; élève zélé\n",
        "cp1251": "съешь же ещё этих мягких французских булок\n",
        "koi8-r": "съешь же ещё этих мягких французских булок\n",
        "shift-jis": "これは日本語の文章です。漢字もあります。\n",
        "gb18030": "这是一个中文句子，用来测试编码。\n",
        "euc-kr": "이것은 한국어 문장입니다. 시험용입니다.\n",
    }[codec]
    text, encoding = decode_bytes(words.encode(codec) * 20)
    assert not encoding.strays
    assert encoding.encode(text) == words.encode(codec) * 20


async def test_a_file_that_has_the_characters_of_strays_is_written_as_it_was() -> None:
    data = "é\uf7ff".encode() * 10 + b"\xff"
    text, encoding = decode_bytes(data)
    assert not encoding.strays
    assert encoding.encode(text) == data
