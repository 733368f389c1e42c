"""Rules about commands: by their parts, through wrappers, and by the files that they touch."""

import pytest

from tests.support.driver import Stage
from tests.support.model_replies import bash
from tests.support.projects import OURS, decision, decisions, explained_command, project, rules, runs


def test_an_allow_rule_does_not_cover_what_follows_its_command(stage: Stage) -> None:
    talk = runs(stage, bash("npm test && rm -rf x"), rules={"allow": ["Bash(npm test:*)"]})
    assert decisions(talk) == [("deny", "on_ask")]


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
def test_a_deny_rule_sees_through_it_or_a_person_has_to_look(bypassing: Stage, command: str, mode: str) -> None:
    talk = bypassing.talk(rules={"deny": ["Bash(rm:*)"], "allow": ["Bash"]}, mode=mode)
    found = explained_command(talk, command)
    assert found["behavior"] in {"deny", "ask"}, found
    if found["behavior"] == "ask":
        assert found["by"] == "safety"


@pytest.mark.parametrize("command", ["sudo rm x", "bash -c 'rm x'", "env A=b rm x", "ls | xargs rm"])
def test_a_deny_rule_holds_through_wrappers(stage: Stage, command: str) -> None:
    talk = runs(stage, bash(command), rules={"deny": ["Bash(rm:*)"], "allow": ["Bash"]})
    (talk.folder / "x").touch()
    assert decision(talk)["rule"] == "Bash(rm:*)"
    assert decisions(talk) == [("deny", "rule")]


@pytest.mark.parametrize("command", ["$PROGRAM x", 'eval "$WORDS"', 'bash -c "$WORDS"', "xargs -I{} {} x"])
def test_a_command_that_cannot_be_resolved_is_a_safety_ask_in_bypass_mode_too(bypassing: Stage, command: str) -> None:
    talk = bypassing.talk(rules={"deny": ["Bash(rm:*)"]}, mode="bypassPermissions")
    found = explained_command(talk, command)
    assert (found["behavior"], found["by"]) == ("ask", "safety")


def test_without_a_rule_that_forbids_bypass_mode_runs_what_cannot_be_resolved(bypassing: Stage) -> None:
    talk = runs(bypassing, bash("P=touch; $P it"), mode="bypassPermissions")
    assert (talk.folder / "it").exists()
    assert decisions(talk) == [("allow", "mode")]


def test_a_redirection_is_a_write_that_the_commands_rule_does_not_allow(stage: Stage) -> None:
    given = {"allow": ["Bash(echo:*)"]}
    talk = runs(stage, bash("echo hello"), bash("echo hello > made"), rules=given)
    assert decisions(talk) == [("allow", "rule"), ("deny", "on_ask")]
    assert not (talk.folder / "made").exists()


def test_a_redirection_is_allowed_where_an_edit_of_its_file_is(stage: Stage) -> None:
    given = {"allow": ["Bash(echo:*)", "Edit(made)"]}
    talk = runs(stage, bash("echo hello > made"), bash("echo hello > other"), rules=given)
    assert decisions(talk) == [("allow", "rule"), ("deny", "on_ask")]
    assert (talk.folder / "made").read_text() == "hello\n"
    assert not (talk.folder / "other").exists()


def test_a_redirection_to_a_file_that_is_denied_is_denied(stage: Stage) -> None:
    folder = project(stage, {OURS: rules(deny=["Edit(precious)"])})
    talk = runs(stage, bash("echo x > precious"), bash("cp a precious"), folder=folder, rules={"allow": ["Bash"]})
    assert decisions(talk) == [("deny", "rule"), ("deny", "rule")]
    assert decision(talk)["rule"] == "Edit(precious)"


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
def test_a_rule_about_reading_binds_the_commands_that_visibly_read(bypassing: Stage, command: str) -> None:
    folder = project(bypassing, {OURS: rules(deny=["Read(./secrets/**)"])})
    (folder / "secrets").mkdir()
    (folder / "secrets" / "x").write_text("a secret word\n")
    (folder / "link").symlink_to("secrets/x")
    (folder / "linked").symlink_to("secrets")
    talk = runs(bypassing, bash(command), folder=folder, mode="bypassPermissions")
    assert decisions(talk)[0][0] == "deny"
    assert "a secret word" not in talk.result_texts()[0]


def test_a_command_that_searches_around_a_denied_place_is_looked_at_by_a_person(bypassing: Stage) -> None:
    folder = project(bypassing, {OURS: rules(deny=["Read(./secrets/**)"])})
    talk = bypassing.talk(folder=folder, mode="bypassPermissions")
    found = explained_command(talk, "grep -r word .")
    assert (found["behavior"], found["by"]) == ("ask", "safety")


def test_a_variable_that_decides_what_runs_prevents_an_allow(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash(make:*)"]})
    assert explained_command(talk, "make all")["behavior"] == "allow"
    assert explained_command(talk, "PATH=. make all")["behavior"] == "ask"
    assert explained_command(talk, "LD_PRELOAD=./x.so make all")["behavior"] == "ask"


def test_a_long_command_hides_nothing_from_a_deny_rule(bypassing: Stage) -> None:
    talk = bypassing.talk(rules={"deny": ["Bash(rm:*)"]}, mode="bypassPermissions")
    long = "; ".join(["true"] * 500)
    assert explained_command(talk, f"{long}; rm x")["behavior"] != "allow"


def test_what_the_parser_does_not_understand_is_allowed_by_no_rule_but_one_about_the_whole_tool(stage: Stage) -> None:
    talk = stage.talk(rules={"allow": ["Bash(echo:*)"]})
    for command in ("echo 'unfinished", "echo \x0b x", "echo a\u00a0b", "echo \u202ex"):
        assert explained_command(talk, command)["behavior"] == "ask", command
