"""What the exit codes of well-known programs mean."""

import shutil

import pytest

from ostler.tools.shell.bash import Bash
from ostler.tools.shell.powershell import PowerShell
from tests.support.tables import try_each
from tests.support.tool_calls import Session

pytestmark = pytest.mark.anyio


BASH, POWERSHELL = Bash(), PowerShell()


# How it ends.


@pytest.mark.parametrize(
    ("command", "meaning"),
    [
        ("echo a | grep b", "no match"),
        ("echo a >f; rg -q b f", "no match"),
        ("echo a >f; echo b >g; diff f g >/dev/null", "the files differ"),
        ("test -e nothing", "the condition is false"),
        ("[ 1 = 2 ]", "the condition is false"),
        ("find nothing 2>/dev/null", "some folders could not be looked into"),
    ],
)
async def test_exit_code_one_of_these_is_no_mistake(session: Session, command: str, meaning: str) -> None:
    if "rg " in command and shutil.which("rg") is None:
        pytest.skip("there is no rg on the PATH")
    result = await session.expect_result(BASH, command=command)
    assert (result.is_error, result.output.exit_code) == (False, 1)
    assert result.output.return_code_interpretation == meaning
    assert BASH.render(result.output)[0]["text"].endswith(f"(exit code 1: {meaning})")


@pytest.mark.parametrize("command", ["grep a nothing", "diff nothing none", "[ 1 -eq x ]"])
async def test_exit_code_two_of_the_same_is_one(session: Session, command: str) -> None:
    result = await session.expect_result(BASH, command=command)
    assert (result.is_error, result.output.exit_code) == (True, 2)
    assert result.output.return_code_interpretation is None


@try_each(
    ("command", "meaning"),
    [
        ("rg needle", "no match"),
        ("Get-Content a.txt | grep needle", "no match"),
        ("Get-Date; diff a b", "the files differ"),
        ("make; false && grep a b", None),
        ("grep a b || false", None),
        ("grep a b; make", None),
        ("grep $pattern b", None),
        ("Select-String a b", None),
    ],
)
def test_powershell_knows_the_same_exit_codes(command: str, meaning: str | None) -> None:
    assert POWERSHELL.explain_exit_code(command) == meaning
