"""What a command line does to files: said beforehand, and compared with what the real programs then do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ostler.tools.commands import find_file_effects, parse_command

TREE = {
    "tmpl/settings.json": "{}", "tmpl/.envrc": "x", "tmpl/hooks/pre-commit": "x", "src/victim": "new", "src/a b": "x",
    "dest/keep": "x", "secrets/key": "KEY", "secrets/deep/more": "MORE", "f": "f", "g": "g",
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "w"
    for name, content in TREE.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "victim").write_text("old")
    (place / "sub").mkdir()
    (place / "sub" / "victim").symlink_to(tmp_path / "outside" / "victim")
    (place / "out").symlink_to(tmp_path / "outside")
    return place


def snapshot(folder: Path) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for here, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(here, name)
            if path.is_symlink():
                found[str(path)] = ("link", os.readlink(path))
            elif path.is_dir():
                found[str(path)] = ("folder", "")
            else:
                found[str(path)] = ("file", path.read_bytes().hex())
    return found


CHANGES = [
    "cp f dest", "cp f dest/", "cp f dest/new", "cp f g dest", "cp -t dest f g", "cp --target-directory=dest f",
    "cp --targ dest f", "cp -vt dest f", "cp -tdest f", "cp -T f dest2", "cp f new", "cp -r tmpl dest",
    "cp -r tmpl new", "cp -a tmpl/. .", "cp -r tmpl/ dest", "cp -rT tmpl dest",
    "cp --parents tmpl/hooks/pre-commit dest", "cp src/victim sub", "cp -r src/. sub", "cp src/* dest",
    "cp tmpl/.e* .", "cp src/{victim,'a b'} dest", "mv tmpl .claude", "mv tmpl dest", "mv -t dest tmpl f", "mv f g",
    "mv -T tmpl new", "mv secrets/key secrets/deep .", "mv src/'a b' dest", "ln -s f dest", "ln -s ../f dest/link",
    "ln f hard", "ln -s tmpl/.envrc", "ln -st dest f g", "link f hard", "install f dest", "install -D f a/b/c",
    "install -d x/y", "install -t dest f", "install -m 600 f new", "rm f", "rm -r tmpl", "rm -rf tmpl secrets",
    "rmdir none; rm -f src/*", "unlink f", "mkdir -p x/y", "touch f new", "truncate -s0 f", "echo x > new",
    "echo x >> f", "echo x | tee new g", "echo x >out/victim", "cd tmpl && cp .envrc ..", "cd dest; cp ../f .",
    "sed -i s/f/x/ f", "sed -i.bak s/f/x/ f", "dd if=f of=new status=none", "sort -o new f", "sort -uo new f",
    "find src -name victim -delete", "find tmpl -name '.e*' -exec cp {} dest \\;", "find src -type f -exec rm {} +",
    "tar cf new.tar tmpl", "tar -c -f new.tar tmpl", "tar czf new.tgz -C tmpl hooks", "mv tmpl x; cp x/.envrc .",
    "ln -s dest d; cp f d/new", "ln -s dest d; cp f d", "cp -r tmpl x && mv x/.envrc .", "mkdir m && cp f m",
    "chmod -R u+x tmpl", "split -l1 f part", "uniq f new", "cp f $(echo dest)", "xargs -n1 cp f <<<dest/q",
    "env cp f dest", "sh -c 'cp f dest'", "nice mv f dest", "gzip -k f", "cp dest/keep .", "gzip f",
    "gzip f; mv f.gz .envrc.gz; gunzip .envrc.gz", "cp src/{victim,x{1,2}} dest", "mv {f,g} dest",
    "bash -c 'mv f dest; cp g dest'",
]  # fmt: skip


@pytest.mark.parametrize("command", CHANGES)
def test_whatever_a_command_changes_was_said_beforehand(tree: Path, command: str) -> None:
    effects = find_file_effects(parse_command(command), str(tree))
    said = {os.path.normpath(each.path) for each in effects.accesses if each.writes}
    said |= {os.path.realpath(path) for path in said}
    deep = [each.path for each in effects.accesses if each.writes and each.deep]
    before = snapshot(tree.parent)
    subprocess.run(["bash", "-c", command], cwd=tree, check=False, capture_output=True)
    after = snapshot(tree.parent)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert changed or command.startswith(("chmod", "touch")) or shutil.which(command.split(maxsplit=1)[0]) is None
    unsaid = {path for path in changed if path not in said and not any(path.startswith(f"{above}/") for above in deep)}
    # Folders that a program makes on the way hold something that was said.
    unsaid = {path for path in unsaid if not any(each.startswith(f"{path}/") for each in said)}
    assert not unsaid or effects.unknown_writes


@pytest.mark.parametrize(
    "command",
    [
        each
        for each in CHANGES
        if not any(sign in each for sign in ("$(", "xargs", "*", "split", "gzip", "-exec cp", "{"))
    ],
)
def test_of_what_names_its_files_all_is_known(tree: Path, command: str) -> None:
    effects = find_file_effects(parse_command(command), str(tree))
    assert (effects.unknown_reads, effects.unknown_writes) == (False, False)


@pytest.mark.parametrize(
    ("command", "path", "action"),
    [
        ("cp tmpl/settings.json .claude", ".claude", "create"),
        ("mv tmpl .claude", ".claude/settings.json", "create"), ("mv tmpl .claude", "tmpl/hooks/pre-commit", "move"),
        ("cp src/victim sub", "sub/victim", "create"), ("mv secrets s2; cat s2/key", "secrets/key", "read"),
        ("cp -r secrets s2; cat s2/key", "secrets/key", "read"),
        ("ln -s secrets s2; cat s2/key", "secrets/key", "read"), ("ln secrets/key k", "secrets/key", "read"),
        ("git mv tmpl .claude", ".claude/settings.json", "create"), ("rsync -a tmpl/ .", ".envrc", "create"),
        ("rsync -a tmpl dest", "dest/tmpl/.envrc", "create"), ("cp -t . tmpl/.envrc", ".envrc", "create"),
        ("install tmpl/.envrc .", ".envrc", "create"),
        ("ln -s x .git/hooks/pre-commit", ".git/hooks/pre-commit", "link"),
        ("cp --unheard-of tmpl/.envrc .", ".envrc", "create"), ("rm -r secrets", "secrets/deep/more", "delete"),
        ("mv secrets x; mv x y; cat y/key", "secrets/key", "read"), ("tar cf - secrets", "secrets", "read"),
        ("find secrets -exec cat {} \\;", "secrets", "read"), ("pushd secrets; cat key", "secrets/key", "read"),
        ("cat <secrets/key", "secrets/key", "read"), ("grep -d recurse KEY secrets", "secrets", "read"),
        ("diff -r dest secrets", "secrets", "read"), ("xargs -a secrets/key echo", "secrets/key", "read"),
        ("env -C secrets cat key", "secrets/key", "read"),
    ],
)  # fmt: skip
def test_the_effect_counts_and_not_the_operand(tree: Path, command: str, path: str, action: str) -> None:
    effects = find_file_effects(parse_command(command), str(tree))
    assert (str(tree / path), action) in {(os.path.normpath(each.path), each.action) for each in effects.accesses}


@pytest.mark.parametrize(
    "command", ["cat $x", "ls secrets | xargs cat", "cat $(echo secrets/key)", "head -1 ${f}", "cd $x && cat key"]
)
def test_what_it_reads_may_be_unknown(tree: Path, command: str) -> None:
    assert find_file_effects(parse_command(command), str(tree)).unknown_reads


@pytest.mark.parametrize(
    "command", ["cp f $x", "rm $x", "ls | xargs rm", "tar xf a.tar", "cd $x && touch y", "mv {1..3} dest"]
)
def test_what_it_changes_may_be_unknown(tree: Path, command: str) -> None:
    assert find_file_effects(parse_command(command), str(tree)).unknown_writes


def test_more_files_than_can_be_looked_at_are_said_to_be_unchecked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ostler.tools.commands.safety.file_access._MAX_BELOW", 10)
    (tmp_path / "many").mkdir()
    for number in range(20):
        (tmp_path / "many" / str(number)).touch()
    effects = find_file_effects(parse_command("mv many x"), str(tmp_path))
    assert effects.unchecked == str(tmp_path / "many")
