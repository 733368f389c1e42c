"""Binds an approval to what runs: the folder, and the content of the files that a command names.

What was approved is what runs: where one of them has changed since, the command is asked about again.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools import commands
from ostler.tools.commands import ParsedCommand, SimpleCommand, Word
from ostler.tools.context import SessionView
from ostler.tools.shell.named_files import find_named_files, is_interpreter, runs_anything

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
_UNDECIDED: Final = compile_later(r"\$(?!\{(?:PWD|HOME)\}|(?:PWD|HOME)\b|\(pwd\))|`(?!pwd`|\Z)")
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
    complete: bool = field(default=True, compare=False)
    """Whether all of a long line was looked at."""

    @property
    def digest(self) -> str:
        """A digest of all of it, to be stored with an ask."""
        joined = "\0".join((self.folder, *(part for script in self.scripts for part in script)))
        return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


def compute_binding(command: str, session: SessionView) -> ApprovalBinding:
    """Blocks: reads the files."""
    home = session.environment.get("HOME") or os.path.expanduser("~")
    named = find_named_files(commands.parse_command(command), session.shell_folder, home)
    return ApprovalBinding(session.shell_folder, named.files, complete=named.complete)


def may_change_what_runs(parsed: ParsedCommand) -> bool:
    """Whether files decide what it runs that it does not name: an approval cannot be bound to them."""
    for part in filter(runs_anything, parsed.parts):
        running = [inner for inner in commands.unwrap(part) if inner.tokens]
        if any(map(_has_unbound_code, running)) or _runs_what_it_reads(running):
            return True
    return False


def _runs_what_it_reads(running: Sequence[SimpleCommand]) -> bool:
    """`xargs bash`: which scripts it runs is known only when it runs."""
    names = [part.words[0] for part in running]
    lists = next((place for place, name in enumerate(names) if name in {"xargs", "parallel"}), len(names))
    return any(name is not None and is_interpreter(name) for name in names[lists + 1 :])


def _has_unbound_code(part: SimpleCommand) -> bool:
    name, undecided = part.words[0], any(map(_is_undecided, part.tokens))
    if name is None:
        return undecided
    if name.lower() in _BUILD_PROGRAMS:
        return True
    return is_interpreter(name) and (undecided or "-m" in part.words or name == "find")


def _is_undecided(word: Word) -> bool:
    """Whether a word is known only when it runs, but for the folders that we know."""
    return word.kind == "unknown" and _UNDECIDED.search(word.source) is not None
