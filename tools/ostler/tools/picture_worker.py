"""The program that makes a large picture small."""

import sys
from typing import Any

from ostler.tools import worker_bounds
from ostler.tools.pictures import MAX_FILE_BYTES, picture
from ostler.tools.text_files import Unreadable


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
    worker_bounds.answer(_look)
