"""Files that MCP servers gave to a session: they lie in the daemon's own folder, and the session may read its own."""

import os
from pathlib import Path

from ostler.tools.context import SessionView
from ostler.tools.fs.paths import is_inside


def build_server_folder(home: str, session_id: str) -> Path:
    """Where the files of a session lie."""
    return Path(home, "mcp", session_id)


def is_server_file(place: str, session: SessionView) -> bool:
    """Whether a real path is of a file that a server gave to this very session."""
    if not session.home:
        return False
    home = session.real_home or os.path.realpath(session.home)
    return is_inside(place, str(build_server_folder(home, session.session_id)))
