"""Renders a profile for macOS's `sandbox-exec`, with the same meaning as on Linux. The last matching rule decides."""

import os
import re

from ostler.tools.fs import paths
from ostler.tools.sandbox.profile import Profile, require_real_path
from ostler.tools.sandbox.protected_names import (
    CREDENTIALS,
    HOME_NAMES,
    PARTLY_PROTECTED,
    PARTLY_PROTECTED_IN_HOME,
    PROJECT_NAMES,
)

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


def render_macos_profile(profile: Profile) -> str:
    """The text for `sandbox-exec -p`. Names are protected at every depth, there or not, and in any case."""
    home = paths.resolve_path(profile.home)
    covered = [*(os.path.join(home, name) for name in CREDENTIALS), *map(paths.resolve_path, profile.hidden)]
    rules = [_HEAD]
    if profile.kind == "workspace":
        rules += [_format_rule("allow file-write*", root) for root in map(require_real_path, profile.roots)]
        rules += [f"(deny file-write* (regex #{_quote(pattern)}))" for pattern in _list_protected_patterns()]
    rules += [_format_rule("deny file-read* file-write*", path) for path in covered]
    # A root inside a covered folder is seen all the same; our own folders never are.
    rules += [
        _format_rule("allow file-read*", root)
        for root in map(require_real_path, profile.roots)
        if any(paths.is_inside(root, path) and root != path for path in covered)
    ]
    rules += [f"(allow file-write-data (literal {_quote(paths.resolve_path(path))}))" for path in profile.own_files]
    if profile.network != "none" and profile.proxy is not None:
        rules.append(f"(allow network-outbound (remote unix-socket (path-literal {_quote(profile.proxy)})))")
    return "\n".join(rules) + "\n"


def _format_rule(words: str, path: str) -> str:
    return f"({words} (subpath {_quote(path)}))"


def _list_protected_patterns() -> list[str]:
    whole = [*PROJECT_NAMES, *HOME_NAMES]
    partly = [
        f"{folder}/{name}"
        for table in (PARTLY_PROTECTED, PARTLY_PROTECTED_IN_HOME)
        for folder, names in table.items()
        for name in names
    ]
    return [f"/{_build_any_case(name)}(/.*)?$" for name in dict.fromkeys((*whole, *partly))]


def _build_any_case(name: str) -> str:
    """A pattern for both cases: the expressions there have no flag for it, and the file system ignores case."""
    return "".join(
        f"[{each.lower()}{each.upper()}]" if each.isalpha() else re.escape(each).replace(r"\-", "-") for each in name
    )


def _quote(text: str) -> str:
    if any(ord(character) < 32 for character in text):
        raise ValueError(f"{text!r} holds a control character, which a profile cannot.")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
