"""Which files a session may read by itself, and which are asked about."""

from ostler.tools.context import SessionView
from ostler.tools.fs import paths
from ostler.tools.permissions.memory_notes import is_own_note
from ostler.tools.permissions.plan_file import is_plan_file
from ostler.tools.permissions.server_files import is_server_file
from ostler.tools.tool import Allow, AskFirst, Check, Refuse


def check_access(path: str, session: SessionView, real: paths.PathResolver = paths.resolve_path) -> tuple[str, Check]:
    """Where the path leads, and whether that may be read."""
    place = real(path)
    return place, _may_read(path, place, session, real)


def _may_read(path: str, place: str, session: SessionView, real: paths.PathResolver) -> Check:
    """Allowed inside the roots, refused in the daemon's own folder, and asked for elsewhere."""
    is_ours = is_plan_file(path, place, session) or is_own_note(place, session) or is_server_file(place, session)
    if is_ours or _lies_beside_skill(place, session, real):
        return Allow()
    if paths.is_in_daemon_home(place, session, real):
        return Refuse(f"{path} is in the daemon's own folder.")
    if paths.is_inside_roots(place, session, real):
        return Allow()
    leads = "" if place == paths.normalize_path(path) else f", which leads to {place}"
    return AskFirst(f"Read {path}{leads}?", reason="It is outside the session's folders.")


def _lies_beside_skill(place: str, session: SessionView, real: paths.PathResolver) -> bool:
    """Whether a file belongs to a skill in effect: the person's own lie outside of the roots."""
    return any(paths.is_inside(place, real(folder)) for folder in session.skill_folders)
