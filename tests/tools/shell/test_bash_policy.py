"""What the check of a command says: guarded files by whatever way they are written, roots, the mode acceptEdits."""

from pathlib import Path

import pytest

from ostler.protocol.ids import SessionId
from ostler.protocol.session import Mode
from ostler.tools.context import SessionView
from ostler.tools.shell.bash_policy import judge
from ostler.tools.tool import Allow, AskFirst
from ostler.tools.tool_config import SandboxSettings, Support, ToolConfig
from tests.support.tables import try_each


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    for name in (
        "tmpl/settings.json", "tmpl/.envrc", "tmpl/hooks/h", "src/victim", "f", "g", "dir/x",
        "pkg/node_modules/a/.npmrc",
        "cfg/ostler/settings.json", "dotgit/config", ".claude/keep",
    ):  # fmt: skip
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("x")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "victim").write_text("old")
    (place / "sub").mkdir()
    (place / "sub" / "victim").symlink_to(tmp_path / "outside" / "victim")
    (place / "away").symlink_to(tmp_path / "outside")
    return place


def build_view(project: Path, mode: Mode = "acceptEdits", sandboxing: SandboxSettings | None = None) -> SessionView:
    home = str(project.parent / "daemon")
    roots = (str(project),)
    config = ToolConfig(sandbox=sandboxing)
    return SessionView(SessionId("s_1"), str(project), str(project), roots, mode, config, home=home)


GUARDED = [
    "cp tmpl/settings.json .claude", "cp tmpl/settings.json .claude/", "cp -t .claude tmpl/settings.json",
    "cp tmpl/.envrc .",
    "cp tmpl/.envrc ./", "cp -t . tmpl/.envrc", "cp -t. tmpl/.envrc", "cp -vt . tmpl/.envrc",
    "cp --target-directory=. tmpl/.envrc", "cp --targ=. tmpl/.envrc", "mv tmpl .claude", "mv tmpl .ostler",
    "mv dotgit .git", "mv -T dotgit .git", "mv cfg .config", "cp -r cfg .config", "cp -r tmpl .claude",
    "cp -r tmpl/. .claude", "cp -a tmpl/. .",
    "cp tmpl/* .claude", "cp tmpl/.e* .", "cp tmpl/{.envrc,settings.json} .", "mv f .envrc", "mv -t .claude/hooks f",
    "mv .claude/hooks elsewhere",
    "install tmpl/.envrc .", "install -m 755 f .git/hooks/pre-commit", "install -D f .husky/pre-commit",
    "install -d .git", "rsync tmpl/.envrc .",
    "rsync -a tmpl/ .", "rsync -a tmpl/ .claude", "rsync -a cfg/ .config", "ln -s ../x .git/hooks", "ln -s f .envrc",
    "ln -sf f .envrc", "ln -s tmpl/.envrc", "ln -st . tmpl/.envrc",
    "ln f .bashrc", "link f .envrc", "cp f .ENVRC", "cp f .Git/config", "cd tmpl && cp .envrc ..",
    "cd dir; cp ../f .envrc", "cd .. && mv project/f project/.envrc",
    "mkdir .vscode", "touch .envrc", "tee .envrc", "echo x > .envrc", "echo x >> .claude/settings.json",
    "dd if=f of=.envrc", "sed -i s/a/b/ .claude/settings.json",
    "sort -o .envrc f", "truncate -s 0 .envrc", "rm -r .claude/settings.json", "rm -r .git",
    "find tmpl -name '.e*' -exec cp {} . \\;",
    "mv tmpl x; cp x/.envrc .", "ln -s .git g2; cp f g2/config", "ln -s . d; cp f d/.envrc", "mkdir .git",
    "mkdir -p .git/hooks", "gunzip .envrc.gz",
    "cp f f2 && mv f2 .envrc", "env cp tmpl/.envrc .", "nice -n 5 cp tmpl/.envrc .", "sh -c 'cp tmpl/.envrc .'",
    "xargs -I{} cp tmpl/.envrc . <f", "tar cf .envrc f",
    "cp --parents tmpl/.envrc dir; cp -r dir/tmpl/. .", "curl -o .envrc x", "wget -O .envrc x",
    "chmod +x .git/hooks/x", "split f .envrc", "cp --odd tmpl/.envrc .", "mv --odd=x f .envrc",
    # A folder that is not there yet gets no base name, whatever follows its own.
    "mv cfg/ostler .ostler/", "cp -r cfg/ostler .ostler/", "cp -r cfg/ostler .ostler//", "git mv cfg/ostler .ostler/",
    "mv cfg/ostler/ .ostler/", "cd src || cd dir; mv ../cfg/ostler ../.ostler",
]  # fmt: skip


@try_each("mode", ["acceptEdits", "bypassPermissions"])
@try_each("command", GUARDED)
def test_a_guarded_file_is_asked_about_however_a_command_writes_it(project: Path, command: str, mode: Mode) -> None:
    check = judge(command, build_view(project, mode)).check
    assert isinstance(check, AskFirst)
    assert check.safety, check.reason


@try_each(
    "command",
    [
        "cp src/victim sub", "cp src/victim sub/", "cp -t sub src/victim", "cp src/victim sub/victim",
        "mv src/victim sub", "cp f away",
        "mv f away", "cp f away/x", "touch away/x", "cp /etc/passwd .", "cp f ..", "mv f ../x", "cd .. && touch x",
        "cp away/victim .",
        "cp -r src/. sub", "rm sub/victim/../../../x", "mkdir ../x", "cp f ~/x", "sed -i s/a/b/ away/victim",
        "cp -T f ../x",
    ],
)  # fmt: skip
def test_accept_edits_lets_no_command_write_or_read_outside_the_roots(project: Path, command: str) -> None:
    assert isinstance(judge(command, build_view(project)).check, AskFirst)


@pytest.mark.parametrize(
    "command",
    ["cp f new", "cp f dir", "mv f dir", "mv dir new", "mkdir -p a/b", "touch new", "rm f", "rmdir none",
     "mkdir a && cp f a/",
     "mv f f2", "cp f dir/y", "rm -f g", "cp -n f dir/"],
)  # fmt: skip
def test_accept_edits_lets_simple_file_commands_pass_inside_the_roots(project: Path, command: str) -> None:
    judged = judge(command, build_view(project))
    assert judged.check == Allow()
    assert judged.only_edits


@pytest.mark.parametrize(
    "command", ["touch dir/new && cat dir/*", "cp f dir/new && wc -l dir/*", "mkdir dir/a; ls ./d*"]
)
def test_accept_edits_lets_simple_file_commands_pass_only_where_every_effect_is_known(
    project: Path, command: str
) -> None:
    judged = judge(command, build_view(project))
    assert judged.subject.unknown is not None
    assert isinstance(judged.check, AskFirst)


def test_deleting_what_a_package_manager_put_there_is_not_guarded(project: Path) -> None:
    check = judge("rm -rf pkg/node_modules", build_view(project, "bypassPermissions")).check
    assert isinstance(check, AskFirst)
    assert not check.safety


def test_moving_what_a_package_brought_to_where_it_acts_is_guarded(project: Path) -> None:
    check = judge("mv pkg/node_modules/a/.npmrc .", build_view(project, "bypassPermissions")).check
    assert isinstance(check, AskFirst)
    assert check.safety


@pytest.mark.parametrize(
    "command",
    ["grep -r token ..", "rg token ..", "find .. -type f", "tar cf - ..", "cp -r .. x", "du -a ..", "ls -R .."],
)
def test_a_search_from_above_the_daemons_folder_is_asked_in_every_mode(project: Path, command: str) -> None:
    (project.parent / "daemon").mkdir()
    check = judge(command, build_view(project, "bypassPermissions")).check
    assert isinstance(check, AskFirst)
    assert check.safety


def test_where_the_sandbox_covers_the_daemons_folder_a_search_above_it_only_reads(project: Path) -> None:
    (project / "daemon").mkdir()
    working = SandboxSettings("auto", lambda: Support(works=True, reason="", bwrap="/usr/bin/bwrap"))
    view = SessionView(
        SessionId("s_1"),
        str(project),
        str(project),
        (str(project),),
        "default",
        ToolConfig(sandbox=working),
        home=str(project / "daemon"),
    )
    assert judge("grep -r token .", view).check == Allow()
    check = judge("cp -r . ../x", view).check
    assert isinstance(check, AskFirst)
    assert check.safety


def test_accept_edits_asks_where_a_protected_name_is_a_link(project: Path) -> None:
    (project / ".envrc").symlink_to(project / "f")
    working = SandboxSettings("auto", lambda: Support(works=True, reason="", bwrap="/usr/bin/bwrap"))
    check = judge("cp f new", build_view(project, sandboxing=working)).check
    assert isinstance(check, AskFirst)
    assert "is a link" in check.reason
    assert not check.safety


@pytest.mark.parametrize(
    "command", ["cp f new; git status", "mkdir d && git -C . log", "cp f new; find . -exec cat {} +"]
)
def test_an_edit_beside_what_only_reads_after_a_look_at_the_disk_is_asked_about(project: Path, command: str) -> None:
    # It would run without git's guard, and through links that nobody looked at.
    assert not isinstance(judge(command, build_view(project)).check, Allow)


@pytest.mark.parametrize("padding", ["ln -s a{} b{}", "mv a{} b{}", "cp a{} b"])
def test_no_padding_hides_what_a_line_writes_through_a_link_of_its_own(padding: str, tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / "x").touch()
    padded = "; ".join(padding.format(number, number) for number in range(120))
    view = SessionView(
        SessionId("s_1"), str(tmp_path), str(tmp_path), (str(tmp_path),), "bypassPermissions", home=f"{tmp_path}-daemon"
    )
    check = judge(f"{padded}; ln -s .claude z; cp x z/settings.json", view).check
    assert isinstance(check, AskFirst)
    assert check.safety, "it is asked about in bypass mode, too"
