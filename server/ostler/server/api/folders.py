"""Folders that a person names for a session."""

import os
import stat

from ostler.protocol.errors import BadFolder


def checked_folder(path: str) -> str:
    """The folder as written, less what means nothing (`a/./b`, `a//b`); an error that says what is wrong with it."""
    if not path or "\0" in path:
        raise BadFolder(f"{path!r} is no path.", path=path)
    if not os.path.isabs(path):
        raise BadFolder(f"{path!r} is relative. Give the absolute path of a folder.", path=path)
    try:
        found = os.stat(path)
    except OSError as error:
        raise BadFolder(f"{path!r} cannot be used: {error.strerror}.", path=path) from None
    except ValueError:  # a lone surrogate, or anything else that the file system cannot spell
        raise BadFolder(f"{path!r} is no path.", path=path) from None
    if not stat.S_ISDIR(found.st_mode):
        raise BadFolder(f"{path!r} is not a folder.", path=path)
    return path if path == "/" else _tidy(path)


def _tidy(path: str) -> str:
    # Not normpath: `a/../b` may lead elsewhere when `a` is a link.
    parts = [part for part in path.split("/") if part not in {"", "."}]
    return "/" + "/".join(parts)
