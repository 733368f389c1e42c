"""Read and images: what the model is sent, what clients are told, and what is refused."""

import base64
import io
import os
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import anyio
import pytest
from PIL import Image

from ostler.server.engine.calls.result_limits import cut_fields
from ostler.tools.files.edit import Edit
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from ostler.tools.formats import worker
from ostler.tools.formats.image import MAX_BASE64, build_picture, parse_webp_size
from ostler.tools.fs.text_file import Unreadable, format_size
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
READ = Read()


def encode_image(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    if kind == "PNG":  # how small the file is does not matter
        options = {"compress_level": 1, **options}
    image.save(file, kind, **options)
    return file.getvalue()


def make_noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Random pixels, which no encoding makes small."""
    data = random.Random(1).randbytes(width * height * len(mode))
    return Image.frombytes(mode, (width, height), data)


def write_file(session: Session, name: str, data: bytes) -> str:
    path = session.folder / name
    path.write_bytes(data)
    return str(path)


async def read_shown_image(session: Session, path: str) -> tuple[str, Image.Image, str]:
    """The words, the picture, and its media type, as the model gets them."""
    words, block = READ.render((await session.expect_result(READ, file_path=path)).output)
    assert block["type"] == "image"
    assert block["source"]["type"] == "base64"
    assert len(block["source"]["data"]) <= MAX_BASE64
    image = Image.open(io.BytesIO(base64.b64decode(block["source"]["data"])))
    image.load()
    return words["text"], image, block["source"]["media_type"]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_small_image_is_sent_as_it_is(session: Session, kind: str) -> None:
    data = encode_image(Image.new("RGB", (20, 10), "red"), kind)
    path = write_file(session, "a", data)
    output = (await session.expect_result(READ, file_path=path)).output
    words, block = READ.render(output)
    assert words == {"type": "text", "text": f"Image {path} (20x10 pixels, {len(data)} bytes)"}
    source = {"type": "base64", "media_type": f"image/{kind.lower()}", "data": base64.b64encode(data).decode()}
    assert block == {"type": "image", "source": source}


@pytest.mark.parametrize(("kind", "sent"), [("PNG", "png"), ("JPEG", "jpeg"), ("GIF", "png"), ("WEBP", "png")])
async def test_a_large_image_is_made_smaller_and_both_sizes_are_said(session: Session, kind: str, sent: str) -> None:
    path = write_file(session, "a", encode_image(Image.new("RGB", (2000, 500), "red"), kind))
    words, image, media_type = await read_shown_image(session, path)
    assert words.startswith(f"Image {path} (2000x500 pixels, shown as 1568x392 pixels, ".replace(" pixels,", ",", 1))
    assert (image.size, media_type) == ((1568, 392), f"image/{sent}")
    red, green, blue = image.convert("RGB").getpixel((100, 100))  # type: ignore[misc]  # a tuple, for this mode
    assert red > 240
    assert max(green, blue) < 15


async def test_clients_are_told_the_sizes_and_get_the_data_once(session: Session) -> None:
    path = write_file(session, "a.png", encode_image(make_noise(3000, 30), "PNG"))
    output = (await session.expect_result(READ, file_path=path)).output
    assert cut_fields(output.model_dump(mode="json")) == {
        "kind": "image",
        "file_path": path,
        "warning": None,
        "file_bytes": os.path.getsize(path),  # noqa: ASYNC240 - a test may wait for its disk
        "image": {
            "media_type": "image/png",
            "original_width": 3000,
            "original_height": 30,
            "width": 1568,
            "height": 16,
            "animated": False,
        },
    }


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16", "YCbCr"])
async def test_every_way_to_store_colours_can_be_shown(session: Session, mode: str) -> None:
    kind = {"CMYK": "JPEG", "YCbCr": "JPEG"}.get(mode, "PNG")
    image = Image.new("L", (2000, 500), 128)
    image = image.convert("I").convert("I;16") if mode == "I;16" else image.convert(mode)
    _, small, _ = await read_shown_image(session, write_file(session, "a", encode_image(image, kind)))
    assert small.size == (1568, 392)


async def test_deep_grey_keeps_its_shade(session: Session) -> None:
    path = write_file(session, "a.png", encode_image(Image.new("I;16", (2000, 10), 0x8000), "PNG"))
    _, small, _ = await read_shown_image(session, path)
    assert small.convert("L").getpixel((0, 0)) == 0x80


async def test_an_image_that_a_camera_held_upright_is_turned(session: Session) -> None:
    image = Image.new("RGB", (60, 40), "blue")
    image.paste("red", (0, 0, 30, 40))  # the left half, which is the top after the turn
    exif = Image.Exif()
    exif[0x0112] = 6
    path = write_file(session, "a.jpg", encode_image(image, "JPEG", exif=exif))
    words, upright, _ = await read_shown_image(session, path)
    assert "(40x60 pixels, " in words
    assert upright.size == (40, 60)
    top = upright.convert("RGB").getpixel((20, 5))
    assert isinstance(top, tuple)
    assert top[0] > 200


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
async def test_of_an_animation_the_first_frame_is_shown_and_said(session: Session, kind: str) -> None:
    frames = [Image.new("RGB", (30, 20), colour) for colour in ("red", "green", "blue")]
    data = encode_image(
        frames[0], kind, save_all=True, append_images=frames[1:], **({"lossless": True} if kind == "WEBP" else {})
    )
    path = write_file(session, "a", data)
    words, image, media_type = await read_shown_image(session, path)
    assert words == f"Image {path} (30x20 pixels, animated: the first frame, {len(data)} bytes)"
    assert media_type == "image/png"
    assert image.convert("RGB").getpixel((5, 5)) == (255, 0, 0)


async def test_what_does_not_fit_as_png_is_sent_as_jpeg(session: Session) -> None:
    path = write_file(session, "a.png", encode_image(make_noise(1568, 1568, "RGBA"), "PNG"))
    words, image, media_type = await read_shown_image(session, path)
    assert (media_type, image.size) == ("image/jpeg", (1568, 1568))
    assert "(1568x1568 pixels, " in words


async def test_a_large_photo_goes_through_a_process_and_leaves_none(session: Session) -> None:
    path = write_file(session, "a.jpg", encode_image(Image.effect_noise((600, 200), 50).resize((6000, 2000)), "JPEG"))
    words, image, _ = await read_shown_image(session, path)
    assert "(6000x2000, shown as 1568x523 pixels, " in words
    assert image.size == (1568, 523)


def build_png_bomb(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(1_000_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def build_gif(width: int, height: int) -> bytes:
    small = encode_image(Image.new("P", (1, 1)), "GIF")
    return small[:6] + struct.pack("<HH", width, height) + small[10:]


def build_webp(width: int, height: int) -> bytes:
    head = b"VP8X" + struct.pack("<I", 10) + bytes(4)
    head += (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF" + struct.pack("<I", len(head) + 4) + b"WEBP" + head


def reset_peak_memory() -> None:
    """Resets the peak memory of this process to what it has now."""
    Path("/proc/self/clear_refs").write_text("5")


def read_peak_kilobytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


@pytest.mark.parametrize(
    ("data", "size", "million"),
    [
        (build_png_bomb(50_000, 50_000), "50000x50000", 64),
        (build_png_bomb(70_000, 1), "70000x1", 64),
        (build_gif(60_000, 60_000), "60000x60000", 64),
        (build_webp(50_000, 50_000), "50000x50000", 32),
    ],
)
async def test_a_bomb_is_refused_without_being_opened(session: Session, data: bytes, size: str, million: int) -> None:
    path = write_file(session, "a", data)
    await session.expect_failure(READ, file_path=path)  # what is loaded for it does not count
    reset_peak_memory()
    before = read_peak_kilobytes()
    failure = await session.expect_failure(READ, file_path=path)
    limit = f"the limit is {million} million pixels, 65535 a side"
    assert failure.message == f"{path} is too large an image to open ({size} pixels; {limit})."
    assert read_peak_kilobytes() - before < 20_000
    assert session.reads.by_path == {}


async def test_a_jpeg_of_endless_layers_is_refused(session: Session) -> None:
    data = encode_image(make_noise(64, 64), "JPEG", progressive=True)
    path = write_file(session, "a.jpg", data[:-2] + b"\xff\xda\x00\x00" * 200 + data[-2:])
    failure = await session.expect_failure(READ, file_path=path)
    assert failure.message.endswith("layers, which would take too long to open.")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_damaged_image_is_refused(session: Session, kind: str) -> None:
    data = encode_image(make_noise(100, 100), kind)
    for cut in (data[:20], data[: len(data) // 2]):
        path = write_file(session, "a", cut)
        failure = await session.expect_failure(READ, file_path=path)
        assert failure.message.startswith(f"{path} is a damaged image ({format_size(len(cut))}): "), failure
    path = write_file(session, "a", data[:12] + bytes(500))
    assert f"{path} is a" in (await session.expect_failure(READ, file_path=path)).message


async def test_random_damage_is_always_a_message(session: Session) -> None:
    rng = random.Random(2)
    for kind in ("PNG", "JPEG", "GIF", "WEBP"):
        whole = encode_image(make_noise(40, 40), kind)
        for _ in range(40):
            data = bytearray(whole)
            for _ in range(10):
                data[rng.randrange(16, len(data))] = rng.randrange(256)
            try:
                build_picture("it", bytes(data))
            except Unreadable as error:
                assert str(error).startswith("it is")  # noqa: PT017 - not every damage is noticed


async def test_an_image_file_of_more_than_a_hundred_megabytes_is_refused(session: Session) -> None:
    path = session.folder / "a.png"
    with path.open("wb") as file:
        file.write(build_png_bomb(10, 10))
        file.truncate(101 * 1024 * 1024)
    failure = await session.expect_failure(READ, file_path=str(path))
    assert failure.message == f"{path} is too large for an image (101.0 MB; the limit is 100.0 MB)."


def test_time_that_is_over_before_the_worker_could_start_is_said_to_be_over() -> None:
    late = worker.Worker(worker, {})
    late.stop_on_timeout()
    with pytest.raises(worker.WorkerDied) as died:
        late.ask(io.BytesIO(), lambda: None)
    assert died.value.took_too_long


async def test_an_image_that_takes_too_long_is_given_up(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "TIME_LIMIT", 0.01)
    path = write_file(session, "a.png", encode_image(Image.new("L", (5000, 5000)), "PNG"))
    failure = await session.expect_failure(READ, file_path=path)
    assert failure.message.endswith("that takes too long to open.")


async def test_the_same_image_is_not_sent_twice(session: Session) -> None:
    path = write_file(session, "a.png", encode_image(Image.new("RGB", (9, 9)), "PNG"))
    await session.expect_result(READ, file_path=path)
    again = (await session.expect_result(READ, file_path=path)).output
    assert again.kind == "file_unchanged"
    assert READ.render(again) == [
        {"type": "text", "text": "(This image is in the conversation already, and the file has not changed since.)"}
    ]
    write_file(session, "a.png", encode_image(Image.new("RGB", (9, 8)), "PNG"))
    os.utime(path, ns=(1, 1))
    assert (await session.expect_result(READ, file_path=path)).output.kind == "image"


async def test_the_loop_goes_on_while_an_image_is_made_small(session: Session) -> None:
    path = write_file(session, "a.png", encode_image(Image.new("RGB", (2800, 2800), "red"), "PNG"))
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.001)
            ticks += 1

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await session.expect_result(READ, file_path=path)
        group.cancel_scope.cancel()
    assert ticks > 10


@pytest.mark.parametrize("options", [{"lossless": True}, {"quality": 50}, {"lossless": True, "exif": b"Exif\0\0MM\0*"}])
def test_the_size_of_a_webp_is_read_from_its_header(options: dict[str, Any]) -> None:
    assert parse_webp_size(encode_image(make_noise(123, 45), "WEBP", **options)) == (123, 45)


async def test_pages_are_not_for_images(session: Session) -> None:
    path = write_file(session, "a.png", encode_image(Image.new("RGB", (9, 9)), "PNG"))
    failure = await session.expect_failure(READ, file_path=path, pages="1")
    assert failure.message == f"pages is for PDF documents, and {path} is none. Use offset and limit."


WRITE = Write()


EDIT = Edit()


NOTEBOOK = NotebookEdit()


async def test_no_image_is_sent_that_has_more_than_five_megabytes_as_it_is_sent(session: Session) -> None:
    path = session.folder / "a.png"
    make_noise(1200, 1200).save(path, compress_level=1)
    assert 5 * 1024 * 1024 < path.stat().st_size * 4 / 3 < 6 * 1024 * 1024
    image = (await session.expect_result(READ, file_path=str(path))).output.image
    assert len(image.data) <= 5 * 1024 * 1024
    assert (image.width, image.height, image.original_width) == (1200, 1200, 1200)
