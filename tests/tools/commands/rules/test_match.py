"""What `Bash(content)` rules allow and catch."""

import pytest

from ostler.tools.commands import (
    find_forbidding_rule,
    find_uncovered,
    is_fully_resolved,
    may_be_forbidden,
    parse_command,
    part_is_read_only,
    rule_allows,
    rule_matches,
    suggest_rules,
    unwrap,
)
from tests.support.tables import try_each


def is_allowed(command: str, *contents: str) -> bool:
    return find_uncovered(parse_command(command), contents, part_is_read_only) == []


@try_each(
    ("content", "command"),
    [
        ("npm test", "npm test"), ("npm test", "npm  'test'"), ("npm test:*", "npm test"),
        ("npm test:*", "npm test -- -x"),
        ("git diff *", "git diff"), ("git diff *", "git diff a b"), ("npm run *:fix", "npm run lint:fix"),
        ("make * all", "make -j all"), ("npm test:*", "npm test 'a; rm -rf x && $(y)'"), ("*", "anything at all"),
        ("npm test:*", "timeout 5 npm test"), ("npm test:*", "nice -n 5 npm test"), ("npm test:*", "time npm test"),
        ("npm test:*", "nohup npm test"), ("npm test:*", "command npm test"),
        ("npm test:*", "timeout -k 1 5s nice npm test"),
        ("npm test:*", "FOO=1 npm test"), ("npm test:*", "npm test 2>&1 >/dev/null"), ("npm test:*", "npm test &"),
        ("npm test:*", "cd x && npm test | head -5"), ("npm test:*", "for i in a b; do npm test; done"),
        ("npm test:*", "(npm test; ls)"), ("npm ci && npm test", "npm ci && npm test"), ("echo 'a b'", 'echo "a b"'),
    ],
)  # fmt: skip
def test_a_rule_allows_what_it_says(content: str, command: str) -> None:
    assert is_allowed(command, content)


@try_each(
    ("content", "command"),
    [
        ("npm test", "npm test x"), ("npm test:*", "npm testing"), ("npm test:*", "npm"),
        ("git diff *", "git difftool"),
        ("npm run *:fix", "npm run a b:fix"), ("npm test:*", "./npm test"), ("npm test:*", "/tmp/npm test"),
        ("npm test:*", "npm test $x"), ("npm test:*", "npm test $(rm x)"), ("npm test:*", "npm test *"),
        ("npm test:*", "npm test && rm x"), ("npm test:*", "npm test; rm x"), ("npm test:*", "npm test | sh"),
        ("npm test:*", "npm test & rm x"), ("npm test:*", "npm test\nrm x"), ("npm test:*", "(npm test; rm x)"),
        ("npm test:*", "sudo npm test"), ("npm test:*", "env npm test"), ("npm test:*", "xargs npm test"),
        ("npm test:*", "timeout --weird 5 npm test"), ("npm test:*", "time -o f npm test"),
        ("npm test:*", "timeout $x npm test"),
        ("npm test:*", "npm test </dev/tcp/host/80"), ("npm test:*", "npm() { rm x; }; npm test"),
        ("npm test:*", "npm test 'a"), ("npm test:*", "npm test\u00a0x"), ("npm test:*", "npm test\rrm x"),
        ("npm test:*", "FOO=$(rm x) npm test"), ("npm test:*", "alias npm='rm x'; npm test"),
        ("npm test:*", "npm test <<E\n`rm x`\nE"), ("", "ls x y"),
    ],
)  # fmt: skip
def test_a_rule_does_not_allow_more_than_it_says(content: str, command: str) -> None:
    if content:
        assert not is_allowed(command, content)
    else:
        assert not rule_allows("rm:*", parse_command(command).parts[0])


@try_each(
    "name",
    ["LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "GIT_SSH_COMMAND", "BASH_ENV", "ENV", "IFS", "PYTHONPATH", "NODE_OPTIONS",
     "PERL5OPT", "RUBYOPT", "http_proxy", "npm_config_script_shell", "PS4", "HOME", "GOFLAGS", "CARGO_HOME"],
)  # fmt: skip
def test_leading_assignments_of_dangerous_variables_prevent_an_allow(name: str) -> None:
    assert not is_allowed(f"{name}=x npm test", "npm test:*", "*")
    assert not is_allowed(f"{name}=x; npm test", "npm test:*", "*")
    assert not is_allowed(f"export {name}=x; npm test", "npm test:*", "export:*")


def test_redirections_to_files_are_writes_and_are_checked_as_such() -> None:
    (uncovered,) = find_uncovered(parse_command("npm test > log"), ["npm test:*"], part_is_read_only)
    assert uncovered.why == "redirection"
    (uncovered,) = find_uncovered(parse_command("echo x > log"), [], part_is_read_only)
    assert uncovered.part.text == "echo x > log"


def test_an_allow_rule_must_cover_each_part_that_is_not_read_only() -> None:
    parsed = parse_command("npm test && ls && make all && git status")
    assert [found.part.text for found in find_uncovered(parsed, ["npm test:*"], part_is_read_only)] == ["make all"]
    assert find_uncovered(parsed, ["npm test:*", "make all"], part_is_read_only) == []


WRAPPED = [
    "rm x", "/bin/rm x", "./rm x", "\\rm x", "'rm' x", "r\"m\" x", "~/bin/rm x",
    "sudo rm x", "sudo -u root -E rm x", "sudo FOO=1 rm x", "doas rm x", "env A=b rm x", "env -i -u X A=b rm x",
    "env -S 'rm x'", "timeout 5 rm x", "timeout -s KILL -k 1 5 rm x", "nice rm x", "nice -n 5 rm x", "nice -5 rm x",
    "nohup rm x", "time rm x", "time -p rm x", "command rm x", "command -p rm x", "exec rm x", "exec -a y rm x",
    "builtin rm x", "ls | xargs rm", "xargs -0 -n 1 rm x", "xargs -I{} sh -c 'rm {}'", "eval rm x", "eval 'rm x'",
    "eval 'eval \"rm x\"'", "sh -c 'rm x'", "bash -c 'ls; rm x'", "bash -lc 'rm x'", "bash -o pipefail -c 'rm x'",
    "bash -c -- 'rm x'", "bash --norc -c 'rm x'", "zsh -c 'rm x'", "find . -exec rm {} \\;", "find . -exec rm {} +",
    "find . -execdir rm {} +", "find . -ok rm {} \\;", "find . -exec ls {} \\; -exec rm {} \\;",
    "find . -exec sh -c 'rm x' \\;", "trap 'rm x' EXIT", "trap -- 'rm x' EXIT", "coproc rm x", "watch rm x",
    "watch -n 1 'rm x'", "stdbuf -oL rm x", "setsid rm x", "ionice -c 3 rm x", "chroot / rm x", "ssh host rm x",
    "ssh -p 22 host 'rm x'", "su -c 'rm x'", "su root -c 'rm x'", "flock f -c 'rm x'", "flock f rm x",
    "script -c 'rm x' f", "script -qec 'rm x' f", "script --comm='rm x' f", "script --comm 'rm x'", "su -lc 'rm x' me",
    "su -lc'rm x'", "runuser -lc 'rm x' me", "env -iS 'rm x'", "env --split='rm x'", "flock -nc 'rm x' f",
    "parallel rm ::: a", "busybox rm x", "fd -x rm", "alias a='rm x'", "sudo --unknown-option y rm x",
    "sudo env A=b nice timeout 5 bash -c 'xargs rm'", "f() { rm x; }", "echo $(rm x)", "echo `rm x`", "(rm x)",
    "{ rm x; }", "rm x &", "! rm x", "if true; then rm x; fi", "while true; do rm x; done", "case a in a) rm x;; esac",
    "cat <<E\n$(rm x)\nE", "bash <<E\nrm x\nE", "bash <<'E'\nrm x\nE", "bash <<< 'rm x'", "bash -s <<E\nrm x\nE",
    "sudo bash <<E\nrm x\nE", "cat <(rm x)", "FOO=1 rm x", ">f rm x", "x=$(rm x)", "echo \"${x:-$(rm x)}\"",
    "ls;rm x", "ls&&rm x", "ls|rm x", "ls\nrm x", "ls # c\nrm x", "echo a\\\n;rm x",
]  # fmt: skip


@try_each("command", WRAPPED)
def test_deny_and_ask_look_at_the_basename_of_argv0_through_every_wrapper(command: str) -> None:
    parsed = parse_command(command)
    assert find_forbidding_rule(parsed, ["rm:*"]) == "rm:*"
    assert any(rule_matches("rm:*", part) for part in parsed.parts)


@try_each(
    "command",
    ["git push", "git -C x push", "git -c a=b push -f", "git --git-dir=x --work-tree y push", "git --no-pager push",
     "/usr/bin/git -C x push", "sudo git -C x push", "git -p push", "git --exec-path=/x push", "git -C x -C y push",
     "git -C $X push"],
)  # fmt: skip
def test_deny_looks_past_gits_global_options(command: str) -> None:
    assert find_forbidding_rule(parse_command(command), ["git push:*"]) == "git push:*"


@pytest.mark.parametrize(
    "command", ["echo rm x", "ls rm", "grep 'rm x' f", "git log --grep push", "cat <<'E'\nrm x\nE"]
)
def test_a_deny_rule_does_not_catch_mere_words(command: str) -> None:
    parsed = parse_command(command)
    assert find_forbidding_rule(parsed, ["rm:*", "git push:*"]) is None
    assert not may_be_forbidden(parsed, ["rm:*", "git push:*"])


@try_each(
    ("content", "command", "caught"),
    [
        ("rm -rf /", "rm -rf /", True), ("rm -rf /", "rm -rf /x", False), ("rm*", "rm -rf x", True),
        ("git push *", "git push", True), ("git * --force", "git push origin --force", True), ("*", "anything", True),
        ("/bin/rm:*", "rm x", True), ("sudo:*", "sudo ls", True), ("npm run *:x", "npm run a b:x", True),
        ("a && b", "a && b", True),
    ],
)  # fmt: skip
def test_forms_of_deny_rules(content: str, command: str, caught: bool) -> None:
    assert (find_forbidding_rule(parse_command(command), [content]) is not None) == caught


@try_each(
    "command",
    ["$X y", "$(echo rm) x", "r* x", "sudo $X y", "sh -c \"$X\"", "eval $X", "bash -c \"a $X\"", "echo 'rm x' | sh",
     "cat f | bash", "bash < f", "xargs $X", "find . $X", "env $X ls", "timeout $N ls", "bash <<E\n$X\nE", "ls 'a",
     "x='a[$(rm x)]'; ((x))", "let 'x=a[$(rm x)]'", "test -v 'a[$(rm x)]'", "ls\rrm", "cat <<E | sh\nrm x\nE",
     "sh -c 'ls \"'", "trap \"$X\" EXIT", "xargs bash -c", "bash $SCRIPT", "echo x | sudo sh",
     "printf -v 'a[$(rm)]' x"],
)  # fmt: skip
def test_a_command_that_cannot_be_fully_resolved_is_said_so(command: str) -> None:
    parsed = parse_command(command)
    assert may_be_forbidden(parsed, ["rm:*"]) or find_forbidding_rule(parsed, ["rm:*"])
    assert not is_fully_resolved(parsed) or may_be_forbidden(parsed, ["rm:*"])


@pytest.mark.parametrize("command", ["git $X", "git pus[h]", "git {push,x}", "git ~/x"])
def test_a_rule_that_may_match_once_a_word_is_known_is_undecided(command: str) -> None:
    assert may_be_forbidden(parse_command(command), ["git push:*"])


def test_nothing_is_undecided_without_rules() -> None:
    assert not may_be_forbidden(parse_command("$X y"), [])


def test_arguments_that_a_rule_does_not_look_at_need_not_be_known() -> None:
    parsed = parse_command('ls "$X"; ((i++)); [[ -f $X ]]')
    assert is_fully_resolved(parsed)
    assert not may_be_forbidden(parsed, ["rm:*"])


@pytest.mark.parametrize("separator", [";", " && ", "|", "\n", " & ", " || "])
def test_a_cap_on_the_number_of_parts_never_weakens_a_deny(separator: str) -> None:
    parsed = parse_command(separator.join(["true"] * 900 + ["rm x"]))
    assert find_forbidding_rule(parsed, ["rm:*"]) == "rm:*"
    parsed = parse_command(separator.join(["true"] * 10_000 + ["rm x"]))
    assert find_forbidding_rule(parsed, ["rm:*"]) == "rm:*" or may_be_forbidden(parsed, ["rm:*"])


def test_a_cap_inside_a_wrapper_never_weakens_a_deny() -> None:
    parsed = parse_command("bash -c '" + ";".join(["true"] * 3000 + ["rm x"]) + "'")
    assert find_forbidding_rule(parsed, ["rm:*"]) == "rm:*"


def test_wrappers_nested_without_end_are_unresolved() -> None:
    assert not is_fully_resolved(parse_command("sudo " * 500 + "rm x"))


def test_the_part_itself_comes_first_with_its_bare_name() -> None:
    found = unwrap(parse_command("/usr/bin/sudo /bin/rm x").parts[0])
    assert [part.words for part in found] == [("sudo", "/bin/rm", "x"), ("rm", "x")]


@try_each(
    ("command", "rules"),
    [
        ("npm test", ["npm test"]), ("npm run build -- -x", ["npm run build -- -x"]),
        ("git add -A", ["git add:*"]), ("git mv a b", ["git mv a b"]), ("git switch x", ["git switch x"]),
        ("git commit -m x", ["git commit:*"]),
        ("git push --force", ["git push --force"]), ("python script.py a", ["python script.py a"]),
        ("bash x.sh 'a b'", ["bash x.sh 'a b'"]), ("rm -rf x", ["rm -rf x"]), ("sudo ls", ["sudo ls"]),
        ("docker run x", ["docker run x"]), ("npm install x", ["npm install x"]), ("xargs rm", ["xargs rm"]),
        ("timeout 9 pytest -q", ["pytest -q"]), ("ls && cat f", []),
        ("ls && npm test && make x", ["npm test", "make x"]),
        ("npm test && npm test -x", ["npm test", "npm test -x"]), ("a; b; c; d; e; f", []), ("rm 'a*'", []),
        ("f() { a; }", []), ("ls 'x", []), ("npm run", ["npm run"]),
        ("git -c a=b push", ["git -c a=b push"]), ("npm", ["npm"]),
        ("make x$Y", ["make x$Y"]),
    ],
)  # fmt: skip
def test_suggested_rules_are_neither_too_wide_nor_useless(command: str, rules: list[str]) -> None:
    assert suggest_rules(parse_command(command)) == rules


@try_each(
    "command",
    [
        "touch a", "mkdir -p a/b", "git mv a b", "git switch main", "prettier --write a", "eslint a", "mypy a",
        "pytest -q", "ruff check a", "black a", "isort a", "tsc -p a", "jest a", "vitest run", "gofmt -w a",
        "rustfmt a", "pyright a", "cargo build", "cargo test x", "cargo fmt", "go test ./a", "make all", "npm test",
        "npm run build", "npm ci", "yarn test", "pnpm run x", "bun test", "node a.js", "tox", "docker build a",
    ],
)  # fmt: skip
def test_a_program_that_writes_or_loads_code_by_option_is_suggested_as_the_exact_line(command: str) -> None:
    assert suggest_rules(parse_command(command)) == [command]


@pytest.mark.parametrize(
    "command",
    ["npm test -x", "git commit -m 'a b'", "python x.py 'it'\"'\"'s'", "cd x && pytest -q | head", "make x$Y"],
)
def test_a_suggested_rule_allows_the_command_it_was_suggested_for(command: str) -> None:
    parsed = parse_command(command)
    assert find_uncovered(parsed, suggest_rules(parsed), part_is_read_only) == []
