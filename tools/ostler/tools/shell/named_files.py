"""Finds the files that a command line names and may run, with a digest of each.

Every file counts that a word may mean, through `cd`, `-f FILE`, redirections, pipes, globs and variables: one too many
does no harm. What such a file loads in its turn is not looked at.
"""

import fnmatch
import hashlib
import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools import commands
from ostler.tools.commands import ParsedCommand, SimpleCommand, Word
from ostler.tools.commands.syntax.braces import expand_braces
from ostler.tools.commands.syntax.words import read_word
from ostler.tools.fs import paths
from ostler.tools.fs.regular_file import NotRegular, open_regular_file

_MAX_SCRIPT_BYTES: Final = 16 * 1024 * 1024
_MAX_READ_BYTES: Final = 64 * 1024 * 1024
"""Of all files of a command; of what is larger, the size and the time of the last change count."""
_MAX_FILES: Final = 200
_MAX_FOLDERS: Final = 16
_MAX_LOOKUPS: Final = 6_000
_MAX_TEXTS: Final = 1_000
_MAX_PIECES: Final = 8
_MAX_NESTED: Final = 3
"""Values of variables that hold variables."""
_MAX_ASSIGNMENTS: Final = 100
_MAX_LENGTH: Final = 4_096
_INTERPRETERS: Final = frozenset({
    "bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "fish", "python", "pypy", "node", "nodejs", "deno", "bun",
    "ruby", "perl", "php", "lua", "tclsh", "expect", "rscript", "julia", "source", ".", "eval", "awk", "gawk", "mawk",
    "sed", "xargs", "parallel", "find", "babel-node", "bb", "clojure", "dart", "elixir", "groovy", "guile", "java",
    "jruby", "kotlin", "luajit", "osascript", "powershell", "pwsh", "racket", "raku", "run-parts", "scala", "swift",
    "ts-node", "tsx",
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
_TARGET_PROGRAMS: Final = frozenset({"make", "gmake", "npm", "yarn", "pnpm", "cargo"})
_TARGET: Final = compile_later(r"[A-Za-z0-9][A-Za-z0-9_:-]*|-[jksBnqiw][0-9]*")
"""Words of these programs that name a target, a script of theirs or a number, and no file."""
_MODULE_ENDINGS: Final = ("", ".py", ".js", ".cjs", ".mjs", ".ts", ".rb", ".pl", ".pm", ".json", ".sh")
_FOLDER_FILES: Final = ("__main__.py", "__init__.py", "index.js", "package.json")
_CODE_OPTIONS: Final = frozenset({
    "-f", "-r", "-m", "-S", "-x", "-P", "--file", "--makefile", "--require", "--import", "--loader", "--rcfile",
    "--init-file", "--preload", "--script",
})  # fmt: skip
_MODULE: Final = compile_later(r"[\w./-]*\w")
_DOTTED: Final = compile_later(r"\w+(?:\.\w+)+")
_MAX_MODULES: Final = 50
_PIECE: Final = compile_later(r"""[^\s;|&<>()'"`]+""")
_VARIABLE: Final = compile_later(
    r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?::?[-=?+]([^}]*)|[%#/^,@:][^}]*)?\}|([A-Za-z_][A-Za-z0-9_]*))"
    r"|\$\([^()]*\)|`[^`]*`"
)
_ASSIGNMENT: Final = compile_later(
    r"""(?<![\w$-])([A-Za-z_]\w*)=((?:"[^"]*"|'[^']*'|\$\([^()]*\)|`[^`]*`|[^\s;&|()<>"'`])+)"""
)
_LOOP: Final = compile_later(r"(?<![\w-])for\s+([A-Za-z_]\w*)\s+in\s+([^;\n]+)")
_RUNS_ARGUMENT: Final = compile_later(
    r"""(?:^|[;&|({]|\b(?:source|exec|eval|bash|sh|do|then)\s|(?<!\S)\.\s)\s*"?\$\{?[0-9@*]"""
)
"""Code that runs a file which it is given behind it: `bash -c '. "$0"' x`."""
_GLOB: Final = compile_later(r"[*?\[]")
_CLASS: Final = compile_later(r"\[\[:[a-z]+:\]\]")


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """What a command line names."""

    files: tuple[tuple[str, str], ...]
    """Each file with a digest of its content; that of a script which is not there is empty."""
    looked: tuple[str, ...]
    """Where it was looked for one, and the folders of patterns."""
    complete: bool
    """Whether all of the line was looked at."""
    scripts: frozenset[str] = frozenset()
    """Of these and of what is missing: what is run by its path, by an interpreter, or by an option that loads code."""


def find_named_files(
    parsed: ParsedCommand, folder: str, home: str, variables: Mapping[str, str] | None = None
) -> NamedFiles:
    """The files that a command names, run in a folder; none where it runs nothing. Blocks: reads them."""
    if not runs_files(parsed):
        return NamedFiles((), (), complete=True)
    return _FileFinder(folder, home, variables or {}).find(parsed)


def runs_files(parsed: ParsedCommand) -> bool:
    """Whether anything in it may run a file that a word of it names. By its text alone."""
    return parsed.problem is not None or any(runs_anything(part) and not _names_targets(part) for part in parsed.parts)


def runs_anything(part: SimpleCommand) -> bool:
    """Whether a part is more than a program that only reads, or for which a file is data."""
    if not part.tokens:
        return False
    data = part.words[0] in _DATA_PROGRAMS or commands.part_is_read_only(part)
    return not data or (bool(part.assignments) and commands.sets_dangerous_variable(part))


def _names_targets(part: SimpleCommand) -> bool:
    words = part.literal_words
    if words is None or words[0] not in _TARGET_PROGRAMS:
        return False
    if not all(value is not None and (not value or value.isdecimal()) for _, value in part.assignments):
        return False
    return all(map(_TARGET.fullmatch, words[1:])) and all(found.writes or found.copies for found in part.redirections)


def is_interpreter(name: str) -> bool:
    """Whether it runs the files that it is given, or what they name."""
    return name.lower() in _INTERPRETERS or name.lower().rstrip("0123456789.") in _INTERPRETERS


class _FileFinder:
    """Looks in all folders that a command may go to."""

    def __init__(self, folder: str, home: str, variables: Mapping[str, str]) -> None:
        self._home = home
        self._folders: dict[str, None] = {folder: None}
        self._variables = {"HOME": [home], **{name: [value] for name, value in variables.items()}}
        self._lookups = _MAX_LOOKUPS
        self._bytes_left = _MAX_READ_BYTES
        self._found: dict[str, str] = {}
        self._looked: dict[str, None] = {}

    def find(self, parsed: ParsedCommand) -> NamedFiles:
        parts = [inner for part in parsed.parts for inner in (part, *commands.unwrap(part))]
        for part in parts:
            for name, value in part.assignments:
                if value is not None:
                    self._variables.setdefault(name, []).append(value)
        self._add_written_values(parsed.command)
        texts = _list_texts(parsed, parts)
        self._add_folders(texts[:_MAX_TEXTS])
        for part in parts:
            self._add_scripts(part)
        for place in self._list_all_places(texts[:_MAX_TEXTS]):
            self._add(place)
        if any(map(_is_interpreted, parts)):
            self._add_modules(texts)
            if any("-c" in part.words for part in parts):
                self._add_modules([text.replace(".", "/") for text in texts if _DOTTED.fullmatch(text)])
        complete = self._lookups >= 0 and len(texts) <= _MAX_TEXTS and len(self._found) < _MAX_FILES
        scripts = frozenset(paths.normalize_path(place) for place in self._list_all_places(_list_run_texts(parts)))
        return NamedFiles(tuple(sorted(self._found.items())), tuple(self._looked), complete, scripts)

    def _add_written_values(self, command: str) -> None:
        """Values that hold variables or patterns themselves, and what a loop goes through."""
        given = itertools.islice(_ASSIGNMENT.finditer(command), _MAX_ASSIGNMENTS)
        loops = itertools.islice(_LOOP.finditer(command), _MAX_ASSIGNMENTS)
        values = [(each[1], each[2]) for each in given]
        values += [(each[1], word) for each in loops for word in each[2].split()[:_MAX_PIECES]]
        for name, written in values:
            known, value = self._variables.setdefault(name, []), written.replace('"', "").replace("'", "")
            if value not in known and len(known) < _MAX_PIECES:
                known.append(value)

    def _add_folders(self, texts: Iterable[str]) -> None:
        """Every folder that is named is one that later words may start from."""
        for place in self._list_all_places(texts):
            if len(self._folders) >= _MAX_FOLDERS:
                return
            if os.path.isdir(place):
                self._folders[paths.normalize_path(place)] = None

    def _add_scripts(self, part: SimpleCommand) -> None:
        """What is run by its path, or by an interpreter: it counts where it is missing, too."""
        for text in _list_script_texts(part):
            if self._lookups < 0:
                return
            for place in self._list_places(text):
                for ending in _MODULE_ENDINGS:
                    self._add(place + ending)
                for inner in _FOLDER_FILES:
                    self._add(os.path.join(place, inner))
            for name in self._expand(text, next(iter(self._folders))):
                missing = paths.normalize_path(os.path.join(next(iter(self._folders)), name))
                if len(self._found) < _MAX_FILES and len(name) <= _MAX_LENGTH and not os.path.isdir(missing):
                    self._found.setdefault(missing, "")
        for word, following in itertools.pairwise(part.words):
            if word == "-m" and following is not None:
                for folder in tuple(self._folders):
                    place = os.path.join(folder, following.replace(".", "/"))
                    self._add(f"{place}.py")
                    self._add(os.path.join(place, "__main__.py"))
                    self._add(os.path.join(place, "__init__.py"))

    def _add_modules(self, texts: Sequence[str]) -> None:
        """What inline code of an interpreter may load by a name without its ending: `import mod`, `require('./x')`."""
        names = [text for text in texts if _MODULE.fullmatch(text)]
        for place in self._list_all_places(names[:_MAX_MODULES]):
            for ending in _MODULE_ENDINGS[1:]:
                self._add(place + ending)
            self._add(os.path.join(place, "__init__.py"))
            self._add(os.path.join(place, "index.js"))

    def _list_all_places(self, texts: Iterable[str]) -> Iterator[str]:
        return (place for text in texts for place in self._list_places(text))

    def _list_places(self, text: str) -> Iterator[str]:
        """The paths that a text may mean, in each of the folders."""
        for folder in tuple(self._folders):
            self._lookups -= 1
            if self._lookups < 0:
                return
            for name in self._expand(text, folder):
                if "\0" in name or len(name) > _MAX_LENGTH:
                    continue
                place = os.path.join(folder, name)
                if _GLOB.search(name) is None:
                    yield place
                else:
                    yield from itertools.islice(self._expand_pattern(place), _MAX_FILES)

    def _expand_pattern(self, pattern: str) -> Iterator[str]:
        """What a pattern finds, as far as there are lookups left: it may lead over the whole disk."""
        places = ["/"]
        for part in _CLASS.sub("?", pattern).replace("[^", "[!").split("/"):
            if _GLOB.search(part) is None:
                places = [os.path.join(place, part) for place in places]
            else:
                matches = re.compile(fnmatch.translate(part)).match
                hidden = part.startswith(".")
                places = [
                    os.path.join(place, name)
                    for place in places
                    for name in self._list_names(place)
                    if matches(name) and (hidden or not name.startswith("."))
                ]
        return (place for place in places if os.path.lexists(place))

    def _list_names(self, folder: str) -> Iterator[str]:
        self._looked[paths.normalize_path(folder)] = None
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._lookups -= 1
                    if self._lookups < 0:
                        return
                    yield entry.name
        except OSError:
            return

    def _expand(self, text: str, folder: str) -> list[str]:
        if text.startswith(("~/", "~+/")) or text == "~":
            return [folder + text[2:] if text[1:2] == "+" else self._home + text[1:]]
        if text.startswith("~"):
            return [os.path.expanduser(text)]
        found = [text]
        for _ in range(_MAX_NESTED):
            if not any("$" in each or "`" in each for each in found):
                break
            found = [more for each in found for more in self._expand_once(each, folder)][:_MAX_PIECES]
        return found

    def _expand_once(self, text: str, folder: str) -> list[str]:
        found = [text]
        for known in itertools.islice(_VARIABLE.finditer(text), _MAX_PIECES):
            values = self._list_values(known, folder)
            found = [each.replace(known[0], value) for each in found for value in values][:_MAX_PIECES]
        return found

    def _list_values(self, known: re.Match[str], folder: str) -> list[str]:
        """What only the run tells is mostly a folder: where it runs, or the top of the repository."""
        name = known[1] or known[3]
        if name is None:
            return list(dict.fromkeys((folder, paths.find_repository_folder(folder) or folder)))
        values = [] if name == "PWD" else [*self._variables.get(name, []), *([known[2]] if known[2] else [])]
        return values or [folder]

    def _add(self, place: str) -> None:
        self._lookups -= 1
        path = paths.normalize_path(place)
        if self._lookups < 0 or len(self._found) >= _MAX_FILES or self._found.get(path):
            return
        try:
            facts = os.stat(place)
        except (OSError, ValueError):
            self._looked[path] = None
            return
        if not stat.S_ISREG(facts.st_mode):
            return
        self._looked[path] = None
        self._bytes_left -= min(facts.st_size, _MAX_SCRIPT_BYTES)
        self._found[path] = digest_script(place) if self._bytes_left >= 0 else _describe(facts)


def _list_run_texts(parts: Sequence[SimpleCommand]) -> list[str]:
    """What is not only named: the script of an interpreter and not its arguments, and what is fed to one."""
    found: dict[str, None] = {}
    reads_pipe = any("pipe" in part.inside and _runs_input(part) for part in parts)
    for part in parts:
        texts = _list_script_texts(part)
        takes_others = bool(texts) and "-c" in part.words and _RUNS_ARGUMENT.search(texts[0]) is not None
        found.update(dict.fromkeys(texts if takes_others else texts[:1]))
        found.update(dict.fromkeys(_list_variable_texts(part)))
        if _is_interpreted(part):
            found.update((_read_text(each.target), None) for each in part.redirections if each.reads)
        elif reads_pipe or "substitution" in part.inside:
            found.update((_read_text(token), None) for token in part.tokens[1:])
            found.update((_read_text(each.target), None) for each in part.redirections if each.reads)
        for token, following in itertools.pairwise(part.tokens):
            if token.text in _CODE_OPTIONS:
                found[_read_text(following)] = None
        for token in part.tokens:
            name, equals, value = token.text.partition("=")
            if equals and name in _CODE_OPTIONS:
                found[value] = None
    return [text for text in found if text][:_MAX_TEXTS]


def _list_variable_texts(part: SimpleCommand) -> list[str]:
    """The values of variables that decide what runs, given before a command or to `env` and `export`."""
    words = (token.text.partition("=") for token in part.tokens[1:] if "=" in token.text)
    given = (*part.assignments, *((name, value) for name, _, value in words if name.isidentifier()))
    if not given or not commands.sets_dangerous_variable(replace(part, assignments=given)):
        return []
    return [piece for _, value in given if value for piece in re.split("[: ]", value)]


def _runs_input(part: SimpleCommand) -> bool:
    """Whether it runs what it reads: an interpreter without a script of its own, and `xargs bash`."""
    return _is_interpreted(part) and (part.words[0] in {"xargs", "parallel"} or not _list_script_texts(part))


def _is_interpreted(part: SimpleCommand) -> bool:
    return bool(part.words) and part.words[0] is not None and is_interpreter(part.words[0])


def _list_texts(parsed: ParsedCommand, parts: Sequence[SimpleCommand]) -> list[str]:
    """Every text of a command that may name a file, in order: its words, what stands inside them, and what it reads."""
    found: dict[str, None] = {}
    for part in parts:
        for word in part.tokens:
            for each in expand_braces(word):
                _add_pieces(_read_text(each), found)
        for _, value in part.assignments:
            _add_pieces(value or "", found)
        for redirected in part.redirections:
            if not redirected.writes:
                _add_pieces(redirected.target.text or redirected.target.source, found)
    # Inside of quotes too, where another program reads it, and where the line is not understood.
    for piece in itertools.islice((match[0] for match in _PIECE.finditer(parsed.command)), _MAX_TEXTS + 1):
        _add_pieces(piece, found)
    written = {
        redirected.target.text
        for part in parts
        for redirected in part.redirections
        if redirected.operator in {">", ">>"}
    }
    return [text for text in found if text not in written]


def _add_pieces(text: str, found: dict[str, None]) -> None:
    """A word, the value that is attached to an option in it, and the parts of a list."""
    if not text or len(text) > _MAX_LENGTH:
        return
    found[text] = None
    rest = text[1:] if text[0] == "@" else text[2:] if text[0] == "-" and text[1:2] != "-" else ""
    values = [rest, text.partition("=")[2], text.rpartition("=")[2] if "=" in text else ""]
    for value in values:
        if value:
            found[value] = None
    for value in (text, *values):
        if ":" in value or "," in value:
            found.update(dict.fromkeys(filter(None, re.split("[:,]", value, maxsplit=_MAX_PIECES))))


def _read_text(word: Word) -> str:
    """Its text without quotes, also where a variable stands in it."""
    return word.text if word.kind != "unknown" else word.source.replace('"', "").replace("'", "")


def _list_script_texts(part: SimpleCommand) -> list[str]:
    """The program, where it is given by its path, and all that an interpreter may run."""
    if not part.tokens:
        return []
    # As it is written: what runs inside something else is known by its bare name.
    written = _read_text(read_word(part.tokens[0].source))
    if "/" in written:
        return [written]
    if part.words[0] is None or not is_interpreter(part.words[0]):
        return []
    operands = (each for token in part.tokens[1:] for each in expand_braces(token))
    found = [text for text in map(_read_text, operands) if text and not text.startswith("-")]
    return [f"{text}/*" for text in found] if part.words[0] == "run-parts" else found


def digest_script(path: str) -> str:
    """A digest of its content; empty where there is none. Blocks."""
    try:
        with open(open_regular_file(path), "rb") as file:
            facts = os.fstat(file.fileno())
            content = hashlib.sha256(file.read(_MAX_SCRIPT_BYTES))
    except (NotRegular, OSError, ValueError):
        return ""
    if facts.st_size > _MAX_SCRIPT_BYTES:
        content.update(_describe(facts).encode())
    return content.hexdigest()


def _describe(facts: os.stat_result) -> str:
    return f"{facts.st_dev}:{facts.st_ino}:{facts.st_size}:{facts.st_mtime_ns}:{facts.st_ctime_ns}"
