"""The files that a command visibly reads or writes, and the commands that only handle files."""

from pathlib import Path

import pytest

from ostler.tools.commands import (
    find_file_accesses,
    has_only_simple_file_commands,
    is_simple_file_command,
    parse_command,
)
from tests.support.tables import try_each


def list_accesses(command: str, folder: str = "/w") -> set[tuple[str, str]]:
    return {(found.path, "w" if found.writes else "r") for found in find_file_accesses(parse_command(command), folder)}


@try_each(
    ("command", "expected"),
    [
        ("cat a b", {("/w/a", "r"), ("/w/b", "r")}), ("echo x > f", {("/w/f", "w")}), ("ls >> f", {("/w/f", "w"),
        ("/w", "r")}),
        ("wc < f", {("/w/f", "r")}), ("ls 2>&1 >/dev/null", {("/w", "r")}), ("cp a b", {("/w/a", "r"), ("/w/b", "w")}),
        ("cp -t d a", {("/w/d/a", "w"), ("/w/a", "r")}), ("mv a b", {("/w/a", "w"), ("/w/b", "w")}),
        ("rm -rf a", {("/w/a", "w")}),
        ("mkdir -p a/b", {("/w/a/b", "w")}), ("touch a", {("/w/a", "w")}), ("tee -a f", {("/w/f", "w")}),
        ("sed -i s/a/b/ f", {("/w/f", "w")}), ("sed s/a/b/ f", {("/w/f", "r")}), ("sed -n 1p f", {("/w/f", "r")}),
        ("chmod +x f", {("/w/f", "w")}), ("ln -s a b", {("/w/a", "r"), ("/w/b", "w")}),
        ("grep x f g", {("/w/f", "r"), ("/w/g", "r")}),
        ("grep -f p x", {("/w/p", "r"), ("/w/x", "r")}), ("sort -o out in", {("/w/out", "w"), ("/w/in", "r")}),
        ("sort -uo out in", {("/w/out", "w"), ("/w/in", "r")}), ("uniq a b", {("/w/a", "r"), ("/w/b", "w")}),
        ("cd d && cat f", {("/w/d", "r"), ("/w/d/f", "r")}), ("cd d; rm f", {("/w/d", "r"), ("/w/d/f", "w"),
        ("/w/f", "w")}),
        ("cd /e && ls", {("/e", "r")}), ("cat /etc/passwd", {("/etc/passwd", "r")}), ("cat ../x", {("/w/../x", "r")}),
        ("sudo cat /etc/shadow", {("/etc/shadow", "r")}), ("bash -c 'cat f'", {("/w/f", "r")}),
        ("find . -name x", {("/w/.", "r")}), ("git show HEAD:.env", {("/w/HEAD:.env", "r"), ("/w/.env", "r")}),
        ("git diff --stat /dev/null /etc/passwd", {("/dev/null", "r"), ("/etc/passwd", "r")}),
        ("curl -o f x", {("/w/f", "w")}),
        ("echo $(cat f)", {("/w/f", "r")}), ("{ cd d && ls; } > f", {("/w/d", "r"), ("/w/f", "w")}),
        ("[ -f x ]", {("/w/x", "r")}),
        ("cat -- -x", {("/w/-x", "r")}), ("bash script.sh", {("/w/script.sh", "r")}), ("unknown-program f", set()),
        ("dd if=a of=b", {("/w/a", "r"), ("/w/b", "w")}),
    ],
)  # fmt: skip
def test_the_files_that_shell_commands_visibly_read_or_write(command: str, expected: set[tuple[str, str]]) -> None:
    assert list_accesses(command) == expected


def test_a_path_under_the_home_folder_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/x")
    assert list_accesses("cat ~/.ssh/id_rsa > ~/f") == {("/home/x/.ssh/id_rsa", "r"), ("/home/x/f", "w")}


def test_a_glob_is_what_it_finds_and_the_folder_it_looks_into(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "c.txt"):
        (tmp_path / name).touch()
    found = find_file_accesses(parse_command("cat ./*.py"), str(tmp_path))
    assert {Path(each.path).name for each in found if not each.deep} == {"a.py", "b.py"}
    assert [Path(each.path) for each in found if each.deep] == [tmp_path]


@try_each("command", ["grep -r x d", "rg x d", "find d", "ls -R d", "tree d", "du d", "diff -r d d"])
def test_what_goes_through_a_whole_folder_says_so(command: str) -> None:
    assert all(found.deep and found.path == "/w/d" for found in find_file_accesses(parse_command(command), "/w"))


@try_each(
    "command", ["mkdir -p a", "touch a b", "cp a b", "mv -n a b", "rm a", "rm -f a", "rmdir a", "sed -i s/a/b/g f",
                "sed -i -E 's|a/b|c|' f g", "cp -- a b", "mkdir a && cp x a/", "ls && mkdir a", "mkdir a; touch a/b"]
)  # fmt: skip
def test_simple_file_commands_pass(command: str) -> None:
    assert has_only_simple_file_commands(parse_command(command))


@try_each(
    "command", ["rm -rf a", "rm -r a", "rm --recursive a", "cp -r a b", "cp -a a b", "ln -s a b",
    "mv a b && cp c b/d", "chmod +x a",
                "sed -i s/a/b/e f", "sed -i 's/a/b/w x' f", "sed -i '1e id' f", "sed -i s/a/b/;id f",
                "sed s/a/b/ f", "sed -i.bak s/a/b/ f",
                "sed -i 's/a/b/\nw x' f", "sed -i s/a/b/ -e x f", "cp a b > c", "mkdir $x", "mkdir", "mkdir -p",
                "X=1 mkdir a", "touch *", "mkdir a & rm b",
                "mkdir a && npm test", "cp --target-directory=x a", "ls", "tee f", "mkdir -Z a", "touch -r a b",
                "sudo mkdir a", "(mkdir a)"]
)  # fmt: skip
def test_other_file_commands_do_not_pass(command: str) -> None:
    assert not has_only_simple_file_commands(parse_command(command))


def test_one_part_is_judged_by_itself() -> None:
    assert is_simple_file_command(parse_command("mkdir a").parts[0])
    assert not is_simple_file_command(parse_command("mkdir a > f").parts[0])
