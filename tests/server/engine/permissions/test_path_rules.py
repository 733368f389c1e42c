"""Rules about paths: as they are written, as they really are, and what searches leave out."""

from pathlib import Path

import pytest

from tests.support.driver import Harness, Json, SessionDriver
from tests.support.messages_api.replies import calls
from tests.support.model_replies import read, write
from tests.support.projects import (
    OSTLER_SETTINGS,
    build_rules,
    explain_rule,
    get_last_decision,
    get_last_output,
    list_decisions,
    make_project,
    open_session_with_calls,
    run_calls,
)

SECRET = "a secret word"


def make_project_with_secrets(harness: Harness, *denied: str, behavior: str = "deny") -> Path:
    """A project with open files and secret ones, and rules about reading them."""
    folder = make_project(harness, {OSTLER_SETTINGS: build_rules(**{behavior: list(denied or ["Read(./secrets/**)"])})})
    (folder / "secrets" / "deep").mkdir(parents=True)
    for name in ("secrets/x", "secrets/deep/y", "open"):
        (folder / name).write_text(f"{SECRET}\n")
    (folder / "link").symlink_to("secrets/x")
    (folder / "linked").symlink_to("secrets")
    return folder


def run_search(harness: Harness, folder: Path, tool: str, **given: object) -> SessionDriver:
    return run_calls(harness, calls(tool, given), folder=folder)


@pytest.mark.parametrize("name", ["secrets/x", "secrets/../secrets/x", "link", "linked/x", "linked/deep/y"])
def test_read_does_not_open_what_a_rule_denies_by_any_name(harness: Harness, name: str) -> None:
    folder = make_project_with_secrets(harness)
    driver = run_calls(harness, read(folder / name), folder=folder)
    assert list_decisions(driver) == [("deny", "rule")]
    assert SECRET not in driver.fetch_result_texts()[0]


def test_a_link_to_a_denied_file_is_denied_by_a_rule_about_either_name(harness: Harness) -> None:
    folder = make_project_with_secrets(harness, "Read(link)")
    driver = run_calls(harness, read(folder / "link"), read(folder / "open"), folder=folder)
    assert list_decisions(driver) == [("deny", "rule"), ("allow", "read_only")]


def test_an_allow_rule_must_cover_the_link_and_where_it_leads(harness: Harness) -> None:
    outside = harness.folder / "outside-of-everything"
    outside.mkdir(exist_ok=True)
    (outside / "x").write_text("x\n")
    folder = make_project(harness)
    (folder / "link").symlink_to(outside / "x")
    driver = harness.open_session(folder=folder, rules={"allow": ["Read(link)"]})
    assert explain_rule(harness.daemon, driver.id, "Read", file_path=str(folder / "link"))["behavior"] == "ask"
    both = harness.open_session(folder=folder, rules={"allow": ["Read(link)", f"Read(/{outside}/x)"]})
    assert explain_rule(harness.daemon, both.id, "Read", file_path=str(outside / "x"))["behavior"] == "allow"


def test_creating_is_editing(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: build_rules(deny=["Edit(kept/**)"])})
    (folder / "kept").mkdir()
    driver = run_calls(harness, write(folder / "kept" / "new"), folder=folder, mode="acceptEdits")
    assert get_last_decision(driver)["rule"] == "Edit(kept/**)"
    assert not (folder / "kept" / "new").exists()


def test_an_edit_rule_allows_edit_and_write_inside_it_alone(harness: Harness) -> None:
    folder = make_project(harness)
    (folder / "src").mkdir()
    driver = run_calls(
        harness, write(folder / "src" / "a"), write(folder / "b"), folder=folder, rules={"allow": ["Edit(src/**)"]}
    )
    assert list_decisions(driver) == [("allow", "rule"), ("deny", "on_ask")]


def test_a_link_planted_in_an_allowed_folder_does_not_lead_a_write_out(harness: Harness) -> None:
    folder = make_project(harness)
    (folder / "src").mkdir()
    (folder / "precious").write_text("old\n")
    (folder / "src" / "a").symlink_to("../precious")
    driver = run_calls(harness, write(folder / "src" / "a"), folder=folder, rules={"allow": ["Edit(src/**)"]})
    assert driver.fetch_results()[0]["is_error"]
    assert (folder / "precious").read_text() == "old\n"


@pytest.mark.parametrize(
    ("rule", "denied"),
    [
        ("Read(//{folder}/secrets/x)", True),
        ("Read(/secrets/x)", True),
        ("Read(./secrets/x)", True),
        ("Read(x)", True),
        ("Read(*.txt)", False),
        ("Read(~/secrets/x)", False),
    ],
)
def test_where_a_pattern_starts_is_said_by_its_first_characters(harness: Harness, rule: str, denied: bool) -> None:
    folder = make_project(harness)
    text = rule.replace("/{folder}", str(folder))
    folder = make_project_with_secrets(harness, text) if "{folder}" not in rule else folder
    (folder / "secrets").mkdir(exist_ok=True)
    (folder / "secrets" / "x").write_text("x\n")
    driver = harness.open_session(folder=folder, rules={"deny": [text]})
    found = explain_rule(harness.daemon, driver.id, "Read", file_path=str(folder / "secrets" / "x"))
    assert (found["behavior"] == "deny") == denied


# Searches.


@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
@pytest.mark.parametrize("behavior", ["deny", "ask"])
def test_grep_leaves_out_what_rules_keep_from_being_read(harness: Harness, mode: str, behavior: str) -> None:
    folder = make_project_with_secrets(harness, behavior=behavior)
    driver = run_search(harness, folder, "Grep", pattern="secret word", output_mode=mode)
    assert list_decisions(driver) == [("allow", "read_only")]
    assert get_last_output(driver)["filenames"] == ["open"]
    assert "secrets" not in driver.fetch_result_texts()[0]


def test_glob_leaves_out_what_rules_keep_from_being_read(harness: Harness) -> None:
    folder = make_project_with_secrets(harness)
    driver = run_search(harness, folder, "Glob", pattern="**/[xyo]*")
    assert get_last_output(driver)["filenames"] == ["open"]


@pytest.mark.parametrize(
    ("tool", "given"),
    [("Grep", {"pattern": "secret", "head_limit": 1, "output_mode": "content"}), ("Glob", {"pattern": "**/*.txt"})],
)
def test_what_is_left_out_takes_no_place_from_what_is_shown(harness: Harness, tool: str, given: Json) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: build_rules(deny=["Read(a/**)"])})
    (folder / "a").mkdir()
    for number in range(150):
        (folder / "a" / f"{number}.txt").write_text(f"{SECRET}\n")
    (folder / "b.txt").write_text(f"{SECRET}\n")
    driver = run_search(harness, folder, tool, **given)
    assert get_last_output(driver)["filenames"] == ["b.txt"]
    assert not get_last_output(driver).get("truncated")
    assert get_last_output(driver).get("applied_limit") is None


@pytest.mark.parametrize("rule", ["Read(./secrets/**)", "Read(./secrets)", "Read(secrets/)"])
@pytest.mark.parametrize("start", ["secrets", "{folder}/secrets", "linked", "secrets/deep"])
@pytest.mark.parametrize("tool", ["Grep", "Glob"])
def test_a_search_that_starts_in_a_denied_place_is_refused(harness: Harness, rule: str, start: str, tool: str) -> None:
    folder = make_project_with_secrets(harness, rule)
    given = {"pattern": "*" if tool == "Glob" else "secret", "path": start.replace("{folder}", str(folder))}
    driver = run_search(harness, folder, tool, **given)
    assert list_decisions(driver)[0][0] == "deny"
    assert SECRET not in driver.fetch_result_texts()[0]


def test_a_pattern_that_leads_into_a_denied_folder_is_refused(harness: Harness) -> None:
    folder = make_project_with_secrets(harness, "Read(./secrets)")
    for pattern in ("secrets/*", f"{folder}/secrets/deep/*"):
        driver = run_search(harness, folder, "Glob", pattern=pattern)
        assert list_decisions(driver)[0][0] == "deny", pattern


def test_grep_in_a_denied_file_is_denied_by_its_rule(harness: Harness) -> None:
    folder = make_project_with_secrets(harness)
    driver = run_search(harness, folder, "Grep", pattern="secret", path="secrets/x", output_mode="content")
    assert get_last_decision(driver)["rule"] == "Read(./secrets/**)"


def test_an_ask_rule_asks_before_a_file_is_read(harness: Harness) -> None:
    folder = make_project_with_secrets(harness, behavior="ask")
    driver = open_session_with_calls(harness, read(folder / "secrets" / "x"), folder=folder)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    driver.answer(ask, "allow")
    driver.wait_for_turn_end(turn_id)
    assert SECRET in driver.fetch_result_texts()[0]


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Edit", {"file_path": "secrets/x", "old_string": "not there", "new_string": "new"}),
        ("Edit", {"file_path": "secrets/none", "old_string": "a", "new_string": "b"}),
        ("Write", {"file_path": "secrets/x", "content": "new"}),
        ("Read", {"file_path": "secrets/none"}),
        ("Read", {"file_path": "secrets"}),
    ],
)
def test_what_a_rule_denies_is_told_as_denied_whatever_else_is_wrong_with_the_call(
    harness: Harness, tool: str, given: Json
) -> None:
    folder = make_project_with_secrets(harness, "Read(./secrets)", "Edit(./secrets/**)")
    call = calls(tool, {**given, "file_path": str(folder / given["file_path"])})
    driver = open_session_with_calls(harness, call, folder=folder, mode="acceptEdits")
    assert [denial["tool"] for denial in driver.run_turn()["denials"]] == [tool]
    assert get_last_decision(driver)["by"] == "rule"
