"""What is wrong in a file is said once, with its place, and never widens anything."""

import os
from typing import Any

import pytest

from ostler.server.settings import BadPolicy, Problem, check_lists
from tests.server.settings.machine import PersonMachine, format_rules


def list_problems(problems: tuple[Problem, ...]) -> list[tuple[int, int, str]]:
    return [(problem.line, problem.column, problem.message) for problem in problems]


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "empty"),
        ("{", 1, 2, "ends too early"),
        ('{"permissions": {}\n // why\n}', 2, 2, "no comments"),
        ("# why\n{}", 1, 1, "no comments"),
        ('{"permissions": {"deny": ["Bash",]}}', 1, 34, "comma too many"),
        ('{"env": {"A": "b",}}', 1, 19, "comma too many"),
        ("{'a': 1}", 1, 2, "double quotes"),
        ('{"permissions": {"deny": ["Bash"] "ask": []}}', 1, 35, "no JSON"),
        ('{"env": {},\n "env": {}}', 2, 2, "'env' is there twice"),
        ('{"permissions": {"deny": ["Bash"], "deny": []}}', 1, 36, "'deny' is there twice"),
        ('{"env": NaN}', 1, 9, "NaN is no number"),
        ('{"env": ' + "1" * 5000 + "}", 1, 9, "no JSON"),
        ('{"a": 1, "a": 2} x', 1, 18, "no JSON"),
        ('{"a": {"b": 1, "b": 2}, ]', 1, 25, "comma too many"),
        ('{"hooks": ' + "[" * 70 + "]" * 70 + "}", 1, 1, "nested too deep"),
        ("[]", 1, 1, "an object"),
        ('\n  "Bash"', 2, 3, "an object"),
        ('{"env": {"A": "\\ud800"}}', 1, 16, "half of a character"),
        ("\ufeff{}", 1, 1, "byte order mark"),
        ("[" * 100_000, 1, 1, "nested too deep"),
    ],
)
def test_a_file_that_cannot_be_parsed_contributes_nothing_and_says_so(
    machine: PersonMachine, text: str, line: int, column: int, words: str
) -> None:
    machine.write("user", text)
    settings = machine.load()
    assert settings.rules == ()
    [problem] = settings.problems
    assert (problem.file, problem.line, problem.column) == (str(machine.file("user")), line, column)
    assert words in problem.message


@pytest.mark.parametrize("value", [None, [], {}, [[]], {"a": []}, 1, "x", True, [1, {}, None]])
def test_no_value_anywhere_is_too_strange_to_be_reported(machine: PersonMachine, value: Any) -> None:
    inner = {"allow": value, "ask": [value], "deny": [value], "expires": {"Bash(a)": value}, "mode": value}
    theirs = {"defaultMode": value, "disableBypassPermissionsMode": value, "additionalDirectories": [value]}
    hook = {"type": value, "command": value}
    hooks = {"Stop": [{"matcher": value, "hooks": [hook]}, {"hooks": [hook]}, value], "PreToolUse": value}
    servers = {"a": value, "b": {"command": value, "args": value}}
    for name in ("project", "claude project"):
        machine.write(
            name, {"permissions": inner | theirs, "hooks": hooks, "mcp_servers": servers, "env": {"A": value}}
        )
    machine.write("user", {"permissions": value, "hooks": value, "env": value, "mcp_servers": value})
    settings = machine.load()
    assert settings.problems
    assert not [rule for rule in settings.rules if rule.behavior == "allow"]


def test_a_file_that_is_not_utf_8_says_where(machine: PersonMachine) -> None:
    machine.file("user").write_bytes(b'{\n "a": "\xff"}')
    assert list_problems(machine.load().problems) == [(2, 8, "It is not UTF-8.")]
    machine.file("user").write_bytes("{}".encode("utf-16"))
    assert "UTF-16" in machine.load().problems[0].message


def test_what_is_no_regular_file_is_not_read(machine: PersonMachine) -> None:
    os.mkfifo(machine.file("user"))
    machine.file("claude user").symlink_to("/dev/zero")
    machine.file("project").mkdir()
    machine.file("local").symlink_to("settings.local.json")
    machine.file("claude project").write_bytes(b" " * (2 << 20))
    messages = [problem.message for problem in machine.load().problems]
    assert len(messages) == 5
    assert sum("no regular file" in message for message in messages) == 3
    assert any("larger than" in message for message in messages)


def test_a_bad_rule_is_reported_with_its_place_inside_the_text(machine: PersonMachine) -> None:
    machine.write("user", '{"permissions": {\n  "allow": ["Bash(ls)",\n    "Read(a\\u0041/[b)", "Edit( x)"]\n}}')
    first, second = machine.load().problems
    # The escape is six characters wide in the file, and one in the rule.
    assert (first.line, first.column) == (3, 5 + len('"Read(a\\u0041/'))
    assert "never closed" in first.message
    assert (second.line, second.column) == (3, 25 + len('"Edit('))
    assert format_rules(machine.load().rules) == ["allow Bash(ls) (user)"]


def test_unknown_keys_in_our_files_are_problems_with_what_was_meant_perhaps(machine: PersonMachine) -> None:
    machine.write(
        "user", '{\n "permisions": {},\n "permissions": {"alow": []},\n "hooks": {"PreTolUse": []},\n "zzz": 1\n}'
    )
    found = {(line, column): message for line, column, message in list_problems(machine.load().problems)}
    assert "did you mean 'permissions'?" in found[2, 2]
    assert "did you mean 'allow'?" in found[3, 18]
    assert "did you mean 'PreToolUse'?" in found[4, 25]
    assert found[5, 2] == "There is no setting 'zzz'."


def test_a_rule_for_a_tool_that_does_not_exist_is_reported_and_kept(machine: PersonMachine) -> None:
    machine.write_permissions("user", deny=["Bsh(rm)", "mcp__anything", "read(a)"])
    messages = [problem.message for problem in machine.load().problems]
    assert messages == ["There is no tool 'Bsh'; did you mean 'Bash'?", "There is no tool 'read'; did you mean 'Read'?"]
    assert len(machine.load().rules) == 3


def test_a_path_that_looks_absolute_and_is_not_is_pointed_out(machine: PersonMachine) -> None:
    machine.write_permissions("project", deny=["Read(/etc/passwd)", "Read(//etc/passwd)", "Read(/src/x)"])
    [problem] = machine.load().problems
    assert problem.message == f"This starts from {machine.folder}; did you mean Read(//etc/passwd)?"
    (machine.folder / "etc").mkdir()
    assert machine.load().problems == ()


@pytest.mark.parametrize("behavior", ["deny", "ask"])
def test_a_rule_that_was_to_forbid_and_cannot_be_read_makes_people_look(machine: PersonMachine, behavior: str) -> None:
    machine.write_permissions("user", **{behavior: ["Edit([z-a])"], "allow": ["Bash(ls)"]})
    rules = machine.load_rules()
    assert format_rules(rules.find_ask_rules("Write")) == ["ask Edit([z-a]) (user)"]
    assert rules.find_ask_rules("Write")[0].rule.content is None
    assert format_rules(rules.find_allow_rules("Bash")) == ["allow Bash(ls) (user)"]


@pytest.mark.parametrize(
    "broken",
    [
        {"deny": "Bash"}, {"deny": {"Bash": True}}, {"deny": [1]}, {"deny": ["(rm)"]}, {"deny": ["Bashrm)"]},
        {"ask": None},
        {"denny": ["Bash"]}, {"expires": []}, {"expires": {"Bash(ls)": "tomorrow"}},
        {"expires": {"Bash(ls)": "2099-01-01T00:00:00"}},
    ],
)  # fmt: skip
def test_where_something_may_be_missing_that_was_to_forbid_the_file_allows_nothing(
    machine: PersonMachine, broken: Any
) -> None:
    machine.write("user", {"permissions": {"allow": ["Bash(ls)"], **broken}})
    settings = machine.load()
    assert settings.problems
    assert not [rule for rule in settings.rules if rule.behavior == "allow"]


def test_a_broken_policy_file_stops_the_start(machine: PersonMachine) -> None:
    for broken in ("{", '{"permissions": {"deny": ["Edit([z-a])"]}}', '{"permisions": {}}', '{"permissions": []}'):
        machine.write("policy", broken)
        with pytest.raises(BadPolicy, match=r"policy\.json:1:"):
            machine.load()
    machine.file("policy").unlink()
    machine.file("policy").mkdir()
    with pytest.raises(BadPolicy, match="no regular file"):
        machine.load()
    machine.file("policy").rmdir()
    machine.file("policy").symlink_to("nowhere.json")
    with pytest.raises(BadPolicy, match="leads nowhere"):
        machine.load()


def test_a_policy_for_a_tool_that_is_not_here_is_no_broken_policy(machine: PersonMachine) -> None:
    machine.write_permissions("policy", deny=["PowerShell"])
    settings = machine.load()
    assert len(settings.rules) == len(settings.problems) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"hooks": []}, "hooks is an object"),
        ({"hooks": {"Stop": {}}}, "Stop is a list"),
        ({"hooks": {"Stop": ["x"]}}, "list of hooks"),
        ({"hooks": {"Stop": [{"hooks": ["x"]}]}}, "list of hooks"),
        ({"hooks": {"Stop": [{"matcher": 1, "hooks": []}]}}, "A matcher is a text"),
        ({"env": {"A=B": "x"}}, "no name of a variable"),
        ({"env": {"A": 1}}, "is a text"),
        ({"env": {"A": "x\0"}}, "is a text"),
        ({"mcp_servers": {"a b": {}}}, "no name of a server"),
        ({"mcp_servers": {"a": "x"}}, "A server is an object"),
        ({"permissions": {"mode": "plans"}}, "did you mean 'plan'?"),
        ({"permissions": {"expires": {"Bash(x)": "2099-01-01T00:00:00Z"}}}, "no rule 'Bash(x)'"),
    ],
)
def test_what_has_the_wrong_shape_is_left_out_and_reported(machine: PersonMachine, content: Any, words: str) -> None:
    machine.write("user", content)
    settings = machine.load()
    assert len(settings.problems) == 1
    assert words in settings.problems[0].message
    assert (settings.hooks, settings.mcp_servers, settings.mode) == ((), (), None)


def test_what_a_project_may_never_say_is_pointed_out_in_our_files(machine: PersonMachine) -> None:
    machine.write("project", {"permissions": {"mode": "plan"}, "env": {"A": "b"}})
    messages = " ".join(problem.message for problem in machine.load().problems)
    assert "environment never counts" in messages
    assert "mode never counts" in messages


def test_more_rules_than_anybody_writes_do_not_slow_every_call_down(machine: PersonMachine) -> None:
    machine.write_permissions("project", deny=[f"Read(?{number})" for number in range(2_001)])
    settings = machine.load()
    assert settings.rules == ()
    assert "more than 2000 rules" in settings.problems[0].message


def test_no_more_problems_are_told_than_a_person_reads(machine: PersonMachine) -> None:
    machine.write_permissions("user", allow=["Bash("] * 60)
    problems = machine.load().problems
    assert len(problems) == 51
    assert problems[-1].message == "There are 10 more problems in this file."


def test_rules_that_a_client_gives_are_checked_in_the_same_words() -> None:
    problems = check_lists({"allow": ["Bash(ls)", "Bash()"], "deny": ["Bsh"]}, ["Bash"])
    assert len(problems) == 2
    assert "did you mean 'Bash'?" in problems[0]
    assert "empty" in problems[1]
