"""Checks the read-only programs whose arguments a table of options cannot describe."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ostler.tools.commands.safety.fixed_commands import MAX_FIXED_WORDS, find_choosers
from ostler.tools.commands.safety.program_table import (
    FILTER_READS,
    NotReadOnly,
    Program,
    ReadAccess,
    add_suffixes,
    build_access,
    check_options,
    load_programs,
    parse_arguments,
)
from ostler.tools.commands.safety.read_only_programs.awk_script import is_own_variable, prints_only
from ostler.tools.commands.safety.read_only_programs.checksum_lists import check_checksums
from ostler.tools.commands.safety.read_only_programs.find_command import check_find
from ostler.tools.commands.safety.read_only_programs.git_forms import check_git
from ostler.tools.commands.safety.read_only_programs.sed_script import prints_only as prints_lines
from ostler.tools.commands.syntax.words import Word, is_named_expansion

__all__ = ["SPECIAL", "ReadAccess", "check_options", "check_program"]

_TEST_WORDS: Final = frozenset({
    "-b", "-c", "-d", "-e", "-f", "-g", "-G", "-h", "-k", "-L", "-n", "-N", "-O", "-p", "-r", "-s", "-S", "-t",
    "-u", "-w", "-x", "-z", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "-a", "-o",
})  # fmt: skip
_FORMATTED: Final = re.compile(r"%%|%[-+ #0']*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?[diouxXeEfFgGaAcsbq]|[^%]")
_SED_FLAGS: Final = re.compile("-[nErsz]+|--(?:quiet|silent|regexp-extended|separate|null-data)")
_SED_SCRIPTS: Final = re.compile("-[nErsz]*e|--expression")
_JQ: Final = Program(
    grammar="own",
    short="rjanscSCMeR",
    long=("raw-output", "join-output", "null-input", "slurp", "compact-output", "sort-keys", "color-output", "tab",
          "monochrome-output", "ascii-output", "exit-status", "raw-input", "raw-output0", "unbuffered"),
    operands="pattern",
    least=1,
)  # fmt: skip
_JQ_VALUES: Final = {"--arg": "text", "--argjson": "text", "--slurpfile": "file", "--rawfile": "file"}
"""Each takes a name and a value, in the next two words."""
_JQ_INDENTS: Final = frozenset("01234567")
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
_PS_FORMATS: Final = frozenset({"-o", "--format", "-eo", "-Ao", "-efo", "-axo", "axo", "-fo"})
_PIDS: Final = re.compile(r"\d+(?:,\d+)*")
_TAR_LETTERS: Final = re.compile(r"[tvzjJ]+f?|-[tvzjJ]+f?|-f")
_TAR_NAMES: Final = frozenset({"--list", "--verbose", "--gzip", "--bzip2", "--xz"})
_TAR_MORE: Final = Program(long=("wildcards",), long_values={"exclude": "text"}, operands="text")
_AWK_VARIABLE: Final = re.compile(r"(?:FS|OFS|RS|ORS|[a-z_][a-z_0-9]*)=.*", re.DOTALL)
_MAN_WORDS: Final = re.compile(r"[A-Za-z0-9_\[:.][\w.:+@\[-]*", re.ASCII)
_YQ_PATHS: Final = re.compile(r"[.\w\[\]| \"-]+", re.ASCII)
"""A filter of yq that only goes to places."""
_YQ_READS: Final = re.compile(r"env|load|input|system|file|meta")
_YQ: Final = Program(grammar="own", bundles=False, short="rPCMyj", exact=("-o=json", "-o=yaml", "-p=json", "-p=yaml"),
                     operands="pattern", least=1)  # fmt: skip
_DURATION: Final = re.compile(r"\d+(?:\.\d+)?[smhd]?", re.ASCII)
_SIGNAL: Final = re.compile(r"[A-Z]+|\d+", re.ASCII)
_WRAPPER_OPTIONS: Final[dict[str, re.Pattern[str]]] = {
    "time": re.compile("-p"),
    "timeout": re.compile(r"--foreground|--preserve-status|-v|--verbose|--(?:kill-after|signal)=\w+|-k\d+s?", re.ASCII),
    "nice": re.compile(r"-\d+|-n-?\d+|--adjustment=-?\d+", re.ASCII),
    "stdbuf": re.compile(r"-[ioe](?:L|\d+[KM]?)", re.ASCII),
    "command": re.compile("(?!)"),
}
_WRAPPER_VALUES: Final[dict[tuple[str, str], re.Pattern[str]]] = {
    ("timeout", "-k"): _DURATION, ("timeout", "-s"): _SIGNAL, ("nice", "-n"): re.compile(r"-?\d+", re.ASCII),
}  # fmt: skip
_MAX_WRAPPERS: Final = 4
_SHELLS_OWN: Final = frozenset({
    ":", "alias", "bind", "builtin", "cd", "command", "compgen", "declare", "dirs", "enable", "exit", "export", "hash",
    "help", "history", "jobs", "kill", "set", "shopt", "times", "trap", "type", "ulimit", "umask",
})  # fmt: skip
"""Builtins: what a program runs by such a name is another thing, and `cd` would change where the next part runs."""
_CERTIFICATE_WORDS: Final = frozenset({
    "-noout", "-text", "-subject", "-issuer", "-dates", "-startdate", "-enddate", "-serial", "-fingerprint", "-sha1",
    "-sha256", "-email", "-purpose", "-modulus", "-pubkey", "-hash", "-issuer_hash", "-subject_hash", "-ocsp_uri",
})  # fmt: skip
_DIGESTS: Final = frozenset({"-md5", "-sha1", "-sha224", "-sha256", "-sha384", "-sha512"})
_PRINTED_PLACES: Final = frozenset({'"$PWD"', '"$HOME"'})
_AR_LISTS: Final = frozenset({"t", "tv", "-t", "-tv"})
_UNZIP_LISTS: Final = frozenset({"-l", "-v", "-lv", "-lq", "-Z", "-Z1", "-t", "-tq", "-z", "-p", "-c"})


def check_program(tokens: Sequence[Word]) -> ReadAccess:
    """What a program reads, by its name and its arguments. Raises NotReadOnly where it may do more."""
    name = tokens[0].literal if tokens else None
    if name is None:
        raise NotReadOnly("its program is not known")
    if len(tokens) <= MAX_FIXED_WORDS:
        choosers = find_choosers(tuple([token.literal for token in tokens]))
        if choosers is not None:
            return ReadAccess(choosers=choosers)
    program = load_programs().get(name)
    if program is None:
        raise NotReadOnly(f"{name} is not in the table of programs that only read")
    if len(tokens) == 2 and tokens[1].literal == "--help" and program.special != "never":
        return ReadAccess(choosers=program.unless)
    return SPECIAL[program.special](tokens[1:]) if program.special else check_options(program, tokens[1:])


def _require_literals(tokens: Sequence[Word]) -> list[str]:
    for token in tokens:
        if token.kind != "literal":
            raise NotReadOnly(f"{token.source} is decided when it runs")
    return [token.text for token in tokens]


def _check_echo(tokens: Sequence[Word]) -> ReadAccess:
    for token in tokens:
        if token.kind not in {"literal", "glob"} and not is_named_expansion(token):
            raise NotReadOnly(f"{token.source} is decided when it runs")
    found = parse_arguments(Program(operands="files"), [token for token in tokens if token.kind == "glob"])
    return ReadAccess(tuple(found.operands))


def _check_printf(tokens: Sequence[Word]) -> ReadAccess:
    given = tokens[1:] if tokens and tokens[0].literal == "--" else tokens
    words = _require_literals([*given[:1], *(token for token in given[1:] if not is_named_expansion(token))])
    if not words or words[0].startswith("-"):
        raise NotReadOnly("printf has an option")
    # `%n` assigns a variable, and evaluates its subscript.
    if "".join(_FORMATTED.findall(words[0])) != words[0]:
        raise NotReadOnly("the format is not known to be harmless")
    return ReadAccess()


def _check_test(tokens: Sequence[Word]) -> ReadAccess:
    operands = [token for token in tokens if token.source not in {"!", "]"}]
    if len(operands) == 2 and operands[0].literal in {"-n", "-z"} and _is_quoted_variable(operands[1]):
        return ReadAccess()
    if len(operands) == 3 and operands[1].literal in {"=", "!=", "=="} and _is_quoted_variable(operands[0]):
        _require_literals(operands[1:])
        return ReadAccess()
    words = _require_literals(tokens)
    for word in words:
        if word.startswith("-") and word not in _TEST_WORDS and not word[1:].isdecimal():
            raise NotReadOnly(f"{word} is not known to be harmless")
    operands = [token for token in tokens if not token.text.startswith("-") and token.text not in {"!", "(", ")", "]"}]
    return ReadAccess(tuple(operands))


def _is_quoted_variable(token: Word) -> bool:
    """`"$SHELL"`: one word, whatever it is."""
    return is_named_expansion(token) and token.source.startswith('"') and token.source.count('"') == 2


def _check_expr(tokens: Sequence[Word]) -> ReadAccess:
    if any(word.startswith("-") and word[1:] and not word[1:].isdecimal() for word in _require_literals(tokens)):
        raise NotReadOnly("expr has an option")
    return ReadAccess()


def _check_sed(tokens: Sequence[Word]) -> ReadAccess:
    """Options, the script where none stands behind `-e`, and files: each script does nothing but print."""
    rest = list(tokens)
    scripts: list[str | None] = []
    while rest and rest[0].kind == "literal" and rest[0].text.startswith("-") and rest[0].text != "-":
        word = rest.pop(0).text
        if word == "--":
            break
        if _SED_SCRIPTS.fullmatch(word) and rest:
            scripts.append(rest.pop(0).literal)
        elif not _SED_FLAGS.fullmatch(word):
            raise NotReadOnly(f"{word} is not known to be harmless")
    if not scripts and rest:
        scripts.append(rest.pop(0).literal)
    if not scripts or not all(script is not None and prints_lines(script) for script in scripts):
        raise NotReadOnly("sed passes only where its script does nothing but print")
    # GNU sed takes options behind its operands, too.
    return check_options(Program(operands="files"), rest)


def _check_awk(tokens: Sequence[Word]) -> ReadAccess:
    rest = list(tokens)
    while rest and rest[0].kind == "literal" and rest[0].text[:2] in {"-F", "-v"}:
        # The separator, or a variable and its value, is attached or the next word.
        given = rest[0].text[2:] or (rest[1].literal if len(rest) > 1 else None)
        if given is None or re.match("-.", given) or (rest[0].text.startswith("-v") and not _is_awk_variable(given)):
            raise NotReadOnly("what awk is told is not known to be harmless")
        rest = rest[1:] if len(rest[0].text) > 2 else rest[2:]
    rest = rest[1:] if rest and rest[0].literal == "--" else rest
    script = rest[0].literal if rest else None
    if script is None or script.startswith("-") or not prints_only(script):
        raise NotReadOnly("awk passes only where its script does nothing but print")
    found = check_options(Program(operands="files"), rest[1:])
    if any("=" in word.text for word in found.files):
        raise NotReadOnly("awk would set a variable")
    return found


def _is_awk_variable(text: str) -> bool:
    return _AWK_VARIABLE.fullmatch(text) is not None and is_own_variable(text.partition("=")[0])


def _check_jq(tokens: Sequence[Word]) -> ReadAccess:
    rest: list[Word] = []
    files: list[Word] = []
    waiting = list(tokens)[::-1]
    while waiting:
        token = waiting.pop()
        kind = _JQ_VALUES.get(token.literal or "")
        if kind is not None and len(waiting) > 1:
            name, value = waiting.pop(), waiting.pop()
            _require_literals([name, value])
            files += [value] if kind == "file" else []
        elif token.literal == "--indent" and waiting and waiting[-1].literal in _JQ_INDENTS:
            waiting.pop()
        else:
            rest.append(token)
    found = parse_arguments(_JQ, rest)
    if found.operands[0].kind != "literal" or FILTER_READS.search(found.operands[0].text):
        raise NotReadOnly("the filter may read the environment or other files")
    access = build_access(_JQ, found)
    return ReadAccess((*files, *access.files))


def _check_date(tokens: Sequence[Word]) -> ReadAccess:
    found = parse_arguments(_DATE, tokens)
    if any(not operand.text.startswith("+") or operand.kind != "literal" for operand in found.operands):
        raise NotReadOnly("date would set the clock")
    return build_access(_DATE, found)


def _check_ps(tokens: Sequence[Word]) -> ReadAccess:
    # `e` without its dash prints environments, and what ps cannot read with dashes it reads again without them:
    # so only whole words that are known.
    words = _require_literals(tokens)[::-1]
    while words:
        word = words.pop()
        following = words[-1] if words else ""
        selects = word in {"-p", "--pid", "--ppid"} and _PIDS.fullmatch(following)
        if selects or (word in _PS_FORMATS and _are_fields(following)):
            words.pop()
        elif word not in _PS_WORDS:
            raise NotReadOnly(f"{word} is not known to be harmless")
    return ReadAccess()


def _are_fields(text: str) -> bool:
    return all(field.removesuffix("=") in _PS_FIELDS for field in text.split(","))


def _check_command(tokens: Sequence[Word]) -> ReadAccess:
    if tokens and tokens[0].literal not in {"-v", "-V"}:
        return _check_wrapped("command", tokens)
    words = _require_literals(tokens)
    if len(words) < 2 or any(word.startswith("-") for word in words[1:]):
        raise NotReadOnly("command needs the name of a program")
    return ReadAccess()


def _check_wrapped(name: str, tokens: Sequence[Word], depth: int = 0) -> ReadAccess:
    """What runs behind `time`, `timeout 5` and their like."""
    rest = list(tokens)
    while rest and (rest[0].literal or "").startswith("-"):
        option = rest.pop(0).text
        if option == "--":
            break
        value = _WRAPPER_VALUES.get((name, option))
        if value is not None and rest and value.fullmatch(rest[0].literal or ""):
            rest.pop(0)
        elif value is not None or not _WRAPPER_OPTIONS[name].fullmatch(option):
            raise NotReadOnly(f"{option} is not known to be harmless")
    if name == "timeout" and not (rest and _DURATION.fullmatch(rest.pop(0).literal or "")):
        raise NotReadOnly("timeout has no number of seconds")
    program = rest[0].literal if rest else None
    if program is None or program in _SHELLS_OWN:
        raise NotReadOnly(f"what {name} runs is not known to only read")
    if program in _WRAPPER_OPTIONS:
        if depth >= _MAX_WRAPPERS:
            raise NotReadOnly(f"more than {_MAX_WRAPPERS} wrappers stand one behind the other")
        return _check_wrapped(program, rest[1:], depth + 1)
    return check_program(rest)


def _check_npm(tokens: Sequence[Word]) -> ReadAccess:
    """npm takes the value of `--depth` in the next word, too."""
    joined: list[Word] = []
    for token in tokens:
        if joined and joined[-1].literal == "--depth" and (token.literal or "").isdecimal():
            joined[-1] = Word(f"--depth={token.text}", f"--depth={token.text}", "literal")
        else:
            joined.append(token)
    return _check_subcommand("npm", joined)


def _check_subcommand(program: str, tokens: Sequence[Word]) -> ReadAccess:
    """A program whose forms the table has by their first words: `pip list`, `npm pkg get`."""
    words = [token.literal or "" for token in tokens[:2]]
    for count in (2, 1):
        form = load_programs().get(" ".join((program, *words[:count]))) if len(words) >= count else None
        if form is not None:
            return check_options(form, tokens[count:])
    raise NotReadOnly(f"{program} {words[0] if words else ''}".strip() + " is not known to only read")


def _check_man(tokens: Sequence[Word]) -> ReadAccess:
    """Names of pages, and a section before them. A slash would make a name a file, and an option may name a program."""
    words = _require_literals(tokens)
    words = words[1:] if words[:1] in (["-k"], ["-f"], ["-w"]) else words
    if not words or not all(map(_MAN_WORDS.fullmatch, words)):
        raise NotReadOnly("man passes only with names of pages")
    return ReadAccess()


def _check_info(tokens: Sequence[Word]) -> ReadAccess:
    """One manual by its name, which may be that of a file in the folder it runs in."""
    words = _require_literals(tokens)
    if len(words) != 1 or not _MAN_WORDS.fullmatch(words[0]):
        raise NotReadOnly("info passes only with the name of a manual")
    return ReadAccess(add_suffixes(tokens, (".info", ".info.gz", ".gz")))


def _check_ar(tokens: Sequence[Word]) -> ReadAccess:
    """`ar t FILE`: the first word says what it does, with a dash or without."""
    if not tokens or tokens[0].literal not in _AR_LISTS:
        raise NotReadOnly("ar passes only where it lists a file, as `ar t FILE`")
    return check_options(Program(grammar="own", operands="files", least=1, refused_first="@"), tokens[1:])


def _check_openssl(tokens: Sequence[Word]) -> ReadAccess:
    """What a certificate says (`openssl x509 -in FILE -noout -text`), and digests of files."""
    words, rest = [token.literal for token in tokens], list(tokens[1:])
    if words[:1] == ["dgst"] and len(words) > 2 and words[1] in _DIGESTS:
        return _name_files(rest[1:])
    files: list[Word] = []
    while words[:1] == ["x509"] and rest:
        word = rest.pop(0).literal
        if word == "-in" and rest:
            files.append(rest.pop(0))
        elif word == "-inform" and rest and rest[0].literal in {"PEM", "DER", "pem", "der"}:
            rest.pop(0)
        elif word not in _CERTIFICATE_WORDS:
            raise NotReadOnly(f"{word} is not known to be harmless")
    if words[:1] != ["x509"] or len(files) > 1:
        raise NotReadOnly("openssl passes only where it shows a certificate or digests")
    return _name_files(files)


def _name_files(words: Sequence[Word]) -> ReadAccess:
    """Files by their names. A colon would make a name the address of a provider, and a dash an option."""
    for word in words:
        if word.kind not in {"literal", "home"} or ":" in word.text or word.text.startswith("-"):
            raise NotReadOnly(f"{word.source} may be no file")
    return ReadAccess(tuple(words))


def _check_path_words(name: str, tokens: Sequence[Word]) -> ReadAccess:
    """`basename "$PWD"`: a whole path in one word is no option, whatever it is."""
    given = [Word("/x", "/x", "literal") if token.source in _PRINTED_PLACES else token for token in tokens]
    return check_options(load_programs()[name], given)


def _check_yq(tokens: Sequence[Word]) -> ReadAccess:
    rest = tokens[1:] if tokens and tokens[0].literal in {"e", "eval"} else tokens
    found = parse_arguments(_YQ, rest)
    script = found.operands[0].literal or ""
    if not _YQ_PATHS.fullmatch(script) or not script.startswith(".") or _YQ_READS.search(script):
        raise NotReadOnly("yq passes only with a path, as `yq .a.b FILE`")
    return build_access(_YQ, found)


def _check_cd(tokens: Sequence[Word]) -> ReadAccess:
    words = _require_literals(tokens)
    words = words[1:] if words[:1] == ["--"] else words
    if len(words) != 1 or not words[0] or words[0].startswith("-"):
        raise NotReadOnly("cd needs one folder by its name")
    return ReadAccess((tokens[-1],))


def _check_tar(tokens: Sequence[Word]) -> ReadAccess:
    """`tar tf FILE`: letters that end in f, together or apart, or the long names; then the file."""
    rest, lists = list(tokens), False
    archive: Word | None = None
    while rest and archive is None:
        word = rest.pop(0).literal or ""
        first = len(tokens) - len(rest) == 1
        if word.startswith("--file="):
            archive = Word(word, word.removeprefix("--file="), "literal")
        elif word in _TAR_NAMES or (_TAR_LETTERS.fullmatch(word) and (first or word.startswith("-"))):
            lists |= word == "--list" or ("t" in word and not word.startswith("--"))
            archive = rest.pop(0) if word.endswith("f") and rest else None
        else:
            break
    if archive is None or not lists:
        raise NotReadOnly("tar passes only where it lists a file, as `tar tf FILE`")
    # A colon makes it a file of another machine, which tar would get by running ssh.
    if archive.kind not in {"literal", "home"} or not archive.text or re.match("-.", archive.text) or (
        ":" in archive.text
    ):  # fmt: skip
        raise NotReadOnly(f"{archive.source} may be on another machine")
    _require_literals(rest)
    parse_arguments(_TAR_MORE, rest)
    return ReadAccess((archive,))


def _check_unzip(tokens: Sequence[Word]) -> ReadAccess:
    """`unzip -l FILE`: the option stands first, and what follows the file are names inside of it."""
    if len(tokens) < 2 or tokens[0].literal not in _UNZIP_LISTS:
        raise NotReadOnly("unzip passes only where it lists or prints, as `unzip -l FILE`")
    words = _require_literals(tokens[2:])
    archive = tokens[1]
    if archive.kind not in {"literal", "home"} or set(archive.text) & set("*?[") or archive.text.startswith("-"):
        raise NotReadOnly(f"unzip would read {archive.source} in a way of its own")
    if any(word.startswith("-") for word in words):
        raise NotReadOnly("unzip passes only where it lists a file")
    return ReadAccess(add_suffixes([archive], (".zip", ".ZIP")))


def _check_checksums(tokens: Sequence[Word]) -> ReadAccess:
    return check_checksums(load_programs()["md5sum"], tokens)


def _check_found(tokens: Sequence[Word]) -> ReadAccess:
    return check_find(tokens, check_program)


def _refuse_alone(tokens: Sequence[Word]) -> ReadAccess:
    raise NotReadOnly("xargs passes only behind a list of files")


def _refuse(tokens: Sequence[Word]) -> ReadAccess:
    raise NotReadOnly("it is not a program")


SPECIAL: Final[dict[str, Callable[[Sequence[Word]], ReadAccess]]] = {
    "ar": _check_ar,
    "awk": _check_awk,
    "basename": partial(_check_path_words, "basename"),
    "dirname": partial(_check_path_words, "dirname"),
    "cd": _check_cd,
    "checksums": _check_checksums,
    "command": _check_command,
    "date": _check_date,
    "echo": _check_echo,
    "expr": _check_expr,
    "find": _check_found,
    "git": check_git,
    "jq": _check_jq,
    "never": _refuse,
    "npm": _check_npm,
    "go": partial(_check_subcommand, "go"),
    "info": _check_info,
    "man": _check_man,
    "nice": partial(_check_wrapped, "nice"),
    "openssl": _check_openssl,
    "pip": partial(_check_subcommand, "pip"),
    "stdbuf": partial(_check_wrapped, "stdbuf"),
    "time": partial(_check_wrapped, "time"),
    "timeout": partial(_check_wrapped, "timeout"),
    "yq": _check_yq,
    "printf": _check_printf,
    "ps": _check_ps,
    "sed": _check_sed,
    "tar": _check_tar,
    "test": _check_test,
    "unzip": _check_unzip,
    "xargs": _refuse_alone,
}
