"""The example plug-in, built and installed as anybody would, in a daemon that knows nothing of it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.driver import QUICK_SETTINGS, Harness
from tests.support.messages_api.replies import calls, message
from tests.support.messages_api.server import ScriptedApi
from tests.support.model_replies import DONE
from tests.support.repository import DOCS

EXAMPLE = Path(__file__).parent / "word_count"
PAGE = DOCS / "plug-ins.md"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip put the example."""
    folder = tmp_path_factory.mktemp("plug_in")
    source, target = folder / "source", folder / "installed"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--no-input"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *offline, "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def harness(api: ScriptedApi, installed: Path, tmp_path: Path) -> Iterator[Harness]:
    broken = tmp_path / "broken"
    _lay_out_a_broken_one(broken)
    path = os.pathsep.join([str(installed), str(broken)])
    environment = {**api.environment, **QUICK_SETTINGS, "PYTHONPATH": path}
    with Daemon(tmp_path / "home", environment=environment) as daemon:
        harness = Harness(daemon, api, tmp_path)
        yield harness
        harness.close()


def _lay_out_a_broken_one(folder: Path) -> None:
    info = folder / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ostler.tools]\nmissing = there_is_no_such_module:Tool\n")


def test_it_is_listed_with_its_source(harness: Harness) -> None:
    tools = {tool["name"]: tool for tool in harness.daemon.call("tool/list")["tools"]}
    assert tools["WordCount"]["source"] == "ostler-word-count"
    assert (tools["WordCount"]["enabled"], tools["WordCount"]["read_only"]) == (True, True)
    assert tools["WordCount"]["summary"] == "Counts the words of a file"
    assert list(tools["WordCount"]["input_schema"]["properties"]) == ["file_path"]
    assert tools["Read"]["source"] == "built-in"


def test_its_examples_reach_a_provider_that_takes_them(api: ScriptedApi, installed: Path, tmp_path: Path) -> None:
    extras = {"PYTHONPATH": str(installed), "OSTLER_MODEL__TOOL_EXTRAS": "always"}
    with Daemon(tmp_path / "home", environment={**api.environment, **QUICK_SETTINGS, **extras}) as daemon:
        harness = Harness(daemon, api, tmp_path)
        driver = harness.open_session(DONE)
        driver.run_turn()
        tools = {tool["name"]: tool for tool in driver.requests[0].body["tools"]}
        harness.close()
    assert tools["WordCount"]["strict"] is True
    assert tools["WordCount"]["input_examples"] == [{"file_path": "/home/me/essay.txt"}]


def test_a_broken_one_does_not_stop_the_daemon_and_is_reported(harness: Harness) -> None:
    assert "WordCount" in {tool["name"] for tool in harness.daemon.call("tool/list")["tools"]}
    logged = harness.daemon.stderr + "".join(path.read_text() for path in harness.daemon.home.rglob("*.log"))
    assert "tool_left_out" in logged
    assert "The plug-in missing of broken could not be loaded: ModuleNotFoundError" in logged


def test_it_says_nothing_about_permission_so_a_person_is_asked(harness: Harness) -> None:
    driver = harness.open_session()
    path = driver.write_file("a.txt", "one two\nthree\n")
    harness.api.script(driver.name, message(calls("WordCount", {"file_path": path})), DONE)
    driver.start()
    ask = driver.wait_for_ask()
    assert ask["call"]["tool"] == "WordCount"
    assert ask["call"]["summary"] == f"Count the words of {path}"
    driver.answer(ask, "allow")
    driver.wait_for_turn_end()
    assert driver.fetch_result_texts() == ["2 lines, 3 words, 14 characters"]
    call = driver.list_event_data("tool.completed")[0]["call"]
    assert call["output"] == {"lines": 2, "words": 3, "characters": 14}
    assert call["decision"]["by"] == "person"


def test_the_model_is_told_of_it_after_the_built_in_ones(harness: Harness) -> None:
    driver = harness.open_session(DONE)
    driver.run_turn()
    sent = driver.requests[0].body["tools"]
    assert sent[-1]["name"] == "WordCount"
    assert sent[-1]["description"] == (EXAMPLE / "ostler_word_count" / "word_count.md").read_text().strip()


def test_its_input_errors_and_its_rules_go_through_the_pipeline(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["WordCount"]})
    wrong = calls("WordCount", {"path": "/a"})
    relative = calls("WordCount", {"file_path": "a.txt"})
    missing = calls("WordCount", {"file_path": str(driver.folder / "none")})
    harness.api.script(driver.name, message(wrong, relative, missing), DONE)
    driver.run_turn()
    schema, validated, ran = driver.fetch_result_texts()
    assert "`file_path` is missing, and it is required" in schema
    assert "is relative" in validated
    assert ran == f"<tool_use_error>{driver.folder}/none cannot be read: No such file or directory.</tool_use_error>"


def test_rules_with_a_content_are_matched_with_the_path_that_it_is_given(harness: Harness) -> None:
    rules = {"allow": ["WordCount(open/**)"], "ask": ["WordCount(odd/**)"], "deny": ["WordCount(secret/**)"]}
    driver = harness.open_session(rules=rules)
    folders = ("secret", "open", "odd", "other")
    for folder in folders:
        (driver.folder / folder).mkdir()
    paths = [driver.write_file(f"{folder}/a.txt", "one\n") for folder in folders]
    counts = [calls("WordCount", {"file_path": path}) for path in paths]
    harness.api.script(driver.name, *(message(each) for each in counts), DONE)
    driver.start()
    for path in paths[2:]:
        ask = driver.wait_for_ask()
        assert ask["call"]["input"] == {"file_path": path}
        driver.answer(ask, "allow")
    driver.wait_for_turn_end()
    decisions = [data["call"]["decision"] for data in driver.list_event_data("tool.completed")]
    assert [(one["behavior"], one["by"]) for one in decisions] == [
        ("deny", "rule"), ("allow", "rule"), ("allow", "person"), ("allow", "person"),
    ]  # fmt: skip


@pytest.mark.without_daemon
def test_the_page_shows_the_example_as_it_is() -> None:
    page = PAGE.read_text()
    for name in ("pyproject.toml", "ostler_word_count/word_count.py", "ostler_word_count/word_count.md"):
        assert (EXAMPLE / name).read_text().strip() in page, name
