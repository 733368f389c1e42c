"""Converts images for the model: rotated upright, one frame, and scaled down to what the API uses."""

import base64
import contextlib
import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from ostler.tools.fs.text_file import Unreadable, format_size

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

WEBP_MARK: Final = b"WEBP"
_START_OF_SCAN: Final = b"\xff\xda"
MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
Size = tuple[int, int]
"""Width and height."""
LONG_EDGE: Final = 1568
"""Pixels: the API would shrink what is larger, after it was paid for."""
MAX_BASE64: Final = 5 * 1024 * 1024
"""Characters that the API takes for one picture."""
MAX_FILE_BYTES: Final = 100 * 1024 * 1024
MAX_PIXELS: Final = 64_000_000
"""A quarter of a gigabyte in memory."""
MAX_PIXELS_WEBP: Final = 32_000_000
"""There are four copies of it in memory while it is decoded."""
MAX_PIXELS_REDUCED: Final = 256_000_000
"""Of a JPEG that can be scaled down while it is decoded."""
_MAX_EDGE: Final = 65_535
_MAX_SCANS: Final = 100
"""Progressive JPEGs have about ten; each one goes over the whole picture, however few bytes it takes."""
_QUALITIES: Final = (85, 60, 40)
_ORIENTATION: Final = 0x0112
_TRANSPOSES: Final = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""What rotates a picture upright, by its EXIF orientation."""
_SIDEWAYS: Final = frozenset({5, 6, 7, 8})
_MEDIA_TYPES: Final[dict[str, MediaType]] = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "GIF": "image/gif",
    "WEBP": "image/webp",
}


def parse_webp_size(data: bytes) -> tuple[int, int]:
    """Width and height; zero where the header is cut short. Raises ValueError for what is no WebP."""
    chunk, head = data[12:16], data[20:30].ljust(10, b"\0")
    match chunk:
        case b"VP8X":
            return int.from_bytes(head[4:7], "little") + 1, int.from_bytes(head[7:10], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(head[1:5], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack("<HH", head[6:10])
            return width & 0x3FFF, height & 0x3FFF
        case _:
            raise ValueError(f"no WebP picture begins with a chunk {chunk!r}")


def count_jpeg_scans(data: bytes) -> int:
    """How many scans a decoder makes over the picture; the marker cannot occur within its data."""
    return data.count(_START_OF_SCAN)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that can be sent."""

    media_type: MediaType
    data: str = field(repr=False)
    """Base64."""
    original: Size
    """Size in the file, when upright."""
    size: Size
    """Size of what is sent."""
    animated: bool = False
    """There were further frames after the first."""

    @property
    def block(self) -> dict[str, Any]:
        return image_block(self.media_type, self.data)


def image_block(media_type: str, data: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def count_pixels(name: str, data: bytes) -> int:
    """The number of pixels according to the header. Raises Unreadable."""
    with _report_damage(name, data), _open_image(name, data) as image:
        return image.width * image.height


def build_picture(name: str, data: bytes) -> Picture:
    """Decodes and scales an image; `name` is for the message of Unreadable. May take seconds, and a gigabyte."""
    with _report_damage(name, data), _open_image(name, data) as image:
        return _prepare_picture(name, data, image)


@contextlib.contextmanager
def _report_damage(name: str, data: bytes) -> Iterator[None]:
    try:
        yield
    except (Unreadable, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - decoders raise anything on a damaged file
        raise Unreadable(f"{name} is a damaged image ({format_size(len(data))}): {error}.") from None


def _open_image(name: str, data: bytes) -> "ImageFile":
    """Reads only the header, with the decoder for the first bytes."""
    # Most calls never need it, and it takes longer to load than a call to run.
    from PIL import GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin  # noqa: PLC0415

    file = io.BytesIO(data)
    if data.startswith(b"\x89PNG"):
        image: ImageFile = PngImagePlugin.PngImageFile(file)
    elif data.startswith(b"\xff\xd8"):
        _refuse_scans(name, data)
        image = JpegImagePlugin.JpegImageFile(file)
    elif data.startswith(b"GIF8"):
        image = GifImagePlugin.GifImageFile(file)
    elif data[8:12] == WEBP_MARK:
        _refuse_size(name, parse_webp_size(data), MAX_PIXELS_WEBP)  # before its decoder allocates memory for the whole
        image = WebPImagePlugin.WebPImageFile(file)
    else:
        raise Unreadable(f"{name} is no image that can be shown: PNG, JPEG, GIF and WebP are.")
    shrinks = image.format == "JPEG" and not image.info.get("progressive")
    _refuse_size(name, image.size, MAX_PIXELS_REDUCED if shrinks else MAX_PIXELS)
    return image


def _refuse_size(name: str, size: Size, most: int) -> None:
    width, height = size
    if width * height > most or max(size) > _MAX_EDGE:
        limit = f"{most // 1_000_000} million pixels, {_MAX_EDGE} a side"
        raise Unreadable(f"{name} is too large an image to open ({width}x{height} pixels; the limit is {limit}).")


def _refuse_scans(name: str, data: bytes) -> None:
    scans = count_jpeg_scans(data)
    if scans > _MAX_SCANS:
        raise Unreadable(f"{name} is an image in {scans} layers, which would take too long to open.")


def _prepare_picture(name: str, data: bytes, image: "ImageFile") -> Picture:
    media_type, full = _MEDIA_TYPES[image.format or ""], image.size
    animated = bool(getattr(image, "is_animated", False))
    orientation = image.getexif().get(_ORIENTATION, 1)
    if image.format == "JPEG":
        image.draft("RGB", _fit_size(full))
        _refuse_size(name, image.size, MAX_PIXELS)
    image.load()  # raises where the file is truncated
    unmodified = not animated and orientation not in _TRANSPOSES
    if unmodified and max(full) <= LONG_EDGE and _count_base64_chars(len(data)) <= MAX_BASE64:
        return Picture(media_type, base64.b64encode(data).decode(), full, full)
    # Scaled down before it is rotated, which takes the same memory again.
    upright = _rotate(_shrink(image, _fit_size(full)), orientation)
    encoded = _encode(upright, lossy=image.format == "JPEG")
    original = (full[1], full[0]) if orientation in _SIDEWAYS else full
    return Picture(encoded.media_type, encoded.data, original, encoded.size, animated)


def _fit_size(size: Size) -> Size:
    scale = min(1.0, LONG_EDGE / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _count_base64_chars(size: int) -> int:
    return (size + 2) // 3 * 4


def _shrink(image: "Image", size: Size) -> "Image":
    """Scales down, in a mode whose colours can be interpolated: those of a palette cannot."""
    if image.mode.startswith("I;16"):
        image = image.point(lambda value: value * (1 / 256)).convert("L")
    elif image.mode not in {"RGB", "RGBA", "L"}:
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    image.thumbnail(size, reducing_gap=2.0)
    return image


def _rotate(image: "Image", orientation: int) -> "Image":
    from PIL.Image import Transpose  # noqa: PLC0415 - as above

    return image.transpose(Transpose[_TRANSPOSES[orientation]]) if orientation in _TRANSPOSES else image


@dataclass(frozen=True, slots=True)
class _EncodedImage:
    media_type: MediaType
    data: str
    size: Size


def _encode(image: "Image", *, lossy: bool) -> _EncodedImage:
    """Encodes as PNG where the picture was lossless and it fits, else as JPEG of the best quality that fits."""
    if not lossy:
        data = _save_bytes(image, "PNG", optimize=False)
        if _count_base64_chars(len(data)) <= MAX_BASE64:
            return _EncodedImage("image/png", base64.b64encode(data).decode(), image.size)
    flat = _flatten_alpha(image)
    while True:
        for quality in _QUALITIES:
            data = _save_bytes(flat, "JPEG", quality=quality)
            if _count_base64_chars(len(data)) <= MAX_BASE64:
                return _EncodedImage("image/jpeg", base64.b64encode(data).decode(), flat.size)
        flat = flat.resize((max(1, flat.width // 2), max(1, flat.height // 2)))


def _save_bytes(image: "Image", kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _flatten_alpha(image: "Image") -> "Image":
    """Replaces transparency by a white background."""
    from PIL import Image  # noqa: PLC0415 - as above

    if image.mode != "RGBA":
        return image
    page = Image.new("RGB", image.size, "white")
    page.paste(image, mask=image.getchannel("A"))
    return page
