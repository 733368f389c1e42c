"""Patterns of commands that only read: expanded by us, judged by what they find, and what runs is the expansion."""

from dataclasses import replace
from pathlib import Path

import pytest

from ostler.protocol.ids import SessionId
from ostler.protocol.session import Mode
from ostler.tools.call_subject import find_subject
from ostler.tools.context import SessionView
from ostler.tools.permissions.subject import CommandSubject
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.bash_policy import build_read_check, judge, judge_nowait, parse_command
from ostler.tools.shell.result import ShellOutput
from ostler.tools.tool import Allow, AskFirst, Failure, ToolResult
from tests.support.tables import try_each
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    for name in ("a.md", "b.md", "m.py", "n.py", "src/x.c", "src/y.c", "sp/a b.md", ".hidden.md", "d/e/f.txt"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"content of {name}\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_text("secret\n")
    (place / "links").mkdir()
    (place / "links" / "link").symlink_to(tmp_path / "outside" / "secret.md")
    (place / "links" / "away").symlink_to(tmp_path / "outside")
    (place / "links" / "inside").symlink_to(place / "a.md")
    return place


def build_view(project: Path, mode: Mode = "default") -> SessionView:
    home = str(project.parent / "daemon")
    return SessionView(SessionId("s_1"), str(project), str(project), (str(project),), mode, home=home)


EVERYDAY = [
    "ls *.md", "wc -l *.py", "grep foo *.py", "du -sh *.md", "cat src/*.c", "rg foo *.py", "ls *", "ls -d */", "echo *",
    "head -5 *.md", "cat ./*.md", "ls -la src/* | head", "find src/* -type f", "find . -name *.zzz",
    "cd src && cat *.c",
    "file *.py",
    "md5sum [a-b].md", "ls no-such-*", "stat src/?.c", "diff a.md b*", "cat sp/*", "ls .*", "cat links/ins*",
    "grep -rn foo s*", "tail -n 3 *.md; wc -l *.py", "grep -r --include=*.py foo .", "git diff -- *.py",
    "test -f *.zzz",
    "ls 2>/dev/null *.md", "echo 'a b'*", "ls *.md # all of them", "ls \\\n *.md",
]  # fmt: skip


@try_each("command", EVERYDAY)
def test_a_pattern_that_finds_files_inside_the_roots_needs_no_question(project: Path, command: str) -> None:
    judged = judge(command, build_view(project))
    assert judged.check == Allow(), judged.check


OUTSIDE = [
    "cat links/*", "cat links/l*", "cat links/l[i]nk", "cat links/[[:alpha:]]ink", "cat links/[[=l=]]ink",
    "cat links/[!a]ink",
    "cat links/?ink", "cat */link", "cat links/*/secret.md", "ls links/a*/", "cat ../*", "cat ../outside/*",
    "ls /et[c]",
    "cat /etc/pass*", "cat links/away/*", "cat */away/*.md", "head l*/l*", "grep -r x links/*", "cat d/../../outside/*",
    "cat d/e*/../../../outside/secret.md", "wc -l l*/*", "echo ../*", "cat {links,x}/*", "cat links/**", "cat **/link",
    "cd links && cat *", "cd l* && cat link", "cd links; cat l*", "ls $x*", "cat ~/*", "cat links/[l-l]ink*",
]  # fmt: skip


@try_each("command", OUTSIDE)
def test_a_match_that_leads_out_of_the_roots_asks(project: Path, command: str) -> None:
    assert isinstance(judge(command, build_view(project)).check, AskFirst)


@pytest.mark.parametrize("name", ["-rf", "--pre=bash", "--output=x", "-", "+x", "new\nline", "\udcff"])
def test_a_match_that_looks_like_an_option_or_cannot_be_shown_asks(project: Path, name: str) -> None:
    (project / name).touch()
    for command in ("ls *", "rg foo *", "cat *", "echo *", "ls -- *", "wc -l ?*"):
        assert isinstance(judge(command, build_view(project)).check, AskFirst), command
    assert judge("ls *.md", build_view(project)).check == Allow()


def test_more_than_a_thousand_matches_ask(project: Path) -> None:
    (project / "many").mkdir()
    for number in range(1_001):
        (project / "many" / f"f{number:04}").symlink_to(project / "a.md")
    view = build_view(project)
    assert isinstance(judge("cat many/*", view).check, AskFirst)
    assert isinstance(judge("cat many/f0* many/f[01]*", view).check, AskFirst)
    assert judge("cat many/f00*", view).check == Allow()


@pytest.mark.parametrize(
    "command",
    ["uniq [ab].md", "xxd [ab].md", "sort -o *", "head -n *.md", "find . -name *.md", "tr * *.md", "tree -o *"],
)
def test_what_a_pattern_becomes_is_judged_as_if_it_were_written(project: Path, command: str) -> None:
    assert isinstance(judge(command, build_view(project)).check, AskFirst)


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("ls *.md", "ls a.md b.md"), ("cat sp/*", "cat 'sp/a b.md'"), ("ls no-*", "ls 'no-*'"),
        ("echo '*' \\* *.py", "echo '*' '*' m.py n.py"), ("cd src && cat *.c", "cd src && cat x.c y.c"),
        ("ls *.md; ls *.py # *", "ls a.md b.md; ls m.py n.py # *"), ("ls [ab].md 2>/dev/null|wc -l",
        "ls a.md b.md 2>/dev/null|wc -l"),
        ("echo {x} a", "echo '{x}' a"), ("ls", "ls"), ("grep 'a b' *.md", "grep 'a b' a.md b.md"),
        ("ls *.md\nls *.py", "ls a.md b.md\nls m.py n.py"), ("echo a\\ b", "echo 'a b'"), ("echo ''", "echo ''"),
    ],
)  # fmt: skip
def test_what_runs_has_nothing_left_to_expand(project: Path, command: str, runs: str) -> None:
    judged = judge(command, build_view(project))
    assert judged.literal_command == runs
    assert judged.subject.parsed.command == command, "rules see the text as it is written"


def test_a_number_that_was_found_is_no_descriptor(project: Path) -> None:
    (project / "12").touch()
    assert judge("ls 1*>&1", build_view(project)).literal_command == "ls '12'>&1"


def test_patterns_need_the_disk(project: Path) -> None:
    assert judge_nowait("echo *", build_view(project), lambda path: path) is None


@pytest.mark.parametrize("command", ["rg foo *", "cat *.md", "ls -*", "cat a/*/../../x", "ls +*"])
def test_beside_a_part_that_a_rule_allows_the_shell_expands_so_what_may_become_an_option_asks(
    project: Path, command: str
) -> None:
    reads = build_read_check(build_view(project))
    assert not reads(parse_command(command).parts[0])
    assert reads(parse_command("cat ./*.md").parts[0])
    edits = judge(f"touch ./--pre=x && {command}", build_view(project, "acceptEdits"))
    assert isinstance(edits.check, AskFirst)


def test_a_folder_that_is_lost_track_of_asks(project: Path) -> None:
    for name in "pqrst":
        (project / name).mkdir()
    command = "; ".join(f"cd {name}" for name in "pqrst") + "; cat ../x"
    assert isinstance(judge(command, build_view(project)).check, AskFirst)


# With the real shell.


async def run_judged(session: Session, tool: Bash, command: str) -> ToolResult[ShellOutput] | Failure:
    """Checks the permission, and runs it as what only reads."""
    context = replace(session.make_context(), only_reads=True, allowed_by_check=True, allowed_by_text=True)
    given = tool.parse({"command": command})
    assert await tool.check_permission(given, context) == Allow()
    (session.folder / "planted.md").write_text("PLANTED\n")
    (session.folder / "-n").touch()
    return await tool.run(given, context)


async def test_what_was_planted_between_check_and_run_is_not_seen(session: Session) -> None:
    (session.folder / "a b.md").write_text("one\n")
    (session.folder / "$(touch pwned)`id`;'.md").write_text("two\n")
    result = await run_judged(session, Bash(), "cat *.md")
    assert isinstance(result, ToolResult)
    assert result.output.stdout == "two\none\n"
    assert not (session.folder / "pwned").exists()


async def test_a_pattern_that_found_nothing_stays_as_it_is(session: Session) -> None:
    result = await run_judged(session, Bash(), "echo *.md '*' [a-z].md")
    assert isinstance(result, ToolResult)
    assert result.output.stdout == "*.md * [a-z].md\n"


async def test_after_a_restart_the_patterns_are_judged_again(session: Session) -> None:
    (session.folder / "a.md").write_text("one\n")
    context = replace(session.make_context(), only_reads=True, allowed_by_check=True, allowed_by_text=True)
    given = Bash().parse({"command": "cat *.md"})
    result = await Bash().run(given, context)
    assert isinstance(result, ToolResult)
    assert result.output.stdout == "one\n"
    (session.folder / "out.md").symlink_to("/etc/hostname")
    assert isinstance(await Bash().run(given, context), Failure)


async def test_what_only_reads_is_never_expanded_by_the_shell(session: Session) -> None:
    (session.folder / "a.md").touch()
    context = replace(session.make_context(), only_reads=True)
    result = await session.call(Bash(), {"command": "echo * {a..c} ?.md"}, context)
    assert isinstance(result, ToolResult)
    assert result.output.stdout == "* {a..c} ?.md\n"


async def test_rules_are_matched_with_the_names_that_were_found(session: Session) -> None:
    tool, context = Bash(), session.make_context()
    (session.folder / "a.md").touch()
    given = tool.parse({"command": "cat *.md"})
    assert await tool.check_permission(given, context) == Allow()
    (session.folder / "b.md").touch()
    subject = await find_subject(tool, given, context.session)
    assert isinstance(subject, CommandSubject)
    assert [Path(place.written).name for place in subject.paths] == ["a.md"]
    assert not any(place.deep for place in subject.paths)
    assert subject.parsed.command == "cat *.md"
