"""The worker process that decodes a large picture and scales it down."""

import sys
from typing import Any

from ostler.tools.formats import worker_limits
from ostler.tools.formats.image import MAX_FILE_BYTES, build_picture
from ostler.tools.fs.text_file import Unreadable


def _shrink_picture(wanted: dict[str, Any]) -> dict[str, Any]:
    try:
        found = build_picture(wanted["name"], sys.stdin.buffer.read(MAX_FILE_BYTES))
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
    worker_limits.run_worker(_shrink_picture)
