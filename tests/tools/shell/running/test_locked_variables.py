"""What a rule or the check allowed by its text runs with PATH, IFS, BASH_ENV and ENV as they are, whatever it does."""

from dataclasses import replace
from pathlib import Path

import pytest

from ostler.tools.shell.bash import Bash
from ostler.tools.shell.bash_policy import judge
from ostler.tools.tool import Allow, ToolResult
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio
BASH = Bash()

PATH_SETTERS = [
    "echo {PATH}>/dev/null", "exec {PATH}>/dev/null", "read PATH <<<bin", "printf -v PATH bin", "mapfile PATH <<<bin",
    "declare -g PATH=bin", "export PATH=bin", "getopts b PATH -b", "((PATH=11))", "let PATH=11", ": $((PATH=11))",
    "for PATH in bin; do :; done", "unset PATH", "PATH=bin", "eval PATH=bin", "wait -n -p PATH",
    "declare -n p=PATH; p=bin",
    "printf -v 'PATH[0]' bin", "set -k", "coproc PATH { :; }", "readonly -p >/dev/null", "typeset +r PATH",
    "declare +r PATH",
]  # fmt: skip


def plant(folder: Path, name: str) -> None:
    """A program of the repository, in folders that are named like a descriptor, too."""
    for place in ("bin", "10", "11", "12"):
        (folder / place).mkdir(exist_ok=True)
        (folder / place / name).write_text("#!/bin/sh\necho PLANTED\n")
        (folder / place / name).chmod(0o755)


async def run(session: Session, command: str, *, by_text: bool = True, only_reads: bool = False) -> str:
    context = replace(session.make_context(), allowed_by_text=by_text, only_reads=only_reads)
    result = await session.call(BASH, {"command": command}, context)
    assert isinstance(result, ToolResult)
    return f"{result.output.stdout}{result.output.stderr}"


async def test_no_program_of_the_repository_runs_in_place_of_another(session: Session) -> None:
    plant(session.folder, "uname")
    for setter in PATH_SETTERS:
        for only_reads in (False, True):
            assert "PLANTED" not in await run(session, f"{setter}\nuname", only_reads=only_reads), setter


async def test_without_the_locks_it_would(session: Session) -> None:
    plant(session.folder, "uname")
    assert "PLANTED" in await run(session, "echo {PATH}>/dev/null\nuname", by_text=False)


async def test_no_start_up_file_of_the_repository_is_read_by_a_shell_inside(session: Session) -> None:
    (session.folder / "evil").write_text("echo PLANTED\n")
    for setter in ("export BASH_ENV=./evil", "export ENV=./evil", "read BASH_ENV <<<./evil; export BASH_ENV"):
        assert "PLANTED" not in await run(session, f"{setter}\nbash -c :; sh -c :")
    assert "PLANTED" in await run(session, "export BASH_ENV=./evil\nbash -c :", by_text=False)


async def test_what_only_reads_prints_nobodys_secrets_where_there_is_no_sandbox(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert session.make_context().session.config.sandbox is None
    monkeypatch.setenv("GITHUB_TOKEN", "of-the-machine")
    monkeypatch.setenv("PLAIN", "shown")
    session.change_view(environment={"AWS_SECRET_ACCESS_KEY": "of-the-session", "DB": "postgres://me:hidden@h/x"})
    shown = await run(session, "env", only_reads=True)
    assert "PLAIN=shown" in shown
    assert not any(secret in shown for secret in ("of-the-machine", "of-the-session", "hidden"))
    assert "of-the-session" in await run(session, "env")


async def test_here_documents_and_groups_run_as_they_were_judged(session: Session) -> None:
    (session.folder / "sub").mkdir()
    (session.folder / "sub" / "a b.py").write_text("")
    view = session.make_context().session
    for command, shown in (
        ("cat <<'E' | wc -l\n$x\n`y`\nE", "2"),
        ("(cd sub && ls *.py); pwd", f"a b.py\n{session.folder}"),
        ("tr a-z A-Z <<-E && ls\n\ta 'b'\n\tE\necho 'c  d'", "A 'B'\nsub\nc  d"),
    ):
        judged = judge(command, view)
        assert isinstance(judged.check, Allow)
        assert judged.literal_command is not None
        for line in (command, judged.literal_command):
            assert (await run(session, line, only_reads=True)).strip() == shown


async def test_words_are_split_as_before(session: Session) -> None:
    shown = await run(session, "read IFS <<<x\nprintf -v IFS x\ny='axb c'; printf '<%s>' $y")
    assert "<axb><c>" in shown


async def test_the_folders_that_cd_looks_into_are_not_taken_from_a_variable(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "other" / "sub").mkdir(parents=True)
    (session.folder / "sub").mkdir()
    monkeypatch.setenv("CDPATH", str(tmp_path / "other"))
    assert (await run(session, "cd sub && pwd")).strip() == str(session.folder / "sub")


async def test_what_only_reads_runs_the_program_that_was_found_outside_the_roots(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(session.folder, "uname")
    monkeypatch.setenv("PATH", f"{session.folder}/bin:bin:/usr/bin:/bin")
    assert "PLANTED" not in await run(session, "uname", only_reads=True)
    assert "PLANTED" in await run(session, "uname")


async def test_what_only_reads_runs_no_program_to_which_a_link_outside_the_roots_leads(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(session.folder, "uname")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "uname").symlink_to(session.folder / "bin" / "uname")
    monkeypatch.setenv("PATH", f"{tmp_path}/outside:/usr/bin:/bin")
    assert "PLANTED" not in await run(session, "uname", only_reads=True)
    assert "PLANTED" in await run(session, "uname")
