"""Rules about commands: by their parts, through wrappers, and by the files that they touch."""

import pytest

from tests.support.driver import Harness
from tests.support.model_replies import bash
from tests.support.projects import (
    OSTLER_SETTINGS,
    build_rules,
    explain_command,
    get_last_decision,
    list_decisions,
    make_project,
    run_calls,
)


def test_an_allow_rule_does_not_cover_what_follows_its_command(harness: Harness) -> None:
    driver = run_calls(harness, bash("npm test && rm -rf x"), rules={"allow": ["Bash(npm test:*)"]})
    assert list_decisions(driver) == [("deny", "on_ask")]


@pytest.mark.parametrize(
    "command",
    [
        "true; rm -rf x",
        "ls | xargs rm -rf",
        "true\nrm x",
        "(rm x)",
        "{ rm x; }",
        "echo $(rm x)",
        "echo `rm x`",
        "cat <(rm x)",
        "true & rm x",
        "sudo rm x",
        "bash -c 'rm x'",
        'sh -c "true && rm x"',
        "env A=b rm x",
        "A=b rm x",
        "timeout 5 rm x",
        "nice -n 5 rm x",
        "nohup rm x",
        "command rm x",
        "exec rm x",
        "eval 'rm x'",
        "find . -exec rm {} ;",
        "/bin/rm x",
        "f() { rm x; }; f",
        "bash <<< 'rm x'",
        "bash <<E\nrm x\nE",
        "trap 'rm x' EXIT",
    ],
)
@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
def test_a_deny_rule_sees_through_it_or_a_person_has_to_look(
    bypassing_harness: Harness, command: str, mode: str
) -> None:
    driver = bypassing_harness.open_session(rules={"deny": ["Bash(rm:*)"], "allow": ["Bash"]}, mode=mode)
    found = explain_command(driver, command)
    assert found["behavior"] in {"deny", "ask"}, found
    if found["behavior"] == "ask":
        assert found["by"] == "safety"


@pytest.mark.parametrize("command", ["sudo rm x", "bash -c 'rm x'", "env A=b rm x", "ls | xargs rm"])
def test_a_deny_rule_holds_through_wrappers(harness: Harness, command: str) -> None:
    driver = run_calls(harness, bash(command), rules={"deny": ["Bash(rm:*)"], "allow": ["Bash"]})
    (driver.folder / "x").touch()
    assert get_last_decision(driver)["rule"] == "Bash(rm:*)"
    assert list_decisions(driver) == [("deny", "rule")]


@pytest.mark.parametrize("command", ["$PROGRAM x", 'eval "$WORDS"', 'bash -c "$WORDS"', "xargs -I{} {} x"])
def test_a_command_that_cannot_be_resolved_is_a_safety_ask_in_bypass_mode_too(
    bypassing_harness: Harness, command: str
) -> None:
    driver = bypassing_harness.open_session(rules={"deny": ["Bash(rm:*)"]}, mode="bypassPermissions")
    found = explain_command(driver, command)
    assert (found["behavior"], found["by"]) == ("ask", "safety")


HIDDEN = [
    "python -c 'import os; os.remove(\"x\")'",
    "somebodys-wrapper rm x",
    "X='$(rm x)'; echo ${X@P}",
    "test -v 'a[$(rm x)]'",
    "find . -delete",
    "git clean -fd",
    "at now <<< 'rm x'",
    "env --odd " + "A=1 " * 2000 + "rm x",
]


@pytest.mark.parametrize("command", HIDDEN)
@pytest.mark.parametrize(("behavior", "by"), [("deny", "safety"), ("ask", "rule")])
def test_what_a_rule_cannot_see_through_is_asked_about_in_every_mode(
    bypassing_harness: Harness, command: str, behavior: str, by: str
) -> None:
    driver = bypassing_harness.open_session(
        rules={behavior: ["Bash(rm:*)"], "allow": ["Bash"]}, mode="bypassPermissions"
    )
    found = explain_command(driver, command)
    assert (found["behavior"], found["by"], found["rule"]) == ("ask", by, "Bash(rm:*)")


@pytest.mark.parametrize(
    "command", ["npm test", "git commit -m 'rm x'", "grep -r rm src", "echo 'do not rm' >> f", "python script.py"]
)
def test_what_has_nothing_to_do_with_a_rule_stays_as_it_is_without_it(bypassing_harness: Harness, command: str) -> None:
    driver = bypassing_harness.open_session(rules={"deny": ["Bash(rm:*)"]}, mode="bypassPermissions")
    found = explain_command(driver, command)
    assert (found["behavior"], found["by"]) == ("allow", "mode")


def test_a_rule_that_is_sure_to_deny_counts_before_one_that_is_not(bypassing_harness: Harness) -> None:
    folder = make_project(bypassing_harness, {OSTLER_SETTINGS: build_rules(deny=["Bash(rm:*)", "Read(./secrets/**)"])})
    driver = bypassing_harness.open_session(folder=folder, mode="bypassPermissions")
    found = explain_command(driver, "cat secrets/x | sh")
    assert (found["behavior"], found["rule"]) == ("deny", "Read(./secrets/**)")


def test_without_a_rule_that_forbids_bypass_mode_runs_what_cannot_be_resolved(bypassing_harness: Harness) -> None:
    driver = run_calls(bypassing_harness, bash("P=touch; $P it"), mode="bypassPermissions")
    assert (driver.folder / "it").exists()
    assert list_decisions(driver) == [("allow", "mode")]


def test_a_redirection_is_a_write_that_the_commands_rule_does_not_allow(harness: Harness) -> None:
    given = {"allow": ["Bash(echo:*)"]}
    driver = run_calls(harness, bash("echo hello"), bash("echo hello > made"), rules=given)
    assert list_decisions(driver) == [("allow", "rule"), ("deny", "on_ask")]
    assert not (driver.folder / "made").exists()


def test_a_redirection_is_allowed_where_an_edit_of_its_file_is(harness: Harness) -> None:
    given = {"allow": ["Bash(echo:*)", "Edit(made)"]}
    driver = run_calls(harness, bash("echo hello > made"), bash("echo hello > other"), rules=given)
    assert list_decisions(driver) == [("allow", "rule"), ("deny", "on_ask")]
    assert (driver.folder / "made").read_text() == "hello\n"
    assert not (driver.folder / "other").exists()


def test_a_redirection_to_a_file_that_is_denied_is_denied(harness: Harness) -> None:
    folder = make_project(harness, {OSTLER_SETTINGS: build_rules(deny=["Edit(precious)"])})
    driver = run_calls(
        harness, bash("echo x > precious"), bash("cp a precious"), folder=folder, rules={"allow": ["Bash"]}
    )
    assert list_decisions(driver) == [("deny", "rule"), ("deny", "rule")]
    assert get_last_decision(driver)["rule"] == "Edit(precious)"


@pytest.mark.parametrize(
    "command",
    [
        "cat secrets/x",
        "cat ./secrets/../secrets/x",
        "head -n 1 < secrets/x",
        "cd secrets && cat x",
        "grep -r word secrets/x",
        "cat sec*/x",
        "cp secrets/x there",
        "cat link",
        "cat linked/x",
    ],
)
def test_a_rule_about_reading_binds_the_commands_that_visibly_read(bypassing_harness: Harness, command: str) -> None:
    folder = make_project(bypassing_harness, {OSTLER_SETTINGS: build_rules(deny=["Read(./secrets/**)"])})
    (folder / "secrets").mkdir()
    (folder / "secrets" / "x").write_text("a secret word\n")
    (folder / "link").symlink_to("secrets/x")
    (folder / "linked").symlink_to("secrets")
    driver = run_calls(bypassing_harness, bash(command), folder=folder, mode="bypassPermissions")
    assert list_decisions(driver)[0][0] == "deny"
    assert "a secret word" not in driver.fetch_result_texts()[0]


def test_a_command_that_searches_around_a_denied_place_is_looked_at_by_a_person(bypassing_harness: Harness) -> None:
    folder = make_project(bypassing_harness, {OSTLER_SETTINGS: build_rules(deny=["Read(./secrets/**)"])})
    driver = bypassing_harness.open_session(folder=folder, mode="bypassPermissions")
    assert explain_command(driver, "grep -r word .")["behavior"] == "allow"  # nothing of it is there
    (folder / "secrets").mkdir()
    (folder / "secrets" / "x").touch()
    found = explain_command(driver, "grep -r word .")
    assert (found["behavior"], found["by"]) == ("ask", "safety")


def test_a_variable_that_decides_what_runs_prevents_an_allow(harness: Harness) -> None:
    driver = harness.open_session(rules={"allow": ["Bash(make:*)"]})
    assert explain_command(driver, "make all")["behavior"] == "allow"
    assert explain_command(driver, "PATH=. make all")["behavior"] == "ask"
    assert explain_command(driver, "LD_PRELOAD=./x.so make all")["behavior"] == "ask"


def test_a_long_command_hides_nothing_from_a_deny_rule(bypassing_harness: Harness) -> None:
    driver = bypassing_harness.open_session(rules={"deny": ["Bash(rm:*)"]}, mode="bypassPermissions")
    long = "; ".join(["true"] * 500)
    assert explain_command(driver, f"{long}; rm x")["behavior"] != "allow"


def test_what_the_parser_does_not_understand_is_allowed_by_no_rule_but_one_about_the_whole_tool(
    harness: Harness,
) -> None:
    driver = harness.open_session(rules={"allow": ["Bash(echo:*)"]})
    for command in ("echo 'unfinished", "echo \x0b x", "echo a\u00a0b", "echo \u202ex"):
        assert explain_command(driver, command)["behavior"] == "ask", command


@pytest.mark.parametrize("trick", ["read PATH <<< {folder}", "printf -v PATH %s {folder}"])
def test_what_a_rule_allows_starts_with_the_sessions_own_path(harness: Harness, trick: str) -> None:
    folder = make_project(harness)
    # By the shell alone: with that PATH it would find no program.
    (folder / "npm").write_text("#!/bin/sh\n: > planted\n")
    (folder / "npm").chmod(0o755)
    line = f"{trick.format(folder=folder)}; npm test"
    allowed = ["Bash(read:*)", "Bash(printf:*)", "Bash(npm test:*)"]
    driver = run_calls(harness, bash(line), folder=folder, rules={"allow": allowed})
    assert not (folder / "planted").exists()
    assert list_decisions(driver) == [("allow", "rule")]


def test_a_rule_that_is_the_whole_line_lets_it_change_its_own_path(harness: Harness) -> None:
    """As `source .venv/bin/activate && pytest` does: somebody has seen every word of it."""
    folder = make_project(harness)
    (folder / "tool").write_text("#!/bin/sh\ntouch made\n")
    (folder / "tool").chmod(0o755)
    (folder / "activate").write_text(f"PATH={folder}:$PATH\n")
    line = "source ./activate && tool"
    run_calls(harness, bash(line), folder=folder, rules={"allow": [f"Bash({line})"]})
    assert (folder / "made").exists()
