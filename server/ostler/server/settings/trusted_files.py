"""The files that run because a folder is trusted: those that its hooks and MCP entries name.

Not what such a file loads or calls in its turn: only a run tells that.
"""

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ostler.server.settings.types import NEED_TRUST, HookEntry, McpEntry, Source
from ostler.tools import commands
from ostler.tools.fs.paths import is_inside, resolve_path
from ostler.tools.shell.named_files import NamedFiles, find_named_files

_PROJECT_VARIABLES: Final = ("CLAUDE_PROJECT_DIR", "OSTLER_PROJECT_DIR")
"""What a hook's command finds the project's folder in."""
_SYSTEM_FOLDERS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/sys", "/nix")
"""The machine's own programs change with its updates, and belong to no project."""
_TEXT_ENDINGS: Final = (".md", ".txt", ".rst", ".csv", ".log", ".png", ".jpg", ".svg", ".pdf", ".html", ".css")
"""A command that only names one of these does not run it."""
_SCRIPT_ENDINGS: Final = (
    ".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".cjs", ".mjs", ".ts", ".tsx", ".rb", ".pl", ".pm", ".php", ".lua",
    ".awk", ".sed", ".mk", ".ps1", ".jar", "makefile", ".jsx", ".mts", ".cts", ".go", ".rs", ".java", ".kt", ".kts",
    ".scala", ".sc", ".groovy", ".gradle", ".clj", ".bb", ".cs", ".csx", ".fsx", ".swift", ".dart", ".ex", ".exs",
    ".erl", ".hs", ".ml", ".jl", ".r", ".rkt", ".scm", ".nix", ".zig", ".nim", ".tcl", ".coffee", ".wasm", ".class",
    ".so", ".dylib", ".c", ".cpp", ".bat", ".cmd",
)  # fmt: skip
_MAX_WATCHED: Final = 2_000


@dataclass(frozen=True, slots=True)
class _Line:
    """A command line that runs once the folder is trusted."""

    command: str
    folder: str


def find_trusted_files(
    hooks: Iterable[HookEntry],
    servers: Iterable[McpEntry],
    folder: str,
    home: str,
    sources: frozenset[Source] = NEED_TRUST,
) -> NamedFiles:
    """The files that hooks and servers name, by default the project's own, with their digests. Blocks: reads them."""
    variables: dict[str, str] = dict.fromkeys(_PROJECT_VARIABLES, folder)
    found: dict[str, str] = {}
    looked: dict[str, None] = {}
    for line in (
        *_list_hook_lines([each for each in hooks if each.source in sources], folder),
        *_list_server_lines([each for each in servers if each.source in sources], folder),
    ):
        named = find_named_files(commands.parse_command(line.command), line.folder, home, variables)
        scripts = {path for path in named.scripts if _may_change(path, folder)}
        found.update((path, digest) for path, digest in named.files if path in scripts or _is_script(path, folder))
        looked.update(dict.fromkeys(path for path in named.looked if _may_be_script(path) or path in scripts))
    return NamedFiles(tuple(sorted(found.items())), tuple(looked)[:_MAX_WATCHED], complete=True)


def list_guarded_paths(named: NamedFiles) -> tuple[str, ...]:
    """The files as they are named, and by their real paths. Blocks."""
    return tuple(dict.fromkeys(each for path, _ in named.files for each in (path, resolve_path(path))))


def _list_hook_lines(hooks: Iterable[HookEntry], folder: str) -> Iterator[_Line]:
    for hook in hooks:
        command = hook.hook.get("command")
        if isinstance(command, str):
            yield _Line(command, folder)


def _list_server_lines(servers: Iterable[McpEntry], folder: str) -> Iterator[_Line]:
    for server in servers:
        command, place = server.entry.get("command"), server.entry.get("cwd")
        if isinstance(command, str):
            # Its variables, too: some of them make an interpreter load a file.
            variables = _get_values(server.entry.get("env"))
            words = [command, *_list_texts(server.entry.get("args")), *_list_texts(variables)]
            yield _Line(shlex.join(words), os.path.join(folder, place) if isinstance(place, str) else folder)


def _get_values(table: Any) -> Sequence[Any]:
    return list(table.values()) if isinstance(table, dict) else []


def _list_texts(given: Any) -> list[str]:
    return [each for each in given if isinstance(each, str)] if isinstance(given, list) else []


def _is_script(path: str, folder: str) -> bool:
    """Whether a file that is only named looks like one that runs. Others are data, which a hook may write itself."""
    if path.lower().endswith(_TEXT_ENDINGS) or not _may_change(path, folder) or not os.path.isfile(path):
        return False
    return _may_be_script(path) or os.access(path, os.X_OK)


def _may_be_script(path: str) -> bool:
    return path.lower().endswith(_SCRIPT_ENDINGS) or os.path.isdir(path)


def _may_change(path: str, folder: str) -> bool:
    return is_inside(path, folder) or not any(is_inside(path, place) for place in _SYSTEM_FOLDERS)
