"""What the first bytes of a picture say that its decoder would find out too late."""

import struct
from typing import Final

WEBP_MARK: Final = b"WEBP"
_START_OF_SCAN: Final = b"\xff\xda"


def webp_size(data: bytes) -> tuple[int, int]:
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


def jpeg_scans(data: bytes) -> int:
    """How often a decoder goes over the picture; within its data the mark cannot occur."""
    return data.count(_START_OF_SCAN)
