"""An approval is bound to every file that the line names: another content, and it is asked about again."""

import os
import time
from pathlib import Path

import pytest

from ostler.protocol.ids import SessionId
from ostler.tools.commands import parse_command
from ostler.tools.context import SessionView
from ostler.tools.shell.approval_binding import compute_binding, may_change_what_runs
from tests.support.tables import try_each

FILES = (
    "x.sh",
    "f",
    "sub/x.sh",
    "sub/deep/x.sh",
    "list",
    "mod.py",
    "pkg/__main__.py",
    "lib/index.js",
    "conf.d/one.sh",
    "my x.sh",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / "p" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "p" / name).write_text("echo approved\n")
    return tmp_path / "p"


def build_view(project: Path) -> SessionView:
    environment = {"HOME": str(project)}
    return SessionView(
        SessionId("s_1"), str(project), str(project), (str(project),), "default", environment=environment
    )


BOUND = [
    # By its path, and by interpreters.
    ("./x.sh", "x.sh"), ("PROJECT/x.sh", "x.sh"), ("bash x.sh", "x.sh"), ("sh ./x.sh a b", "x.sh"),
    ("python3 mod.py", "mod.py"), ("python3.11 mod.py", "mod.py"), ("node f", "f"), ("perl -w f", "f"),
    (". x.sh", "x.sh"), ("source x.sh", "x.sh"), ("source ./x.sh && run", "x.sh"), ("exec ./x.sh", "x.sh"),
    ("ruby f", "f"), ("php -f f", "f"), ("deno run f", "f"), ("bash -x -e x.sh", "x.sh"), ("bash -- x.sh", "x.sh"),
    # Other folders.
    ("cd sub && bash x.sh", "sub/x.sh"), ("cd sub; ./x.sh", "sub/x.sh"),
    ("cd sub/deep && cd .. && sh x.sh", "sub/x.sh"),
    ("pushd sub && bash x.sh", "sub/x.sh"), ("pushd sub; pushd deep; ./x.sh", "sub/deep/x.sh"),
    ("env -C sub bash x.sh", "sub/x.sh"), ("env --chdir=sub ./x.sh", "sub/x.sh"), ("(cd sub && ./x.sh)", "sub/x.sh"),
    ("sh -c 'cd sub && ./x.sh'", "sub/x.sh"), ("make -C sub -f x.sh", "sub/x.sh"), ("cd -P sub && ./x.sh", "sub/x.sh"),
    ("git -C sub apply x.sh", "sub/x.sh"), ("cd $PWD/sub && ./x.sh", "sub/x.sh"),
    ("builtin cd sub; . ./x.sh", "sub/x.sh"),
    # What is fed to something that runs.
    ("bash < x.sh", "x.sh"), ("bash <x.sh", "x.sh"), ("cat x.sh | bash", "x.sh"), ("cat f | sudo sh", "f"),
    ("cat list | xargs -n1 bash", "list"), ("xargs -a list sh", "list"), ("head -5 f | python3", "f"),
    ("bash <(cat x.sh)", "x.sh"), ("bash -c \"$(cat x.sh)\"", "x.sh"), ("eval \"$(cat f)\"", "f"),
    ("tee y < f | sh", "f"),
    ("cp f y && bash y", "f"), ("bash -s < x.sh", "x.sh"), ("bash 0< x.sh", "x.sh"), ("cat <f | bash", "f"),
    # Options that name a file.
    ("make -f f", "f"), ("make -ff", "f"), ("make --file=f", "f"), ("awk -f f list", "f"), ("sed -f f list", "f"),
    ("psql -f f", "f"), ("ansible-playbook f", "f"), ("node --require ./f x.js", "f"), ("node --require=./f", "f"),
    ("node -r ./lib x", "lib/index.js"), ("python3 -m mod", "mod.py"), ("python3 -m pkg", "pkg/__main__.py"),
    ("gcc @f", "f"), ("docker run -v ./x.sh:/x.sh image", "x.sh"), ("BASH_ENV=./f bash -c true", "f"),
    ("bash --rcfile f -i", "f"), ("env BASH_ENV=f bash -c ls", "f"), ("vim -S f", "f"), ("git apply f", "f"),
    ("python3 -c \"exec(open('mod.py').read())\"", "mod.py"), ("perl -e 'do \"./f\"'", "f"),
    ("uv run mod.py", "mod.py"),
    # Globs, variables and the home folder.
    ("bash *.sh", "x.sh"), ("bash conf.d/*", "conf.d/one.sh"), ("for s in conf.d/*.sh; do . $s; done", "conf.d/one.sh"),
    ("$PWD/x.sh", "x.sh"), ("bash $PWD/x.sh", "x.sh"), ("bash \"$PWD/x.sh\"", "x.sh"),
    ("bash ${PWD}/sub/x.sh", "sub/x.sh"),
    ("bash \"$(pwd)/x.sh\"", "x.sh"), ("bash ~/x.sh", "x.sh"), ("~/x.sh", "x.sh"), ("bash $HOME/sub/x.sh", "sub/x.sh"),
    ("S=x.sh; bash $S", "x.sh"), ("S=sub; bash $S/x.sh", "sub/x.sh"), ("bash [x].sh", "x.sh"), ("bash ?.sh", "x.sh"),
    ("bash ~+/x.sh", "x.sh"), ("bash $'x.sh'", "x.sh"), ("python3 -c 'import mod'", "mod.py"), ("$SHELL x.sh", "x.sh"),
    ("node -e \"require('./lib')\"", "lib/index.js"), ("while read l; do eval $l; done < f", "f"),
    ("bash <<< \"$(<x.sh)\"", "x.sh"), ("bash 'my x.sh'", "my x.sh"), ("cat my\\ x.sh | sh", "my x.sh"),
    ("alias r=./x.sh; r", "x.sh"), ("tar xf f && ./configure", "f"), ("find . -name '*.sh' -exec sh {} +", "x.sh"),
    ("docker compose -f f up", "f"), ("kubectl apply -f f", "f"), ("gdb -x f", "f"), ("cmake -P f", "f"),
    ("bash {x,y}.sh", "x.sh"), ("bash [[:alpha:]].sh", "x.sh"), ("bash [^y].sh", "x.sh"), ("bash */x.sh", "sub/x.sh"),
    # Through wrappers, and in lines that are not fully understood.
    ("sudo -u me ./x.sh", "x.sh"), ("timeout 5 bash x.sh", "x.sh"), ("nohup ./x.sh &", "x.sh"), ("time ./x.sh", "x.sh"),
    ("sh -c './x.sh'", "x.sh"), ("bash -c 'bash -c ./x.sh'", "x.sh"), ("if true; then ./x.sh; fi", "x.sh"),
    ("f() { ./x.sh; }; f", "x.sh"), ("find . -name a -exec ./x.sh {} ;", "x.sh"), ("ssh host < x.sh", "x.sh"),
    ("bash \"$(git rev-parse --show-toplevel)/x.sh\"", "x.sh"), ("D=$PWD/sub; E=$D; bash $E/x.sh", "sub/x.sh"),
    ("for s in x; do bash $s.sh; done", "x.sh"), ("LD_PRELOAD=./f ls", "f"), ("bash ${PWD%/}/x.sh", "x.sh"),
    ("bash <<E\n./x.sh\nE", "x.sh"), ("bash <<< ./x.sh", "x.sh"), ("mytool --config f", "f"), ("coproc ./x.sh", "x.sh"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "name"), BOUND)
def test_an_approval_is_bound_to_the_files_that_the_line_names(command: str, name: str, project: Path) -> None:
    line, view = command.replace("PROJECT", str(project)), build_view(project)
    before = compute_binding(line, view)
    assert compute_binding(line, view) == before
    (project / name).write_text("echo planted!\n")
    after = compute_binding(line, view)
    assert after != before
    assert after.digest != before.digest


@pytest.mark.parametrize(
    "command", ["./new.sh", "bash new.sh", "cd sub && ./new.sh", "cat new.sh | bash", "bash n*.sh"]
)
def test_a_file_that_was_not_there_is_another_one(command: str, project: Path) -> None:
    before = compute_binding(command, build_view(project))
    for folder in (project, project / "sub"):
        (folder / "new.sh").write_text("echo planted\n")
    assert compute_binding(command, build_view(project)) != before


def test_a_link_that_leads_elsewhere_is_another_file(project: Path) -> None:
    (project / "link").symlink_to("x.sh")
    before = compute_binding("bash link", build_view(project))
    (project / "other.sh").write_text("echo planted\n")
    (project / "link").unlink()
    (project / "link").symlink_to("other.sh")
    assert compute_binding("bash link", build_view(project)) != before


@pytest.mark.parametrize(
    "command", ["rm f", "cp f y", "echo a > f", "cat f", "mkdir f2", "ls *", "make", "npm test", "mv f y && touch f"]
)
def test_data_of_a_command_that_runs_nothing_is_not_bound(command: str, project: Path) -> None:
    assert compute_binding(command, build_view(project)).scripts == ()


def test_what_a_command_writes_may_change_meanwhile(project: Path) -> None:
    before = compute_binding("./x.sh > f", build_view(project))
    (project / "f").write_text("other\n")
    assert compute_binding("./x.sh > f", build_view(project)) == before


@try_each(
    "command",
    ["make", "npm test", "cargo run", "pytest", "pytest -q x", "sudo make install", "cd sub && npm run build",
     "go test ./...",
     "sh -c 'make'", "python -m pytest", "find . -exec sh {} ;", "bash $X", "docker compose up",
     "bash ${PWD%/*}/x.sh", "npx jest", "tox",
     "$X", "find sub -type f | xargs -n1 bash", "xargs -a list sh", "ls | sudo xargs -n1 timeout 5 python3"],
)  # fmt: skip
def test_where_nothing_can_be_bound_the_ask_says_so(command: str) -> None:
    assert may_change_what_runs(parse_command(command))


@try_each("command", ["./x.sh", "bash x.sh", "rm f", "git commit -m x", "bash $PWD/x.sh", "curl -o f x",
                                     "ls | xargs rm"])  # fmt: skip
def test_where_it_is_bound_the_ask_says_nothing_of_it(command: str) -> None:
    assert not may_change_what_runs(parse_command(command))


def test_a_fifo_and_a_large_file_do_not_hold_it_up(project: Path) -> None:
    os.mkfifo(project / "pipe")
    with (project / "large").open("wb") as file:
        file.truncate(40 * 1024 * 1024 * 1024)
    before = compute_binding("bash pipe large", build_view(project))
    os.utime(project / "large", ns=(1, 1))
    assert compute_binding("bash pipe large", build_view(project)) != before


def test_a_line_with_many_words_is_looked_at_within_bounds(project: Path) -> None:
    line = "bash " + " ".join(f"a{number}/b*" for number in range(4_000))
    binding = compute_binding(line, build_view(project))
    assert len(binding.scripts) <= 200
    assert not binding.complete


def test_a_pattern_that_leads_over_the_whole_disk_is_looked_at_within_bounds(project: Path) -> None:
    began = time.process_time()
    assert not compute_binding("bash /*/*/*/*/*/*/nowhere", build_view(project)).complete
    assert time.process_time() - began < 1
