"""The processes that run the tests: none is left out, none runs twice, and one that dies takes one test with it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_tests(folder: Path, modules: dict[str, str], *options: str) -> str:
    """What pytest prints of these modules, in three processes."""
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in modules.items():
        (folder / f"test_{name}.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "tests.support.workers", "-n3", *options, "."],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.stdout + done.stderr


COUNTED = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(100))
def test_it(number, tmp_path):
    (pathlib.Path(__file__).parent / f"{__name__}-{number}-{os.getpid()}").touch()
    assert tmp_path.is_dir()
"""


def test_each_test_runs_once_and_more_than_one_process_runs_them(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    printed = run_tests(folder, {"a": COUNTED, "b": COUNTED, "c": COUNTED})
    assert "300 passed" in printed
    ran = [path.name.split("-") for path in folder.glob("test_*-*")]
    assert len(ran) == len({(module, number) for module, number, _ in ran}) == 300
    assert len({pid for _, _, pid in ran}) > 1


def test_those_that_stay_together_run_in_one_process(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    run_tests(folder, {"a": COUNTED.replace("def test", "@pytest.mark.one_worker\ndef test"), "b": COUNTED})
    assert len({path.name.split("-")[2] for path in folder.glob("test_a-*")}) == 1


DIES = """
import os, pytest

def test_before(): pass
def test_dies(): os._exit(7)
@pytest.mark.parametrize("number", range(20))
def test_after(number): pass
"""


def test_a_process_that_dies_fails_the_test_that_it_ran_and_no_other(tmp_path: Path) -> None:
    printed = run_tests(tmp_path / "project", {"a": DIES})
    assert "1 failed, 21 passed" in printed
    assert "the process that ran this test ended with 7" in printed
    assert "test_a.py::test_dies" in printed


ALL_KINDS = """
import pytest

@pytest.fixture
def broken(): raise OSError("no such luck")

def test_passes(): print("nobody reads this")
def test_fails(): print("what was printed"); assert 1 == 2
def test_skipped(): pytest.skip("not on a Tuesday")
def test_error(broken): pass
"""


def test_what_a_test_says_of_its_end_reaches_the_terminal(tmp_path: Path) -> None:
    printed = run_tests(tmp_path / "project", {"a": ALL_KINDS}, "-rs")
    assert "1 failed, 1 passed, 1 skipped, 1 error" in printed
    for said in ("assert 1 == 2", "what was printed", "not on a Tuesday", "no such luck"):
        assert said in printed
    assert "nobody reads this" not in printed


@pytest.mark.parametrize("option", ["-x", "--maxfail=1"])
def test_the_first_failure_ends_all_where_that_is_asked_for(tmp_path: Path, option: str) -> None:
    slow = "import signal\n\ndef test_waits():\n    signal.pause()\n"
    printed = run_tests(tmp_path / "project", {"a": slow, "b": "def test_fails(): assert False"}, option)
    assert "1 failed" in printed
    assert "stopping after 1 failures" in printed
