"""Binds an approval to what runs: the folder, and the content of the files that a command names.

What was approved is what runs: where one of them has changed since, the command is asked about again. Of a command that
runs anything, every file counts that a word of it may name, through `cd`, `-f FILE`, redirections, pipes and globs: one
too many only asks once more. What such a file loads in its turn is not bound.
"""

import glob
import hashlib
import itertools
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ostler.tools import commands
from ostler.tools.commands import ParsedCommand, SimpleCommand, Word
from ostler.tools.commands.syntax.words import read_word
from ostler.tools.context import SessionView
from ostler.tools.fs import paths

_MAX_SCRIPT_BYTES: Final = 16 * 1024 * 1024
_MAX_READ_BYTES: Final = 64 * 1024 * 1024
"""Of all files of a command; of what is larger, the size and the time of the last change count."""
_MAX_FILES: Final = 200
_MAX_FOLDERS: Final = 16
_MAX_LOOKUPS: Final = 4_000
_MAX_TEXTS: Final = 1_000
_MAX_PIECES: Final = 8
_INTERPRETERS: Final = frozenset({
    "bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "fish", "python", "pypy", "node", "nodejs", "deno", "bun",
    "ruby", "perl", "php", "lua", "tclsh", "expect", "rscript", "julia", "source", ".", "eval", "awk", "gawk", "mawk",
    "sed", "xargs", "parallel", "find",
})  # fmt: skip
_DATA_PROGRAMS: Final = frozenset({
    ":", "[", "alias", "basename", "base64", "bg", "bunzip2", "bzip2", "cat", "cd", "chattr", "chgrp", "chmod", "chown",
    "cp", "csplit", "dd", "declare", "dirname", "echo", "exit", "export", "false", "fg", "grep", "gunzip", "gzip",
    "hash", "head", "install", "jobs", "kill", "less", "link", "ln", "local", "ls", "mkdir", "mkfifo", "mknod",
    "mktemp", "more", "mv", "popd", "printf", "pushd", "pwd", "read", "readonly", "return", "rm", "rmdir", "set",
    "setfacl", "shift", "shopt", "shred", "sleep", "sort", "split", "sponge", "strings", "tail", "tee", "test", "touch",
    "tr", "tree", "true", "truncate", "type", "typeset", "ulimit", "umask", "unalias", "uniq", "unlink", "unset",
    "unxz", "unzip", "wait", "wc", "xxd", "xz", "zcat", "zip", "zstd",
})  # fmt: skip
"""Programs for which a file is data, and that run nothing."""
_BUILD_PROGRAMS: Final = frozenset({
    "ansible", "ansible-playbook", "ant", "bazel", "bazelisk", "behat", "brew", "buck", "bun", "bundle", "bunx",
    "cabal", "cargo", "cmake", "composer", "conda", "ctest", "deno", "docker", "docker-compose", "dotnet", "dune",
    "earthly", "eslint", "fab", "flutter", "gmake", "go", "gradle", "gradlew", "grunt", "gulp", "hatch", "invoke",
    "jest", "just", "karma", "lefthook", "lein", "make", "meson", "mix", "mocha", "mvn", "mvnw", "mypy", "next", "ng",
    "ninja", "nix", "nodemon", "nox", "npm", "npx", "nx", "pants", "pdm", "phpunit", "pip", "pip3", "pipenv",
    "playwright", "pnpm", "podman", "poetry", "pre-commit", "prettier", "py.test", "pytest", "rake", "rspec", "ruff",
    "sam", "sbt", "scons", "serverless", "stack", "swift", "task", "terraform", "tofu", "tox", "tsc", "tsx", "turbo",
    "uv", "uvx", "vagrant", "vite", "vitest", "waf", "webpack", "xcodebuild", "yarn", "zig",
})  # fmt: skip
"""Programs that run what a file says which the line need not name: a Makefile, a package.json, tests, settings."""
_TARGET_PROGRAMS: Final = frozenset({"make", "gmake", "npm", "yarn", "pnpm", "cargo"})
_TARGET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:-]*|-[jksBnqiw][0-9]*")
"""Words of these programs that name a target, a script of theirs or a number, and no file."""
_MODULE_ENDINGS: Final = ("", ".py", ".js", ".cjs", ".mjs", ".ts", ".rb", ".pl", ".pm", ".json", ".sh")
_FOLDER_FILES: Final = ("__main__.py", "__init__.py", "index.js", "package.json")
_PIECE: Final = re.compile(r"""[^\s;|&<>()'"`]+""")
_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))|\$\(pwd\)|`pwd`")
_UNDECIDED: Final = re.compile(r"\$(?!\{?(?:PWD|HOME)\b|\(pwd\))|`(?!pwd`|\Z)")
_GLOB: Final = re.compile(r"[*?\[{]")
MAY_CHANGE: Final = (
    "What it runs is decided by files that it does not name, and these may change before it is answered."
)


@dataclass(frozen=True, slots=True)
class ApprovalBinding:
    """What an approval is bound to, beside the text of the command."""

    folder: str
    scripts: tuple[tuple[str, str], ...]
    """Each file that it names and may run, with a digest of its content."""
    looked: bool = field(default=True, compare=False)
    """Whether there may be such files, so that they have to be looked for again."""

    @property
    def digest(self) -> str:
        """A digest of all of it, to be stored with an ask."""
        joined = "\0".join((self.folder, *(part for script in self.scripts for part in script)))
        return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


def compute_binding(command: str, session: SessionView) -> ApprovalBinding:
    """Blocks: reads the files."""
    folder = session.shell_folder
    parsed = commands.parse_command(command)
    if not runs_files(parsed):
        return ApprovalBinding(folder, ())
    return ApprovalBinding(folder, _FileFinder(session).find(parsed))


def runs_files(parsed: ParsedCommand) -> bool:
    """Whether anything in it may run a file that a word of it names. By its text alone."""
    return parsed.problem is not None or any(_runs_anything(part) and not _names_targets(part) for part in parsed.parts)


def may_change_what_runs(parsed: ParsedCommand) -> bool:
    """Whether files decide what it runs that it does not name: an approval cannot be bound to them."""
    running = [inner for part in parsed.parts if _runs_anything(part) for inner in commands.unwrap(part)]
    return any(_has_unbound_code(part) for part in running if part.tokens)


def _has_unbound_code(part: SimpleCommand) -> bool:
    name, undecided = part.words[0], any(map(_is_undecided, part.tokens))
    if name is None:
        return undecided
    if name.lower() in _BUILD_PROGRAMS:
        return True
    return _is_interpreter(name) and (undecided or "-m" in part.words or name == "find")


def _runs_anything(part: SimpleCommand) -> bool:
    if not part.tokens:
        return False
    return part.words[0] not in _DATA_PROGRAMS and not commands.part_is_read_only(part)


def _names_targets(part: SimpleCommand) -> bool:
    words = part.literal_words
    if words is None or words[0] not in _TARGET_PROGRAMS:
        return False
    if not all(value is not None and (not value or value.isdecimal()) for _, value in part.assignments):
        return False
    return all(map(_TARGET.fullmatch, words[1:])) and all(found.writes or found.copies for found in part.redirections)


def _is_interpreter(name: str) -> bool:
    return name.lower() in _INTERPRETERS or name.lower().rstrip("0123456789.") in _INTERPRETERS


def _is_undecided(word: Word) -> bool:
    """Whether a word is known only when it runs, but for the folders that we know."""
    return word.kind == "unknown" and _UNDECIDED.search(word.source) is not None


class _FileFinder:
    """Finds the files that a command names, in all folders that it may go to."""

    def __init__(self, session: SessionView) -> None:
        self._home = session.environment.get("HOME") or os.path.expanduser("~")
        self._folders: dict[str, None] = {session.shell_folder: None}
        self._variables: dict[str, list[str]] = {"HOME": [self._home]}
        self._lookups = _MAX_LOOKUPS
        self._budget = _MAX_READ_BYTES
        self._found: dict[str, str] = {}

    def find(self, parsed: ParsedCommand) -> tuple[tuple[str, str], ...]:
        parts = [inner for part in parsed.parts for inner in (part, *commands.unwrap(part))]
        for part in parts:
            for name, value in part.assignments:
                if value is not None:
                    self._variables.setdefault(name, []).append(value)
        texts = _list_texts(parsed, parts)
        # In their order: a folder that is named first is where later words may lead.
        for text in texts:
            for place in self._list_places(text):
                if len(self._folders) < _MAX_FOLDERS and os.path.isdir(place):
                    self._folders[paths.normalize_path(place)] = None
        for text in texts:
            for place in self._list_places(text):
                self._add(place)
        for part in parts:
            self._add_scripts(part)
        return tuple(sorted(self._found.items()))

    def _add_scripts(self, part: SimpleCommand) -> None:
        """What is run by its path, or by an interpreter: bound where it is missing, too."""
        modules = [
            following.replace(".", "/")
            for word, following in itertools.pairwise(part.words)
            if word == "-m" and following is not None
        ]
        for name in (*list_scripts(part), *modules):
            for folder in tuple(self._folders):
                place = os.path.join(folder, name)
                for ending in _MODULE_ENDINGS:
                    self._add(place + ending)
                for inner in _FOLDER_FILES:
                    self._add(os.path.join(place, inner))
            first = paths.normalize_path(os.path.join(next(iter(self._folders)), name))
            if len(self._found) < _MAX_FILES and name not in modules:
                self._found.setdefault(first, "")

    def _list_places(self, text: str) -> Iterator[str]:
        """The paths that a text may mean, in each of the folders."""
        for folder in tuple(self._folders):
            for name in self._expand(text, folder):
                if "\0" in name or len(name) > 4_096:
                    continue
                place = os.path.join(folder, name)
                if _GLOB.search(name) is None:
                    yield place
                elif self._lookups > 0:
                    self._lookups -= 10
                    yield from itertools.islice(glob.iglob(place), _MAX_FILES)

    def _expand(self, text: str, folder: str) -> list[str]:
        if text.startswith("~/") or text == "~":
            return [self._home + text[1:]]
        if "$" not in text and "`" not in text:
            return [text]
        found = [text]
        for known in _VARIABLE.finditer(text):
            name = known[1] or known[2] or "PWD"
            values = [folder] if name == "PWD" else self._variables.get(name, [])
            found = [each.replace(known[0], value) for each in found for value in values][:_MAX_PIECES]
        return found

    def _add(self, place: str) -> None:
        self._lookups -= 1
        path = paths.normalize_path(place)
        if self._lookups < 0 or len(self._found) >= _MAX_FILES or self._found.get(path):
            return
        try:
            facts = os.stat(place)
        except (OSError, ValueError):
            return
        if not stat.S_ISREG(facts.st_mode):
            return
        self._budget -= min(facts.st_size, _MAX_SCRIPT_BYTES)
        self._found[path] = digest_script(place) if self._budget >= 0 else _describe(facts)


def _list_texts(parsed: ParsedCommand, parts: Sequence[SimpleCommand]) -> list[str]:
    """Every text of a command that may name a file, in order: its words, what stands inside them, and what it reads."""
    found: dict[str, None] = {}
    for part in parts:
        for word in part.tokens:
            _add_pieces(word.text if word.kind != "unknown" else word.source.replace('"', "").replace("'", ""), found)
        for _, value in part.assignments:
            _add_pieces(value or "", found)
        for redirected in part.redirections:
            if not redirected.writes:
                _add_pieces(redirected.target.text or redirected.target.source, found)
    # Inside of quotes too, where another program reads it, and where the line is not understood.
    for piece in itertools.islice((match[0] for match in _PIECE.finditer(parsed.command)), _MAX_TEXTS):
        _add_pieces(piece, found)
    written = {
        redirected.target.text
        for part in parts
        for redirected in part.redirections
        if redirected.operator in {">", ">>"}
    }
    return [text for text in list(found)[:_MAX_TEXTS] if text not in written]


def _add_pieces(text: str, found: dict[str, None]) -> None:
    """A word, the value that is attached to an option in it, and the parts of a list."""
    if not text or len(text) > 4_096:
        return
    found[text] = None
    rest = text[1:] if text[0] == "@" else text[2:] if text[0] == "-" and text[1:2] != "-" else ""
    values = [rest, text.partition("=")[2]]
    for value in values:
        if value:
            found[value] = None
    for value in (text, *values):
        if ":" in value or "," in value:
            found.update(dict.fromkeys(filter(None, re.split("[:,]", value, maxsplit=_MAX_PIECES))))


def list_scripts(part: SimpleCommand) -> list[str]:
    """The program, where it is given by its path, or all files that an interpreter may run."""
    words = part.words
    if not words or words[0] is None:
        return []
    # As it is written: what runs inside something else is known by its bare name.
    written = read_word(part.tokens[0].source)
    if "/" in written.text:
        return [os.path.expanduser(written.text) if written.kind == "home" else written.text]
    if not _is_interpreter(words[0]):
        return []
    return [word for word in words[1:] if word is not None and not word.startswith("-")]


def digest_script(path: str) -> str:
    """A digest of its content; empty where there is none. Blocks."""
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:
            facts = os.fstat(file.fileno())
            content = hashlib.sha256(file.read(_MAX_SCRIPT_BYTES))
    except (OSError, ValueError):
        return ""
    if facts.st_size > _MAX_SCRIPT_BYTES:
        content.update(_describe(facts).encode())
    return content.hexdigest()


def _describe(facts: os.stat_result) -> str:
    return f"{facts.st_dev}:{facts.st_ino}:{facts.st_size}:{facts.st_mtime_ns}:{facts.st_ctime_ns}"


def _open_nonblocking(path: str, flags: int) -> int:
    """To open a FIFO in the place of a script would block for ever."""
    return os.open(path, flags | os.O_NONBLOCK)
