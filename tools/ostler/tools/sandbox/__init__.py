"""The sandbox: a command sees the machine read-only, its folders as its profile says, and nobody outside."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import lazily

if TYPE_CHECKING:
    from ostler.tools.sandbox.bubblewrap import NoSandbox, wrap
    from ostler.tools.sandbox.keyring import leave_session_keyring
    from ostler.tools.sandbox.macos import macos_profile
    from ostler.tools.sandbox.profile import NotProtectable, Profile
    from ostler.tools.sandbox.programs import clean_path, resolve_program
    from ostler.tools.sandbox.protection import guarded_inside, hold, leftovers, release
    from ostler.tools.sandbox.proxy import Proxy
    from ostler.tools.sandbox.support import Support, described, probe
    from ostler.tools.sandbox.variables import confined, scrubbed

__all__ = [
    "NoSandbox",
    "NotProtectable",
    "Profile",
    "Proxy",
    "Support",
    "clean_path",
    "confined",
    "described",
    "guarded_inside",
    "hold",
    "leave_session_keyring",
    "leftovers",
    "macos_profile",
    "probe",
    "release",
    "resolve_program",
    "scrubbed",
    "wrap",
]

__getattr__ = lazily(
    __name__,
    {
        "NoSandbox": "bubblewrap",
        "NotProtectable": "profile",
        "Profile": "profile",
        "Proxy": "proxy",
        "Support": "support",
        "clean_path": "programs",
        "confined": "variables",
        "described": "support",
        "guarded_inside": "protection",
        "hold": "protection",
        "leave_session_keyring": "keyring",
        "leftovers": "protection",
        "macos_profile": "macos",
        "probe": "support",
        "release": "protection",
        "resolve_program": "programs",
        "scrubbed": "variables",
        "wrap": "bubblewrap",
    },
)
