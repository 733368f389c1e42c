"""What helps: `--help`, also in a narrow terminal, and what a mistake or a refusal says to do."""

import re
import shlex
from pathlib import Path

import pytest

from tests.clients.conftest import Cli
from tests.support.repository import DOCS

NARROW = 50


@pytest.mark.parametrize(
    "command",
    [["run"], ["chat"], ["answer"], ["rules", "add"], ["export"], ["delete"], ["completion"], ["trust", "grant"]],
)
def test_help_breaks_no_word_in_a_narrow_terminal(cli: Cli, command: list[str]) -> None:
    wide = cli.run(*command, "--help", COLUMNS="80").out
    narrow = cli.run(*command, "--help", COLUMNS=str(NARROW)).out
    assert set(narrow.split()) <= set(wide.split())
    assert max(map(len, narrow.splitlines())) <= NARROW


def test_what_has_to_be_given_stands_in_the_usage_as_it_is_called(cli: Cli) -> None:
    def usage(*command: str) -> str:
        return cli.run(*command, "--help").out.splitlines()[0]

    assert usage("run") == "Usage: ostler run [OPTIONS] PROMPT"
    assert usage("answer") == "Usage: ostler answer [OPTIONS] ID ANSWER..."
    assert usage("delete") == "Usage: ostler delete [OPTIONS] ID..."
    assert usage("attach") == "Usage: ostler attach [OPTIONS] [ID]"
    assert usage("rules", "add") == "Usage: ostler rules add [OPTIONS] <allow|ask|deny> RULE"


def test_values_that_do_not_fit_are_listed_all_the_same(cli: Cli) -> None:
    shown = " ".join(cli.run("answer", "--help").out.split())
    assert "(allow, allow_always, deny, deny_always, answer, decline, approve, reject, accept, cancel, trust," in shown
    assert "--scope SCOPE How far the rule reaches (session, local, project, user)." in shown


def test_help_of_run_lists_its_exit_codes_in_the_order_of_the_documentation(cli: Cli) -> None:
    listed = re.findall(r"^  (\d+)  +\w", cli.run("run", "--help").out, re.MULTILINE)
    page = (DOCS / "cli.md").read_text().partition("| exit code | the turn |")[2].partition("\n\n")[0]
    assert listed == re.findall(r"^\| (\d+) \|", page, re.MULTILINE)


def test_a_refused_call_names_the_option_that_would_let_it_pass(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("run", "run touch 'a b'", cwd=project)
    assert ran.code == 5
    option = ran.err.rpartition("To let it pass: ")[2].strip()
    assert rehearsal_cli.run("run", "run touch 'a b'", *shlex.split(option), cwd=project).code == 0
    assert (project / "a b").exists()


def test_a_prompt_that_comes_by_a_pipe_without_a_dash_is_told_what_to_do(rehearsal_cli: Cli, project: Path) -> None:
    ran = rehearsal_cli.run("run", cwd=project, typed="read README.md")
    assert (ran.code, ran.out) == (2, "")
    assert "With `-` it is read from stdin: `… | ostler run -`." in ran.err
    assert rehearsal_cli.run("run", "-", cwd=project, typed="read README.md").code == 0
