"""Nothing that a line does to its own shell changes what its later words mean: such a line is allowed by nothing."""

import subprocess
from pathlib import Path

import pytest

from ostler.tools.commands import find_uncovered, is_read_only, parse_command, part_is_read_only
from tests.support.tables import try_each

OPERATORS = [">", ">>", ">|", ">&", "<", "<&", "<>", "<<<", "<<", "&>", "&>>", ">&-", "<&-"]
NAMES = ["{PATH}", "{x}", "{a[0]}", "{a[PATH=1]}", "{a['x y']}", "{}", "{_}", "{x\\\n}"]


def is_allowed(command: str, *rules: str) -> bool:
    return not find_uncovered(parse_command(command), rules or ["npm test:*"], part_is_read_only)


@try_each("name", NAMES)
@try_each("operator", OPERATORS)
def test_a_word_that_names_a_descriptor_variable_is_not_understood(operator: str, name: str) -> None:
    target = "" if operator.endswith("-") else "E\nE" if operator == "<<" else "/dev/null"
    for begin in ("echo ", "echo a ", "npm test ", "echo >/dev/null ", "npm test 2>&1 ", "{ npm test; } ", ""):
        for glue in ("", "\\\n", "\\\n\\\n"):
            command = f"{begin}{name}{glue}{operator}{target}"
            assert not is_read_only(parse_command(command), "/nowhere").ok, command
            assert not is_allowed(command), command


@pytest.mark.parametrize(
    "command",
    ["echo {PATH} >/dev/null", "echo '{PATH}'>/dev/null", "echo a{PATH}b>/dev/null", "ls 2>/dev/null", "echo {} 2>&1"],
)
def test_braces_that_touch_no_redirection_are_a_word_like_others(command: str) -> None:
    assert is_read_only(parse_command(command), "/nowhere").ok


@try_each(
    "command",
    [
        "echo 2\\\n>/dev/null",
        "echo 1\\\n2>/dev/null",
        f"echo {'9' * 20}>/dev/null",
        "echo a >&--",
        "echo a >& --",
        "echo >& -x",
        "echo <& -- a",
        "echo 2>& -1",
    ],
)
def test_a_descriptor_that_only_the_shell_can_tell_is_not_understood(command: str) -> None:
    assert not is_read_only(parse_command(command), "/nowhere").ok
    assert not is_allowed(command.replace("echo", "npm test"))


SETTERS = [
    "read PATH <<<bin", "read -r PATH </dev/null", "read -a PATH <<<bin", "read -d '' PATH <<<bin",
    "printf -v PATH bin",
    "printf -v PATH %s bin", "printf -vPATH bin", "mapfile PATH <<<bin", "mapfile -t PATH <<<bin",
    "readarray PATH <<<bin",
    "getopts a PATH -a", "declare PATH=bin", "declare -g PATH=bin", "declare -n x=PATH", "typeset PATH=bin",
    "export PATH=bin",
    "export -n PATH", "readonly PATH=bin", "local PATH=bin", "unset PATH", "unset -f npm", "unset -v PATH",
    "hash -p bin/npm npm", "hash -p bin/ls ls", "alias npm=bin/npm", "alias ls=bin/ls", "unalias -a",
    "shopt -s expand_aliases", "shopt -s extglob", "shopt -s lastpipe", "set -k", "set -o keyword", "set -a", "set -f",
    "set -- x", "enable -f ./x.so x", "enable -n echo", "builtin printf -v PATH bin", "builtin export PATH=bin",
    "command export PATH=bin", "command -p ls", "eval PATH=bin", "source x", ". ./x", "exec 3>&1", "exec {PATH}>&1",
    "let PATH=1", "((PATH=1))", "[[ -v a[PATH=1] ]]", "test -v 'a[PATH=1]'", "wait -n -p PATH", "wait -p PATH",
    "coproc PATH { ls; }", "coproc ls", "for PATH in bin; do ls; done", "for HOME in bin; do npm test; done",
    "for ((PATH=1; PATH<2; PATH++)); do ls; done", "select PATH in bin; do ls; done", ": ${PATH:=bin}",
    "echo ${PATH:=bin}", "echo ${x=bin}", "echo $((PATH=1))", "echo $[PATH=1]", "case ${PATH:=x} in x) ls;; esac",
    "case $((PATH=1)) in x) ls;; esac", "for x in ${PATH:=a}; do ls; done", "ls <<<${PATH:=x}", "ls <<E\n${PATH:=x}\nE",
    "ls <<E\n$((PATH=1))\nE", "{ npm test; } <<E\n${HOME:=x}\nE", "npm test <<<$((PATH=1))", "a[PATH=1]=x", "PATH=bin",
    "PATH+=:bin", "IFS=/", "BASH_ENV=x", "ENV=x", "x=${PATH:=y}", "x=$((PATH=1))", "ls() { bin/ls; }",
    "function npm { bin/npm; }", "trap 'PATH=bin' DEBUG", "cd -", "cd", "pushd bin", "popd", "dirs -c", "ulimit -n 1",
    "umask 0", "bind -x x", "complete -C bin/x ls", "compgen -C bin/x", "fc -e bin/x", "jobs -x bin/x", "times; PATH=x",
    "logout", "suspend", "shift", "caller", "disown", "history -s x", "history -c",
]  # fmt: skip


@try_each("setter", SETTERS)
def test_what_changes_the_shell_is_neither_read_only_nor_covered_by_a_rule_for_another_program(setter: str) -> None:
    for command in (setter, f"{setter}; ls", f"{setter}\nnpm test", f"{setter} && npm test", f"npm test || {setter}"):
        assert not is_read_only(parse_command(command), "/nowhere").ok, command
        assert not is_allowed(command), command
        assert not is_allowed(command, "npm test:*", "npm test *", "npm:*"), command


@pytest.mark.parametrize("command", ["for x in 1 2; do npm test; done", "x=1; npm test", "{ npm test; }>/dev/null"])
def test_a_harmless_variable_takes_no_rule_away(command: str) -> None:
    assert is_allowed(command)


def test_the_shell_does_put_a_descriptor_there(tmp_path: Path) -> None:
    """What this is about: without it, none of the above would matter."""
    script = "echo {PATH}>/dev/null; echo $PATH; echo 2\\\n>/dev/null"
    done = subprocess.run(["bash", "--norc", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["11"] or done.stdout.split()[0].isdecimal()


@try_each("delimiter", ["'E''x'", "'E'{PATH}", "E'x'", "'E'\\x", "'E'$x", '"E"x', "E\\\nx"])
def test_a_delimiter_that_goes_on_behind_its_quotes_is_not_understood(delimiter: str) -> None:
    assert not is_allowed(f"npm test <<{delimiter}\na\nE")


@pytest.mark.parametrize(
    "line", ["[ #a \\\n./evil ]", "[ -f a #\\\n./evil ]", "[ a = b \t#]\\\n./evil ]", "[\t#a x \\\n]"]
)
def test_a_comment_inside_of_a_test_hides_no_command(line: str) -> None:
    for command in (
        line,
        f"npm test; {line}",
        f"{{ {line}; }}",
        f"{{ npm test; {line}; }}>/dev/null",
        f"if {line}; then npm test; fi",
    ):
        assert not is_read_only(parse_command(command), "/nowhere").ok, command
        assert not is_allowed(command), command
