"""The sandbox: a command sees the machine read-only, its folders as its profile says, and no process outside."""

from typing import TYPE_CHECKING

from ostler.protocol.lazy import export_lazily

if TYPE_CHECKING:
    from ostler.tools.sandbox.bubblewrap import NoSandbox, find_filter, open_filter, wrap
    from ostler.tools.sandbox.environment import confine_environment, scrub_environment
    from ostler.tools.sandbox.executables import clean_path, resolve_program
    from ostler.tools.sandbox.guarded_names import record_approved_write
    from ostler.tools.sandbox.keyring import leave_session_keyring
    from ostler.tools.sandbox.network.proxy import Proxy
    from ostler.tools.sandbox.probe import describe_support, probe_sandbox
    from ostler.tools.sandbox.profile import NotProtectable, Profile
    from ostler.tools.sandbox.protection import (
        HeldPlaceholders,
        check_protection,
        hold_placeholders,
        hold_workspace,
        list_hook_folders,
        rehold_placeholders,
        release_noted_placeholders,
        release_placeholders,
    )
    from ostler.tools.sandbox.seatbelt import render_macos_profile

__all__ = [
    "HeldPlaceholders",
    "NoSandbox",
    "NotProtectable",
    "Profile",
    "Proxy",
    "check_protection",
    "clean_path",
    "confine_environment",
    "describe_support",
    "find_filter",
    "hold_placeholders",
    "hold_workspace",
    "leave_session_keyring",
    "list_hook_folders",
    "open_filter",
    "probe_sandbox",
    "record_approved_write",
    "rehold_placeholders",
    "release_noted_placeholders",
    "release_placeholders",
    "render_macos_profile",
    "resolve_program",
    "scrub_environment",
    "wrap",
]

__getattr__ = export_lazily(
    __name__,
    {
        "HeldPlaceholders": "protection",
        "NoSandbox": "bubblewrap",
        "NotProtectable": "profile",
        "Profile": "profile",
        "Proxy": "network.proxy",
        "check_protection": "protection",
        "clean_path": "executables",
        "confine_environment": "environment",
        "describe_support": "probe",
        "find_filter": "bubblewrap",
        "hold_placeholders": "protection",
        "hold_workspace": "protection",
        "list_hook_folders": "protection",
        "rehold_placeholders": "protection",
        "leave_session_keyring": "keyring",
        "open_filter": "bubblewrap",
        "render_macos_profile": "seatbelt",
        "probe_sandbox": "probe",
        "record_approved_write": "guarded_names",
        "release_placeholders": "protection",
        "release_noted_placeholders": "protection",
        "resolve_program": "executables",
        "scrub_environment": "environment",
        "wrap": "bubblewrap",
    },
)
