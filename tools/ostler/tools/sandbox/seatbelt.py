"""The profile for macOS's `sandbox-exec`, of the same meaning. There the last rule that fits decides."""

import os
import re

from ostler.tools.fs import paths
from ostler.tools.sandbox.profile import Profile, real
from ostler.tools.sandbox.protected_names import CREDENTIALS, IN_A_HOME, IN_A_PROJECT, PARTLY, PARTLY_IN_A_HOME

_HEAD = """(version 1)
(deny default)
(allow process-fork)
(allow process-exec)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.logger"))
(allow ipc-posix-shm*)
(allow ipc-posix-sem)
(allow file-read*)
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))"""


def macos_profile(profile: Profile) -> str:
    """The text for `sandbox-exec -p`. Names are protected at every depth, there or not, and in any case."""
    home = paths.real(profile.home)
    covered = [*(os.path.join(home, name) for name in CREDENTIALS), *map(paths.real, profile.hidden)]
    rules = [_HEAD]
    if profile.kind == "workspace":
        rules += [_rule("allow file-write*", root) for root in map(real, profile.roots)]
        rules += [f"(deny file-write* (regex #{_quoted(pattern)}))" for pattern in _protected()]
    rules += [_rule("deny file-read* file-write*", path) for path in covered]
    # A root inside a covered folder is seen all the same; our own folders never are.
    rules += [
        _rule("allow file-read*", root)
        for root in map(real, profile.roots)
        if any(paths.inside(root, path) and root != path for path in covered)
    ]
    rules += [f"(allow file-write-data (literal {_quoted(paths.real(path))}))" for path in profile.own_files]
    if profile.network != "none" and profile.proxy is not None:
        rules.append(f"(allow network-outbound (remote unix-socket (path-literal {_quoted(profile.proxy)})))")
    return "\n".join(rules) + "\n"


def _rule(words: str, path: str) -> str:
    return f"({words} (subpath {_quoted(path)}))"


def _protected() -> list[str]:
    whole = [*IN_A_PROJECT, *IN_A_HOME]
    partly = [
        f"{folder}/{name}" for table in (PARTLY, PARTLY_IN_A_HOME) for folder, names in table.items() for name in names
    ]
    return [f"/{_any_case(name)}(/.*)?$" for name in dict.fromkeys((*whole, *partly))]


def _any_case(name: str) -> str:
    """The regular expressions there have no switch for it, and the file system takes both for one."""
    return "".join(
        f"[{each.lower()}{each.upper()}]" if each.isalpha() else re.escape(each).replace(r"\-", "-") for each in name
    )


def _quoted(text: str) -> str:
    if any(ord(character) < 32 for character in text):
        raise ValueError(f"{text!r} holds a control character, which a profile cannot.")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
