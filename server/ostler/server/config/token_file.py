"""The token that authenticates clients: made on first start, in a file that only its owner can read."""

import os
import secrets
from pathlib import Path

from ostler.server.config.private_files import UnsafeFile, check_private_file


def load_token(path: Path) -> bytes:
    """The token in the file, made if there is none; refused where others can read it."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        check_private_file(path)
        token = path.read_bytes().strip()
        if len(token) < 32:
            raise UnsafeFile(f"{path} holds no token. Delete it, and the next start makes a new one.") from None
        return token
    token = secrets.token_urlsafe(32).encode()
    with os.fdopen(handle, "wb") as file:
        file.write(token + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return token
