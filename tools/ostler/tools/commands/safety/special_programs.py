"""Checks the read-only programs whose arguments a table of options cannot describe."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ostler.tools.commands.safety.program_table import (
    Arguments,
    NotReadOnly,
    Program,
    find_file_operands,
    load_git_forms,
    load_programs,
    parse_arguments,
)
from ostler.tools.commands.syntax.words import Word

_TEST_WORDS: Final = frozenset({
    "-b", "-c", "-d", "-e", "-f", "-g", "-G", "-h", "-k", "-L", "-n", "-N", "-O", "-p", "-r", "-s", "-S", "-t",
    "-u", "-w", "-x", "-z", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "-a", "-o",
})  # fmt: skip
_FORMATTED: Final = re.compile(r"%%|%[-+ #0']*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?[diouxXeEfFgGaAcsbq]|[^%]")
_PRINTED_LINES: Final = re.compile(r"(?:\d+|\$)(?:,(?:\+?\d+|\$))?p")
_JQ_READS: Final = re.compile(
    r"\benv\b|\$ENV|\$__|\b(?:import|include|input_filename|get_search_list|modulemeta|getenv|halt_error)\b"
)
_JQ: Final = Program(
    short="rjanscSCMe",
    long=("raw-output", "join-output", "null-input", "slurp", "compact-output", "sort-keys", "color-output", "tab",
          "monochrome-output", "ascii-output", "exit-status", "raw-input", "raw-output0", "unbuffered"),
    long_values={"indent": "number"},
    operands="pattern",
    least=1,
)  # fmt: skip
_DATE: Final = Program(
    short="uR",
    short_values={"d": "text", "r": "file"},
    short_optional={"I": "text"},
    long=("utc", "universal", "rfc-email"),
    long_values={"date": "text", "reference": "file", "rfc-3339": "text"},
    long_optional={"iso-8601": "text"},
    operands="text",
    most=1,
)
_PS_WORDS: Final = frozenset({
    "-e", "-A", "-a", "-f", "-F", "-l", "-L", "-T", "-j", "-H", "-w", "-ww", "-ef", "-eF", "-eLf", "-elf", "-ely",
    "-efw", "-efww", "-efH", "-aux", "-auxw", "-auxww", "--forest", "--headers", "--no-headers", "a", "x", "u", "w",
    "ax", "ux", "au", "aux", "auxw", "auxww", "axu", "auxf", "axf", "axjf", "axww", "--sort=pid", "--sort=-pcpu",
    "--sort=-%cpu", "--sort=-pmem", "--sort=-%mem", "--sort=-rss", "--sort=rss", "--sort=start_time",
})  # fmt: skip
_PS_FIELDS: Final = frozenset({
    "args", "cmd", "comm", "command", "cpu", "egid", "egroup", "elapsed", "etime", "etimes", "euid", "euser", "gid",
    "group", "lstart", "lwp", "ni", "nice", "nlwp", "pcpu", "pgid", "pid", "pmem", "ppid", "pri", "rss", "ruid",
    "ruser", "sid", "start", "start_time", "stat", "state", "stime", "time", "tty", "tt", "uid", "user", "vsz",
    "wchan", "%cpu", "%mem",
})  # fmt: skip
_PIDS: Final = re.compile(r"\d+(?:,\d+)*")


@dataclass(frozen=True, slots=True)
class ReadAccess:
    """What a read-only command reads."""

    files: tuple[Word, ...] = ()
    deep: bool = False
    folder: bool = False
    """It reads the folder that it runs in."""
    follows: bool = False
    """With `deep`: through the links below, too."""
    git: bool = False


def check_options(program: Program, tokens: Sequence[Word]) -> ReadAccess:
    """Checks the options by the table. Raises NotReadOnly."""
    found = parse_arguments(program, tokens)
    return _build_access(program, found)


def _build_access(program: Program, found: Arguments) -> ReadAccess:
    files = tuple(find_file_operands(program, found))
    # What follows the links below a folder reads below it, recursive or not: `ls -L`.
    deep = program.deep or found.has(program.deep_options) or found.has(program.follow_options)
    folder = not files and (program.folder or (deep and bool(program.deep_options)))
    follows = deep and (found.has(program.follow_options) or (program.follows and not found.has(program.no_follow)))
    return ReadAccess(files, deep=deep, folder=folder, follows=follows)


def _require_literals(tokens: Sequence[Word]) -> list[str]:
    for token in tokens:
        if token.kind != "literal":
            raise NotReadOnly(f"{token.source} is decided when it runs")
    return [token.text for token in tokens]


def _check_echo(tokens: Sequence[Word]) -> ReadAccess:
    for token in tokens:
        if token.kind not in {"literal", "glob"}:
            raise NotReadOnly(f"{token.source} is decided when it runs")
    found = parse_arguments(Program(operands="files"), [token for token in tokens if token.kind == "glob"])
    return ReadAccess(tuple(found.operands))


def _check_printf(tokens: Sequence[Word]) -> ReadAccess:
    words = _require_literals(tokens)
    words = words[1:] if words[:1] == ["--"] else words
    if not words or words[0].startswith("-"):
        raise NotReadOnly("printf has an option")
    # `%n` assigns a variable, and evaluates its subscript.
    if "".join(_FORMATTED.findall(words[0])) != words[0]:
        raise NotReadOnly("the format is not known to be harmless")
    return ReadAccess()


def _check_test(tokens: Sequence[Word]) -> ReadAccess:
    words = _require_literals(tokens)
    for word in words:
        if word.startswith("-") and word not in _TEST_WORDS and not word[1:].isdecimal():
            raise NotReadOnly(f"{word} is not known to be harmless")
    operands = [token for token in tokens if not token.text.startswith("-") and token.text not in {"!", "(", ")", "]"}]
    return ReadAccess(tuple(operands))


def _check_sed(tokens: Sequence[Word]) -> ReadAccess:
    if len(tokens) < 2 or tokens[0].literal != "-n" or not _PRINTED_LINES.fullmatch(tokens[1].literal or ""):
        raise NotReadOnly("sed passes only as `sed -n N,Mp`")
    return check_options(Program(operands="files"), tokens[2:])


def _check_jq(tokens: Sequence[Word]) -> ReadAccess:
    found = parse_arguments(_JQ, tokens)
    if found.operands[0].kind != "literal" or _JQ_READS.search(found.operands[0].text):
        raise NotReadOnly("the filter may read the environment or other files")
    return _build_access(_JQ, found)


def _check_date(tokens: Sequence[Word]) -> ReadAccess:
    found = parse_arguments(_DATE, tokens)
    if any(not operand.text.startswith("+") or operand.kind != "literal" for operand in found.operands):
        raise NotReadOnly("date would set the clock")
    return _build_access(_DATE, found)


def _check_ps(tokens: Sequence[Word]) -> ReadAccess:
    # `e` without its dash prints environments, and what ps cannot read with dashes it reads again without them:
    # so only whole words that are known.
    words = _require_literals(tokens)[::-1]
    while words:
        word = words.pop()
        following = words[-1] if words else ""
        selects = word in {"-p", "--pid", "--ppid"} and _PIDS.fullmatch(following)
        if selects or (word in {"-o", "--format"} and _are_fields(following)):
            words.pop()
        elif word not in _PS_WORDS:
            raise NotReadOnly(f"{word} is not known to be harmless")
    return ReadAccess()


def _are_fields(text: str) -> bool:
    return all(field.removesuffix("=") in _PS_FIELDS for field in text.split(","))


def _check_command(tokens: Sequence[Word]) -> ReadAccess:
    words = _require_literals(tokens)
    if len(words) < 2 or words[0] not in {"-v", "-V"} or any(word.startswith("-") for word in words[1:]):
        raise NotReadOnly("command runs its operand")
    return ReadAccess()


def _check_cd(tokens: Sequence[Word]) -> ReadAccess:
    words = _require_literals(tokens)
    words = words[1:] if words[:1] == ["--"] else words
    if len(words) != 1 or not words[0] or words[0].startswith("-"):
        raise NotReadOnly("cd needs one folder by its name")
    return ReadAccess((tokens[-1],))


def _check_find(tokens: Sequence[Word]) -> ReadAccess:
    table = load_programs()["find-words"]
    files: list[Word] = []
    waiting = list(tokens)[::-1]
    while waiting and waiting[-1].text in {"-H", "-L", "-P"}:
        waiting.pop()
    while waiting and waiting[-1].text[:1] not in {"-", "(", "!", ","}:
        files += parse_arguments(Program(operands="files"), [waiting.pop()]).operands
    roots = bool(files)
    while waiting:
        files += _check_predicate(waiting, table)
    follows = any(token.text in {"-L", "-follow"} for token in tokens)
    return ReadAccess(tuple(files), deep=True, folder=not roots, follows=follows)


def _check_predicate(waiting: list[Word], table: Program) -> list[Word]:
    word = waiting.pop()
    if word.kind != "literal":
        raise NotReadOnly(f"{word.source} is decided when it runs")
    name = word.text.removeprefix("-")
    if word.text in {"(", ")", "!", ","} or (word.text.startswith("-") and name in table.long):
        return []
    if not word.text.startswith("-") or name not in table.long_values or not waiting:
        raise NotReadOnly(f"{word.source} is not known to be harmless")
    value = waiting.pop()
    if value.kind != "literal":
        raise NotReadOnly(f"{value.source} is decided when it runs")
    return [value] if table.long_values[name] == "file" else []


def _check_git(tokens: Sequence[Word]) -> ReadAccess:
    words = [token.literal for token in tokens]
    start = 1 if words[:1] in (["--no-pager"], ["-P"]) else 0
    name = words[start] if start < len(words) else None
    if name is None:
        raise NotReadOnly("git's subcommand is not known")
    both = f"{name} {words[start + 1]}" if start + 1 < len(words) else ""
    two = both in load_git_forms()
    form = load_git_forms().get(both if two else name)
    if form is None or name in {"common", "history"}:
        raise NotReadOnly(f"git {name} is not known to be harmless")
    found = parse_arguments(form, tokens[start + (2 if two else 1) :])
    files = [*find_file_operands(form, found), *(_extract_path(operand) for operand in found.operands)]
    return ReadAccess(tuple(files), git=True)


def _extract_path(operand: Word) -> Word:
    """`HEAD:path` and `:!path` name a path too."""
    path = operand.text.rpartition(":")[2] or "."
    return Word(operand.source, path, operand.kind)


def _refuse(tokens: Sequence[Word]) -> ReadAccess:
    raise NotReadOnly("it is not a program")


SPECIAL: Final[dict[str, Callable[[Sequence[Word]], ReadAccess]]] = {
    "cd": _check_cd,
    "command": _check_command,
    "date": _check_date,
    "echo": _check_echo,
    "find": _check_find,
    "git": _check_git,
    "jq": _check_jq,
    "never": _refuse,
    "printf": _check_printf,
    "ps": _check_ps,
    "sed": _check_sed,
    "test": _check_test,
}
