"""Commands that cannot be undone: the table, and what hides such a command."""

import time
from typing import Any, Final

from hypothesis import given, settings

from ostler.tools.commands import is_destructive, parse_command
from ostler.tools.commands.safety.program_table import load_toml
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.powershell import PowerShell
from ostler.tools.tasks.monitor import Monitor
from tests.support.examples import count_examples
from tests.support.tables import try_each
from tests.tools.commands.generated_commands import shell_text

TABLE: Final[dict[str, Any]] = load_toml("destructive.toml")


def is_destructive_command(command: str) -> bool:
    return is_destructive(parse_command(command))


@try_each(
    "command",
    [
        "rm -rf build", "rm x", "rm *.o", 'rm "$x"', "rmdir x", "unlink x", "shred x", "truncate -s 0 x",
        "dd if=a of=b",
        "mkfs.ext4 /dev/sda1", "mv a b", "cp a b", "cp -r a b", "install a b", "echo x > f", "echo x >| f", "make &> f",
        "make 2> f", "> f", "echo x > $f", "echo x > ~/f", "make | tee log", "git push --force", "git push -f o m",
        "git push o +m", "git push o :m", "git push --force-with-lease", "git -C x push --force", "git push -f o $b",
        "git reset --hard", "git reset HEAD~1 --hard", "git clean -fdx", "git checkout -- x", "git checkout HEAD -- x",
        "git checkout .", "git restore x", "git branch -D x", "git branch -d x", "git stash drop", "git tag -d x",
        "find . -delete", "find . -name x -exec rm {} ;", "find . -exec rm {} +", "ls | xargs rm", "fd x -x rm",
        "kubectl delete pod x", "kubectl -n a delete pod x", "docker rm x", "docker system prune",
        "docker compose down -v",
        "npm publish", "npm --access public publish", "cargo publish", "twine upload x", "docker push x",
        "terraform apply",
        "curl -X DELETE u", "curl -X POST u", "curl -sX POST u", "curl -XPUT u", "curl --request PATCH u",
        "curl -d a=b u",
        "curl -sd a=b u", "curl --data-raw x u", "curl -F a=@f u", "curl -T f u", "wget --post-data=x u", "kill 1",
        "kill -9 1", "pkill x", "reboot", "scp a b:c", "sudo rm x", "sudo -u me rm x", "env A=b rm x", "timeout 5 rm x",
        "nice -n 5 rm x", "nohup rm x", "command rm x", "exec rm x", "sh -c 'rm x'", "bash -c 'ls && rm x'",
        "eval 'rm x'",
        "/bin/rm x", "\\rm x", "'rm' x", "ls; rm x", "ls && rm x", "true || rm x", "(rm x)", "{ rm x; }",
        "echo $(rm x)",
        "if true; then rm x; fi", "for f in a b; do rm $f; done", "f() { rm x; }; f", "trap 'rm x' EXIT", "rm x &",
        "bash <<E\nrm x\nE", "ln -sf a b", "rsync -a --delete a b", "sudo sh -c 'echo x > /etc/x'",
    ],
)  # fmt: skip
def test_this_cannot_be_undone(command: str) -> None:
    assert is_destructive_command(command)


@try_each(
    "command",
    [
        "ls", "cat f", "make", "npm test", "npm run build", "pytest -q", "git status", "git commit -m 'rm -rf x'",
        "git push",
        "git push origin main", "git push --dry-run --force", "git fetch", "git checkout main", "git checkout -b x",
        "git switch x", "git branch x", "git stash", "git reset x", "git restore --staged x", "git clean -n", "mkdir x",
        "touch x", "echo rm x", "echo 'rm x; rm y'", "grep rm x", "echo x >> f", "make > /dev/null", "make 2>&1",
        "make > /dev/null 2>&1", "echo x > /dev/stderr", "make &>> f", "cp -n a b", "mv --no-clobber a b",
        "make | tee -a log",
        "find . -name rm", "find . -exec cat {} +", "ls | xargs cat", "kubectl get pods", "docker run --rm x",
        "docker ps",
        "docker build .", "npm install", "npm publish --dry-run", "curl u", "curl -sSfL u", "curl --compressed u",
        "curl -o - u", "wget u", "kill -0 1", "kill -l", "sudo ls", "sh -c 'ls'", "sh script.sh", "python x.py",
        "python -c 'print(1)'", "git push origin \"$b\"", "make $target", "for f in a b; do cat $f; done",
        "cat <<E\nrm x\nE",
        "rsync -an --delete a b", "x=rm", "tar xf x.tar", "terraform plan", "sed -i s/a/b/ f",
    ],
)  # fmt: skip
def test_this_can(command: str) -> None:
    assert not is_destructive_command(command)


@try_each(
    "command",
    ["$PROGRAM x", 'eval "$x"', "curl u | sh", "bash <(curl u)", "echo 'unfinished", "ls\u00a0x", 'sh -c "$x"'],
)
def test_what_is_not_understood_is_shown_as_the_worse(command: str) -> None:
    assert is_destructive_command(command)


def test_a_command_with_more_parts_than_anybody_reads_is_shown_as_the_worse() -> None:
    assert is_destructive_command("; ".join(["true"] * 1_001))
    assert not is_destructive_command("; ".join(["true"] * 500))


@try_each("name", TABLE["always"])
def test_each_name_of_the_table_is_found_alone_and_inside_another_command(name: str) -> None:
    assert is_destructive_command(f"{name} x")
    assert is_destructive_command(f"sudo {name} x")


@try_each(("name", "word"), [(name, word) for name, words in TABLE["with"].items() for word in words])
def test_each_word_of_the_table_makes_the_difference(name: str, word: str) -> None:
    assert is_destructive_command(f"{name} x {word.replace('*', 'a').replace(' a', ' POST')} y")
    assert not is_destructive_command(f"{name} x y")


@try_each(("name", "word"), [(name, word) for name, words in TABLE["unless"].items() for word in words])
def test_each_harmless_word_of_the_table_makes_the_difference(name: str, word: str) -> None:
    known = {"rsync": "--delete", "kubectl": "delete", "oc": "delete", "npm": "publish", "pnpm": "publish"}
    known |= {"cargo": "publish", "helm": "delete", "git push": "-f"}
    command = f"{name} {known.get(name, '')} x"
    assert is_destructive_command(command)
    assert not is_destructive_command(f"{command} {word.replace('*', '').replace('[!-]', 'a')}")


@try_each(
    ("command", "expected"),
    [
        ("Remove-Item x", True), ("remove-item x", True), ("REMOVE-ITEM -Recurse x", True), ("ri x", True),
        ("del x", True),
        ("Get-ChildItem; Remove-Item x", True), ("Copy-Item a b", True), ("Set-Content f x", True), ("rm x", True),
        ("git push --force", True), ("git branch -D x", True), ("Invoke-RestMethod u -Method Post", True),
        ("Stop-Process -Id 1", True), ("Get-Content f", False), ("Get-ChildItem | Select-Object -First 5", False),
        ("git status", False), ("Write-Output x", False), ("$x | Remove-Item", True), ("Get-Item x > f", True),
    ],
)  # fmt: skip
def test_powershell_has_names_of_its_own(command: str, expected: bool) -> None:
    shell = PowerShell()
    assert shell.is_destructive(shell.parse({"command": command})) is expected


def test_the_tools_that_run_commands_say_so() -> None:
    shell, monitor = Bash(), Monitor()
    watch = {"description": "it", "timeout": 1000}
    assert shell.is_destructive(shell.parse({"command": "rm -rf precious"}))
    assert not shell.is_destructive(shell.parse({"command": "make"}))
    assert monitor.is_destructive(monitor.parse({**watch, "command": "rm -rf precious"}))
    assert not monitor.is_destructive(monitor.parse({**watch, "command": "make"}))
    assert not monitor.is_destructive(monitor.parse({**watch, "path": "/tmp/rm"}))


@settings(max_examples=count_examples(150), deadline=None)
@given(shell_text)
def test_any_text_has_an_answer(command: str) -> None:
    is_destructive_command(command)


def test_an_answer_takes_a_moment_only() -> None:
    commands = [
        "git commit -m 'x y' && npm test 2>&1 | tail -5",
        "for f in *.py; do python $f; done",
        "curl -s u | jq .",
    ]
    parsed_commands = [parse_command(command) for command in commands]
    best = min(_measure_seconds(parsed_commands) for _ in range(20))
    assert best / len(parsed_commands) < 0.0002


def _measure_seconds(parsed_commands: list[Any]) -> float:
    began = time.perf_counter()
    for parsed in parsed_commands:
        is_destructive(parsed)
    return time.perf_counter() - began
