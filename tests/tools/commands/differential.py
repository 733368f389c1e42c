"""Runs the lines that we call read-only, or that a prefix rule allows, in real bash, and compares what happened.

Every program and builtin that the lines name is a function that writes its arguments down, so that thousands of lines
run in one shell. What was run must be among what we said would run, no variable may have changed that we did not say,
and nothing may have been written. What only reads runs once more with the real programs, in a sandbox with a canary.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ostler.protocol.ids import SessionId
from ostler.tools.commands import GIT_GUARD_ENVIRONMENT, SimpleCommand, find_uncovered
from ostler.tools.commands.safety.composites.composite_line import read_composite
from ostler.tools.commands.safety.transparent_wrappers import strip_wrappers
from ostler.tools.context import SessionView
from ostler.tools.shell.bash_policy import build_read_check, judge
from ostler.tools.tool import Allow
from tests.tools.commands.line_generator import LineGenerator

RULE: Final = "npm test:*"
SECRET: Final = "the-canary-outside-the-roots"
STUBBED: Final = (
    "ls", "cat", "echo", "printf", "head", "wc", "grep", "test", "[", "true", "false", "pwd", ":", "rg", "find",
    "npm", "tr",
    "sort", "du", "stat", "type", "tail", "uniq", "cut", "git", "rm", "f", "a", "x", "sudo", "env", "time",
    "basename", "seq", "diff", "sed", "date", "nproc", "dirname", "comm",
)  # fmt: skip
_KEPT: Final = ("PATH", "IFS", "HOME", "BASH_ENV", "ENV", "CDPATH", "GLOBIGNORE", "LD_PRELOAD", "x", "a")
_VOLATILE: Final = frozenset({
    "_", "BASHPID", "BASH_COMMAND", "BASH_SUBSHELL", "LINENO", "PIPESTATUS", "RANDOM", "SRANDOM", "SECONDS", "PWD",
    "OLDPWD",
    "BASH_ARGC", "BASH_ARGV", "BASH_LINENO", "BASH_SOURCE", "FUNCNAME", "EPOCHREALTIME", "EPOCHSECONDS", "__line",
    "__number",
    "BASH_EXECUTION_STRING", "DIRSTACK", "GROUPS",
})  # fmt: skip
_SAY_THAT_NOTHING_IS_GIVEN: Final = frozenset({("basename",), ("dirname",), ("seq",)})
_END: Final = "\1end\1"
_NEWLINE: Final = "\2"
"""In place of newlines in what is recorded: bash writes at each of them, and what it writes at once stays together."""

_RECORDER: Final = """
__record() {{ builtin printf '%s\\0' "$__number" "$#" "${{@//$'\\n'/$'\\2'}}" >>"$__log"; }}
{functions}
__dump() {{
    {{
        builtin compgen -v
        builtin printf '\\0'
        builtin declare -p {kept}
        builtin printf '\\0%s\\0' '{end}'
    }} >>"$__variables" 2>/dev/null
}}
readonly __log="$1" __variables="$2"
__number=0
while IFS= builtin read -r -d '' __line; do
    (
        trap -- __dump EXIT
        builtin eval -- "$__line"
    ) </dev/null >/dev/null 2>&1
    builtin printf '%s\\0' '{end}' >>"$__variables"
    __number=$((__number + 1))
done <"$3"
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A line that may run, and what we say of it."""

    line: str
    runs: str
    """What the shell is given."""
    words: frozenset[tuple[str, ...]]
    assigned: frozenset[str] = frozenset()
    kind: Literal["written", "literal", "ruled"] = "written"
    """It only reads, as it is written or as we would run it, or a rule allows it."""


@dataclass(slots=True)
class Comparison:
    """What one or more batches found."""

    generated: int = 0
    read_only: int = 0
    ruled: int = 0
    problems: list[str] = field(default_factory=list)


def build_canary(folder: Path) -> Path:
    """A project with names that attack, links that lead out of it, and programs in the place of others."""
    project = folder / "project"
    for name in (
        "a",
        "b",
        "f.txt",
        "a.py",
        "b.py",
        "src/x.py",
        "src/y.py",
        "d/e/g",
        "d/x.py",
        ".hidden",
        "sp ace/a b",
        "x",
    ):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(f"{name}\n")
    for place in ("bin", "10", "11", "12", "13", "y", "1"):
        (project / place).mkdir()
        for program in ("ls", "cat", "npm", "head", "grep"):
            (project / place / program).write_text(f"#!/bin/sh\necho ran >{project}/PLANTED\n")
            (project / place / program).chmod(0o755)
    (folder / "outside").mkdir()
    (folder / "outside" / "secret").write_text(f"{SECRET}\n")
    (project / "links").mkdir()
    (project / "links" / "out").symlink_to(folder / "outside" / "secret")
    (project / "links" / "away").symlink_to(folder / "outside")
    return project


def build_view(project: Path) -> SessionView:
    return SessionView(SessionId("s_1"), str(project), str(project), (str(project),), "default", home="/nowhere")


def list_claims(line: str, view: SessionView) -> Iterator[Claim]:
    """What we say of a line: as it is written where we call it read-only, as we would run it, and under the rule."""
    judged = judge(line, view)
    parsed = judged.subject.parsed
    if judged.read_only.ok and isinstance(judged.check, Allow):
        expansion = judged.read_only.expansion
        parts = expansion.parsed.parts if expansion is not None else parsed.parts
        if any(token.kind not in {"literal", "home"} for part in parts for token in part.tokens):
            return
        if parsed.problem is None and not parsed.agreed:
            # Written anew: the line itself never runs. A substitution gives nothing here, where no program prints.
            leaves = read_composite(line, view.folder).leaves
            parts = (*parts, *(each for leaf in leaves for each in leaf.variants))
        inner = [stripped for part in parts if (stripped := strip_wrappers(part)) is not None]
        words = frozenset(_list_words(part, view) for part in (*parts, *inner)) | _SAY_THAT_NOTHING_IS_GIVEN
        if parsed.agreed:
            yield Claim(line, line, words)
        yield Claim(line, judged.literal_command or "", words, kind="literal")
    elif not find_uncovered(parsed, [RULE], build_read_check(view)):
        assigned = frozenset(name for part in parsed.parts for name, _ in part.assignments)
        known = [part for part in parsed.parts if part.tokens]
        inner = [stripped for part in known if (stripped := strip_wrappers(part)) is not None]
        if all(part.literal_words is not None for part in known):
            words = frozenset(part.literal_words or () for part in (*known, *inner))
            yield Claim(line, line, words, assigned, kind="ruled")


def _list_words(part: SimpleCommand, view: SessionView) -> tuple[str, ...]:
    """The words as the shell gets them, whose home folder is the project."""
    return tuple(view.folder + token.text[1:] if token.kind == "home" else token.text for token in part.tokens)


def compare_batch(seed: int, count: int, project: Path, found: Comparison) -> None:
    """Generates lines, and compares what bash does with what we say; what differs is a problem, with seed and line."""
    generator, view = LineGenerator(seed), build_view(project)
    claims = [claim for _ in range(count) for claim in list_claims(generator.generate(), view)]
    found.generated += count
    found.read_only += sum(claim.kind == "literal" for claim in claims)
    found.ruled += sum(claim.kind == "ruled" for claim in claims)
    before = take_snapshot(project)
    for claim, problem in find_differences(claims, project):
        found.problems.append(f"{problem}: {claim.line!r} ran as {claim.runs!r} (seed {seed})")
    if take_snapshot(project) != before:
        found.problems.append(f"files were changed by one of the lines of seed {seed}: {_find_writer(claims, project)}")
    reading = list(dict.fromkeys(claim.runs for claim in claims if claim.kind == "literal"))
    found.problems += [f"{problem} (seed {seed})" for problem in run_for_real(reading, project)]


def take_snapshot(project: Path) -> dict[str, tuple[int, int, int]]:
    facts = {str(path): path.lstat() for path in project.rglob("*")}
    return {path: (each.st_mode, each.st_size, each.st_mtime_ns) for path, each in facts.items()}


def find_differences(claims: Sequence[Claim], project: Path) -> Iterator[tuple[Claim, str]]:
    """The claims that bash does not bear out, each with what it did."""
    # An empty line first: what the shell is like where nothing has happened.
    first, *records = _record([Claim("", ":", frozenset()), *claims], project) or [_Record((), ("", ""))]
    if len(records) != len(claims):
        yield claims[min(len(records), len(claims) - 1)], f"{len(records)} of {len(claims)} lines came to their end"
        return
    for claim, record in zip(claims, records, strict=True):
        strange = [words for words in map(_strip_descriptors, record.words) if words not in claim.words]
        if strange:
            yield claim, f"bash ran {strange[0]!r}, and we said {sorted(claim.words)!r}"
        changed = _list_changed(first.variables, record.variables) - claim.assigned
        if record.variables != ("", "") and changed:
            yield claim, f"bash set {sorted(changed)!r}"


def _strip_descriptors(words: tuple[str, ...]) -> tuple[str, ...]:
    """The file that stands for what a command prints, as it is judged."""
    return tuple("/dev/null" if word.startswith("/dev/fd/") else word for word in words)


@dataclass(frozen=True, slots=True)
class _Record:
    words: tuple[tuple[str, ...], ...]
    variables: tuple[str, str]


def _list_changed(before: tuple[str, str], after: tuple[str, str]) -> set[str]:
    named = set(before[0].split()) ^ set(after[0].split())
    old, new = set(before[1].split("\n")), set(after[1].split("\n"))
    named |= {line.split("=")[0].split()[-1] for line in old ^ new if line.startswith("declare")}
    return named - _VOLATILE


def _record(claims: Sequence[Claim], project: Path) -> list[_Record]:
    """What each line ran, and the variables at its end; of the lines that came to an end."""
    with tempfile.TemporaryDirectory(prefix="ostler-lines-") as folder:
        log, variables, lines, script = (Path(folder) / name for name in ("log", "variables", "lines", "script"))
        log.touch()
        variables.touch()
        lines.write_bytes(b"".join(os.fsencode(claim.runs) + b"\0" for claim in claims))
        functions = "\n".join(f'function {name} {{ __record {name} "$@"; }}' for name in STUBBED)
        script.write_text(_RECORDER.format(functions=functions, kept=" ".join(_KEPT), end=_END))
        shell = [shutil.which("bash") or "/bin/bash", "--noprofile", "--norc", str(script), str(log), str(variables)]
        subprocess.run(
            [*_confine(project, Path(folder)), *shell, str(lines)],
            cwd=project,
            env={"PATH": "/nowhere/bin", "HOME": str(project), "LC_ALL": "C.UTF-8"},
            check=False,
            timeout=300,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ran = _parse_words(os.fsdecode(log.read_bytes()))
        ends = os.fsdecode(variables.read_bytes()).split(f"{_END}\0{_END}\0")[:-1]
    return [_Record(tuple(ran.get(number, ())), _parse_variables(text)) for number, text in enumerate(ends)]


def _parse_words(text: str) -> dict[int, list[tuple[str, ...]]]:
    pieces, found, place = text.split("\0"), dict[int, list[tuple[str, ...]]](), 0
    while place < len(pieces) - 1:
        number, count = int(pieces[place]), int(pieces[place + 1])
        words = pieces[place + 2 : place + 2 + count]
        found.setdefault(number, []).append(tuple(word.replace(_NEWLINE, "\n") for word in words))
        place += 2 + count
    return found


def _parse_variables(text: str) -> tuple[str, str]:
    names, _, values = text.partition("\0")
    return names, values.strip("\0")


def _find_writer(claims: Sequence[Claim], project: Path) -> str:
    for claim in claims:
        before = take_snapshot(project)
        _record([claim], project)
        if take_snapshot(project) != before:
            return repr(claim.runs)
    return "none of them alone"


def _confine(project: Path, folder: Path) -> list[str]:
    """A sandbox without network in which only the canary can be written; nothing where bubblewrap does not work."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return []
    confined = [bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", str(project), str(project),
                "--bind", str(folder), str(folder), "--unshare-all", "--chdir", str(project)]  # fmt: skip
    works = subprocess.run([*confined, "true"], capture_output=True, check=False).returncode == 0
    return confined if works else []


def run_for_real(lines: Sequence[str], project: Path) -> list[str]:
    """Runs what only reads with the real programs: nothing may change, and no secret from outside be shown."""
    with tempfile.TemporaryDirectory(prefix="ostler-lines-") as folder:
        confined = _confine(project, Path(folder))
        if not confined or not lines:
            return []
        given = Path(folder) / "lines"
        given.write_bytes(b"".join(os.fsencode(line) + b"\0" for line in lines))
        loop = (
            "while IFS= builtin read -r -d '' __line; do"
            ' (builtin set -f +B; builtin eval -- "$__line") </dev/null 2>&1;'
            ' builtin printf \'\\n\\1%s\\1\\n\' "$__line"; done <"$1"'
        )
        before = take_snapshot(project)
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(project), "LC_ALL": "C.UTF-8", **GIT_GUARD_ENVIRONMENT}
        done = subprocess.run(
            [*confined, "bash", "--noprofile", "--norc", "-c", loop, "bash", str(given)], cwd=project, env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=300,
        )  # fmt: skip
    problems = []
    if take_snapshot(project) != before:
        problems.append("a line that only reads has changed files")
    pieces = done.stdout.decode("utf-8", "replace").split("\1")
    shown = [pieces[place + 1] for place in range(0, len(pieces) - 1, 2) if SECRET in pieces[place]]
    return problems + [f"the file outside the roots was shown by {line!r}" for line in shown]
