"""What a command line does to files: said beforehand, and compared with what the real programs then do."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ostler.tools.commands import find_file_effects, parse_command
from tests.support.tables import try_each

TREE = {
    "tmpl/settings.json": "{}", "tmpl/.envrc": "x", "tmpl/hooks/pre-commit": "x", "src/victim": "new", "src/a b": "x",
    "dest/keep": "x", "secrets/key": "KEY", "secrets/deep/more": "MORE", "f": "f", "g": "g",
}  # fmt: skip
AUTHOR = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path)


def make_tree(tmp_path: Path) -> Path:
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
    "bash -c 'mv f dest; cp g dest'", "rm -r dest; cp -r tmpl dest", "rm dest/keep; rmdir dest; mv tmpl dest",
    "cp -b f g", "cp -S .old f g", "mv -b f g", "ln -sfb f g", "ln -sf ../tmpl/.envrc dest/e",
    "ln -sT f dest3", "ln -snf src out", "cp -rs $PWD/tmpl linked", "cp -rl tmpl hard", "cp -rL sub copied",
    "cp -R sub copied", "mv sub moved; cp f moved/victim", "mkdir m; mv f m", "mkdir -p m/n && cp -t m/n f g",
    "cp -r tmpl x; cp -r x y; mv y/.envrc .", "pushd dest; cp ../f here", "pushd dest >/dev/null; cp ../f here; popd",
    "env -C dest cp ../f here", "env --chdir=dest touch here", "nice env -C dest touch here", "cp f >out/new g",
    "echo x >| g", "echo x &> new", "echo x >&new", "cat f <>new", "exec 3>new", "{ echo x; echo y; } > new",
    "while read l; do echo $l; done < f > new", "(cd dest && touch here)", "if true; then cp f dest; fi",
    "for i in 1; do cp f dest; done", "for i in 1 2; do cp f x/y; mkdir -p x; done", "cp f dest & wait",
    "f() { cp f dest; }; f", "cp -a sub/. dest", "cp -r out copied", "cp -r out/ copied", "mv out dest",
    "cp dest/../f new", "cp ./f ./dest/./", "mv dest/.. x; cp f dest//new", "install -Dt a/b f", "install -b f g",
    "zip -q new f g", "zip -qr new.zip tmpl", "zip -qm new.zip f", "tar rf new.tar f",
    "tar -cf new.tar --remove-files f",
    "printf '1c1\n< f\n---\n> x\n' | patch -s f", "printf '%s\n' 'w new' q | ed -s f", "perl -pi -e s/f/x/ f",
    "perl -i.bak -pe s/f/x/ f", "sed -n 'w new' f", "sed 's/f/x/w new' f", "awk '{print > \"new\"}' f",
    "awk '{print $0 >> \"new\"}' f", "tee -a new <f", "split f part", "csplit -s f 1", "mktemp -p dest q.XXX",
    "curl -sO file://$PWD/src/victim", "curl -s -o new file://$PWD/f", "curl -s --output-dir dest -o new file://$PWD/f",
    "echo $(cp f dest)", "cat <(cp f dest)", "time cp f dest", "timeout 5 cp f dest", "command cp f dest",
    "\\cp f dest", "/bin/cp f dest", "'cp' f dest", "eval 'cp f dest'", "eval cp f dest", "xargs -I{} cp f {} <<<new",
    "find src -type f -exec mv -t dest {} +", "find . -name keep -execdir cp {} made \\;", "find f -fprint new",
    "cp -u f new", "cp --no-clobber f new", "cp -- f new", "mv -f -- f new", "touch -r f new", "touch dest/{a,b}",
    "truncate --size=0 f", "rm -f ./f", "rm -rf dest/../src", "chmod 000 f; rm f", "ln f dest/", "link f dest/l",
    "cp -T src/victim sub/victim", "tee sub/victim <f", "cp f sub/victim", "mv f sub/victim", "ln -sf f sub/victim",
    "cp tmpl/.envrc tmpl/settings.json dest", "rmdir -p none 2>&1; mkdir a b", "mv tmpl/hooks/ dest/h",
    "cd dest && cp ../f . && cd .. && mv dest moved", "cd src; mv victim ../dest; cd ../dest; mv victim again",
    "mv tmpl new/", "cp -r tmpl new/", "mv tmpl/ new//", "cp -a tmpl/. new/", "cd src || cd dest; mv ../tmpl ../new",
]  # fmt: skip

GIT_CHANGES = [
    "git mv src dest", "git mv src/victim f dest", "git mv f new", "git checkout -- src", "git checkout HEAD -- f",
    "git checkout f", "git restore f src", "git restore .", "git rm -rqf src", "git rm -f f", "git clean -fdq",
    "git clean -fdqenone", "git clean -fdq dest", "git stash -q", "git reset -q --hard", "git worktree add -q ../wt",
    "git -C src mv victim new", "git -C src checkout -- .", "git archive -o new.tar HEAD", "git diff --output=new",
    "git config user.name x", "git config --add a.b c", "git checkout -qf other", "git switch -qf other",
    "git stash -q; git merge -q other", "git stash -q; git apply p.diff", "git clone -q . copy",
    "git format-patch -qo out2 -1",
    "git restore --source=other src", "git checkout other f", "git rm -q --cached f",
    "git show HEAD:f > new", "git bundle create new HEAD",
]  # fmt: skip


@pytest.mark.parametrize("command", CHANGES)
def test_whatever_a_command_changes_was_said_beforehand(tree: Path, command: str) -> None:
    effects = find_file_effects(parse_command(command), str(tree))
    said = {os.path.normpath(each.path) for each in effects.accesses if each.writes}
    said |= {os.path.realpath(path) for path in said}
    deep = [each.path for each in effects.accesses if each.writes and each.deep]
    changed = run_and_compare(command, tree)
    assert changed or command.startswith(("chmod", "touch")) or shutil.which(command.split(maxsplit=1)[0]) is None
    unsaid = {path for path in changed if path not in said and not any(path.startswith(f"{above}/") for above in deep)}
    # Folders that a program makes on the way hold something that was said.
    unsaid = {path for path in unsaid if not any(each.startswith(f"{path}/") for each in said)}
    assert not unsaid or effects.unknown_writes or (effects.unknown and effects.mentions)


def run_and_compare(command: str, tree: Path) -> set[str]:
    """Runs it, and says which paths it changed."""
    before = snapshot(tree.parent)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tree.parent), "GIT_CONFIG_NOSYSTEM": "1", **AUTHOR}
    subprocess.run(["bash", "-c", command], cwd=tree, env=environment, check=False, capture_output=True)
    after = snapshot(tree.parent)
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree as a repository with two branches, of which each test has a copy: making it takes nine processes."""
    tree = make_tree(tmp_path_factory.mktemp("committed"))
    script = """git init -q && git add f g src tmpl secrets && git commit -qm one && git checkout -qb other
    && echo o > f && rm src/victim && git commit -qam two && git checkout -q - && git diff HEAD other > p.diff"""
    subprocess.run(
        ["bash", "-ec", script.replace("\n", " ")], cwd=tree, env=os.environ | AUTHOR, check=True, capture_output=True
    )
    return tree


@pytest.fixture
def repository(tree: Path, committed: Path) -> Path:
    shutil.copytree(committed / ".git", tree / ".git")
    shutil.copy(committed / "p.diff", tree)
    (tree / "f").write_text("x\n")
    (tree / "src" / "victim").write_text("x\n")
    return tree


@pytest.mark.parametrize("command", GIT_CHANGES)
def test_whatever_git_changes_in_the_tree_was_said_beforehand(repository: Path, command: str) -> None:
    effects = find_file_effects(parse_command(command), str(repository))
    said = {os.path.normpath(each.path) for each in effects.accesses if each.writes}
    deep = [os.path.normpath(each.path) for each in effects.accesses if each.writes and each.deep]
    own = str(repository / ".git")
    changed = {
        path
        for path in run_and_compare(command, repository)
        if path == f"{own}/config" or not (path.startswith(f"{own}/") or "/.git/" in f"{path}/")
    }
    assert changed or command == "git rm -q --cached f"
    unsaid = {path for path in changed if path not in said and not any(path.startswith(f"{above}/") for above in deep)}
    assert not unsaid or effects.unknown_writes


@try_each(
    "command",
    [
        each
        for each in CHANGES
        if not any(
            sign in each
            for sign in (
                "$(",
                "$PWD",
                "xargs",
                "*",
                "split",
                "gzip",
                "-exec",
                "{",
                "for ",
                "while ",
                "popd",
                "perl",
                "patch",
                "ed -s",
                "'w ",
                "/w ",
                "print >",
                "print $0",
                "eval",
                "--remove-files",
                "mktemp",
                "<(cp",
                "<>",
                "\\\\cp",
            )
        )
    ],
)
def test_of_what_names_its_files_all_is_known(tree: Path, command: str) -> None:
    effects = find_file_effects(parse_command(command), str(tree))
    assert (effects.unknown_reads, effects.unknown_writes) == (False, False)


@try_each(
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
    monkeypatch.setattr("ostler.tools.commands.effects.file_access._MAX_BELOW", 10)
    (tmp_path / "many").mkdir()
    for number in range(20):
        (tmp_path / "many" / str(number)).touch()
    effects = find_file_effects(parse_command("mv many x"), str(tmp_path))
    assert effects.unchecked == str(tmp_path / "many")


READS = [
    "cat f", "cat < f", "cat secrets/*", "grep -r KEY .", "grep -d recurse KEY secrets", "diff -r dest secrets",
    "diff dest secrets",
    "cp -r secrets x", "cp -rL sub x", "tar cf x.tar .", "tar cf x.tar -C secrets .", "zip -qr x secrets",
    "find . -exec cat {} +",
    "find secrets -type f | xargs cat", "cd secrets && cat key", "pushd secrets; cat key", "env -C secrets cat key",
    "bash -c 'cd secrets; cat key'", "mv secrets s2; cat s2/key", "ln -s secrets s2; cat s2/key", "sed p f",
    "awk 1 f g",
    "awk 'BEGIN{while((getline l < \"secrets/key\")>0) print l}'", "sed 'r secrets/key' f", "sort f g",
    "base64 secrets/key",
    "dd if=secrets/key", "source ./f", "while read l; do :; done < f", "mapfile x < f", "echo $(<secrets/key)",
    "exec 3<f",
    "perl -pe 1 f", "perl -e 'open F, \"secrets/key\"'", "python3 -c \"open('secrets/key')\"", "curl -s file://$PWD/f",
    "openssl enc -base64 -in f", "gzip -c f", "od f", "cmp f g", "comm f g", "paste f g", "head -1 f g", "wc -l src/*",
    "sh -c 'cat $0' secrets/key", "eval cat f", "x=secrets/key; cat $x", "rg -uu KEY", "rg KEY secrets", "cat {f,g}",
    "git diff --no-index f secrets/key", "git grep --no-index KEY", "ed -s f <<< p", "cat out/victim", "cat sub/victim",
    "install secrets/key x", "tee x < secrets/key", "split secrets/key", "xxd f", "md5sum secrets/key", "nl f", "tac f",
    "find . -name key -execdir cat {} \\;", "find -L . -name victim -exec cat {} \\;", "grep -R old .", "cat ./../w/f",
]  # fmt: skip
_OPENED = re.compile(r'openat\([^,]*, "([^"]*)", (O_RDONLY|O_RDWR)([^)]*)\) = \d+<([^>]*)>')


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not there")
@pytest.mark.parametrize("command", READS)
def test_whatever_a_command_reads_was_said_beforehand(tree: Path, command: str) -> None:
    effects = find_file_effects(parse_command(command), str(tree))
    said = {os.path.realpath(each.path) for each in effects.accesses if not each.lists}
    deep = {os.path.realpath(each.path) for each in effects.accesses if each.deep and not each.lists}
    mentioned = {os.path.realpath(each.path) for each in effects.mentions}
    before = {str(path.resolve()) for path in tree.parent.rglob("*") if path.is_file()}
    trace = tree.parent.parent / f"{tree.parent.name}.trace"
    ran = subprocess.run(
        ["strace", "-f", "--seccomp-bpf", "-y", "-qq", "-s", "4096", "-e", "trace=openat", "-o", str(trace),
         "bash", "-c", command],
        cwd=tree, env={"PATH": os.environ["PATH"], "HOME": str(tree.parent)}, check=False, capture_output=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if "ptrace" in ran.stderr.decode():
        pytest.skip("nothing can be traced here")
    opened = {found[3] for found in _OPENED.findall(trace.read_text()) if "O_DIRECTORY" not in found[2]}
    read = opened & before
    unsaid = {path for path in read - said - mentioned if not any(path.startswith(f"{above}/") for above in deep)}
    assert not unsaid or effects.unknown_reads
