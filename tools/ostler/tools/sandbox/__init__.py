"""The sandbox: a command sees the machine read-only, its folders as its profile says, and nobody outside."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import lazily

if TYPE_CHECKING:
    from ostler.tools.sandbox.bubblewrap import NoSandbox, wrap
    from ostler.tools.sandbox.environment import confined, scrubbed
    from ostler.tools.sandbox.executables import clean_path, resolve_program
    from ostler.tools.sandbox.keyring import leave_session_keyring
    from ostler.tools.sandbox.probe import Support, described, probe_sandbox
    from ostler.tools.sandbox.profile import NotProtectable, Profile
    from ostler.tools.sandbox.protection import Held, guarded_inside, hold, hold_again, release, release_noted
    from ostler.tools.sandbox.proxy import Proxy
    from ostler.tools.sandbox.seatbelt import macos_profile

__all__ = [
    "Held",
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
    "hold_again",
    "leave_session_keyring",
    "macos_profile",
    "probe_sandbox",
    "release",
    "release_noted",
    "resolve_program",
    "scrubbed",
    "wrap",
]

__getattr__ = lazily(
    __name__,
    {
        "Held": "protection",
        "NoSandbox": "bubblewrap",
        "NotProtectable": "profile",
        "Profile": "profile",
        "Proxy": "proxy",
        "Support": "probe",
        "clean_path": "executables",
        "confined": "environment",
        "described": "probe",
        "guarded_inside": "protection",
        "hold": "protection",
        "hold_again": "protection",
        "leave_session_keyring": "keyring",
        "macos_profile": "seatbelt",
        "probe_sandbox": "probe",
        "release": "protection",
        "release_noted": "protection",
        "resolve_program": "executables",
        "scrubbed": "environment",
        "wrap": "bubblewrap",
    },
)
