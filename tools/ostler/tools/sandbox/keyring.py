"""Leaves the kernel's session keyring, whose keys no namespace and no mount hides from a child."""

import ctypes
import platform
from typing import Final

_KEYCTL: Final = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING: Final = 1


def leave_session_keyring() -> bool:
    """Gives this process, and all that it starts from now on, a new and empty keyring instead of the person's.

    Whether that was done: some machines have no keyrings, and some containers forbid the call, which helps as much.
    """
    number = _KEYCTL.get(platform.machine())
    if number is None or platform.system() != "Linux":
        return False
    return int(ctypes.CDLL(None).syscall(number, _JOIN_SESSION_KEYRING, None, 0, 0, 0)) > 0
