"""The program that makes a large picture small."""

import sys
from typing import Any

from ostler.tools.formats import worker_limits
from ostler.tools.formats.image import MAX_FILE_BYTES, picture
from ostler.tools.fs.text_file import Unreadable


def _look(wanted: dict[str, Any]) -> dict[str, Any]:
    try:
        found = picture(wanted["name"], sys.stdin.buffer.read(MAX_FILE_BYTES))
    except Unreadable as error:
        return {"trouble": str(error)}
    return {
        "media_type": found.media_type,
        "data": found.data,
        "original": found.original,
        "size": found.size,
        "animated": found.animated,
    }


if __name__ == "__main__":
    worker_limits.answer(_look)
