"""What is offered is what helps: a suggested rule, once remembered, lets the very same call pass."""

from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as generated
from hypothesis import strategies as st

from ostler.protocol.ids import SessionId
from ostler.server.engine.permissions.decide import Case, PermissionContext, Verdict, decide
from ostler.server.settings import Origin, RuleSet, parse_rules
from ostler.tools.call_subject import find_subject
from ostler.tools.context import SessionView
from ostler.tools.shell.base import ShellTool
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.bash_policy import judge
from ostler.tools.shell.powershell import PowerShell
from ostler.tools.shell.powershell_policy import check
from tests.support.driver import Harness, Json, SessionDriver
from tests.support.examples import count_examples
from tests.support.messages_api.replies import calls
from tests.support.model_replies import bash
from tests.support.projects import (
    OSTLER_LOCAL_SETTINGS,
    OSTLER_SETTINGS,
    build_rules,
    explain_command,
    explain_rule,
    get_last_decision,
    list_decisions,
    make_project,
    open_session_with_calls,
    run_calls,
)
from tests.tools.commands.generated_commands import plain_commands, reading_text, shell_text

# A redirection that a person has allowed in just these words.


def test_always_holds_for_a_command_that_writes_a_file(harness: Harness) -> None:
    driver = open_session_with_calls(harness, bash("echo one > r.txt"), bash("echo one > r.txt"))
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert ask["suggestions"][0]["rule"] == "Bash(echo one > r.txt)"
    driver.answer(ask, "allow_always")
    assert driver.wait_for_turn_end(turn_id)["denials"] == []
    assert driver.list_event_types("ask.opened") == ["ask.opened"]
    assert list_decisions(driver) == [("allow", "person"), ("allow", "rule")]
    assert get_last_decision(driver)["rule"] == "Bash(echo one > r.txt)"
    assert (driver.folder / "r.txt").read_text() == "one\n"


def test_the_rule_that_a_denial_names_is_the_one_that_allows_it(harness: Harness) -> None:
    driver = open_session_with_calls(harness, bash("echo hi > out.txt"), on_ask="deny")
    (denial,) = driver.run_turn()["denials"]
    assert denial["allow_with"] == "Bash(echo hi > out.txt)"
    assert f"The rule {denial['allow_with']} would allow it." in driver.fetch_result_texts()[0]
    again = run_calls(harness, bash("echo hi > out.txt"), rules={"allow": [denial["allow_with"]]})
    assert list_decisions(again) == [("allow", "rule")]
    assert (again.folder / "out.txt").read_text() == "hi\n"


@pytest.mark.parametrize(
    "command",
    ["echo one > other", "echo one >> r.txt", "echo two > r.txt", "echo one > r.txt > other", "echo one > r.txt; rm x",
     "cd sub && echo one > r.txt", "echo one", "sudo echo one > r.txt", "echo one > r.txt &> x", "echo one >  r.txt"],
)  # fmt: skip
def test_a_line_with_its_file_allows_no_other_line(harness: Harness, command: str) -> None:
    driver = harness.open_session(rules={"allow": ["Bash(echo one > r.txt)"]})
    assert explain_command(driver, "echo one > r.txt")["behavior"] == "allow"
    found = explain_command(driver, command)
    assert (found["behavior"], found["rule"]) == ("allow" if command == "echo one" else "ask", None)


@pytest.mark.parametrize("name", [".envrc", ".git/config", ".ostler/settings.json", "link"])
def test_a_line_with_a_guarded_file_is_asked_about_whatever_allows_it(harness: Harness, name: str) -> None:
    folder = make_project(harness)
    (folder / "link").symlink_to(".bashrc")
    driver = harness.open_session(folder=folder, rules={"allow": [f"Bash(echo x > {name})"]})
    found = explain_command(driver, f"echo x > {name}")
    assert (found["behavior"], found["by"]) == ("ask", "safety")


@pytest.mark.parametrize(
    ("kind", "rule"),
    [("deny", "Edit(r.txt)"), ("ask", "Edit(r.txt)"), ("deny", "Bash(echo:*)"), ("ask", "Bash(echo one > r.txt)")],
)
def test_what_forbids_beats_a_line_with_its_file(harness: Harness, kind: str, rule: str) -> None:
    driver = harness.open_session(rules={"allow": ["Bash(echo one > r.txt)"], kind: [rule]})
    found = explain_command(driver, "echo one > r.txt")
    assert (found["behavior"], found["by"], found["rule"]) == (kind, "rule", rule)


def test_a_line_allows_a_file_outside_only_where_it_names_it_from_the_root_on_and_no_link_leads_elsewhere(
    harness: Harness, tmp_path: Path
) -> None:
    folder = make_project(harness)
    (tmp_path / "aim").symlink_to(tmp_path / "elsewhere")
    (folder / "out").symlink_to(tmp_path)
    absolute, linked = f"echo x > {tmp_path}/log", f"echo x > {tmp_path}/aim"
    relative, through = f"echo x > ../{folder.name}-log", "echo x > out/log"
    lines = [absolute, linked, relative, through]
    driver = harness.open_session(folder=folder, rules={"allow": [f"Bash({line})" for line in lines]})
    assert [explain_command(driver, line)["behavior"] for line in lines] == ["allow", "ask", "ask", "ask"]


@pytest.mark.parametrize(
    "command",
    ["echo x > /dev/tcp/127.0.0.1/9", "echo x > /dev/sda", "echo 1 > /proc/self/comm", "HOME=/a; echo x > ~/f"],
)
def test_a_line_that_writes_no_file_or_moves_the_home_folder_is_asked_about(harness: Harness, command: str) -> None:
    driver = harness.open_session(rules={"allow": [f"Bash({command})"]})
    assert explain_command(driver, command)["behavior"] == "ask"


@pytest.mark.parametrize(
    "command", ["echo x > $F", "echo x > a*", "cd $D && echo x > f", "echo x > f > $F", 'echo x > "$(cat name)"']
)
def test_a_line_whose_file_only_the_run_tells_is_asked_about_whatever_may_be_edited(
    harness: Harness, command: str
) -> None:
    driver = harness.open_session(rules={"allow": [f"Bash({command})", "Edit"]})
    assert explain_command(driver, command)["behavior"] == "ask"


def test_a_projects_line_writes_only_inside_the_project(harness: Harness, tmp_path: Path) -> None:
    lines = ["echo x > f", f"echo x > {tmp_path}/f"]
    given = build_rules(allow=[f"Bash({line})" for line in lines])
    for name, outcome in ((OSTLER_SETTINGS, ["allow", "ask"]), (OSTLER_LOCAL_SETTINGS, ["allow", "allow"])):
        driver = harness.open_session(folder=make_project(harness, {name: given}), trust=True)
        assert [explain_command(driver, line)["behavior"] for line in lines] == outcome


# Every kind of ask.

COMMANDS: Final = (
    "echo one > r.txt", "echo hi >> r.txt", "npm test > out.log 2>&1", "npm test 2>&1 | tee log", "make > a 2> b",
    "cat > f <<E\nhi\nE", "cat <<'E' > f\n$x (\nE", "cd sub && make > log", "echo x > /dev/stderr", "echo x &> 'a b'",
    "echo 'a (b' > x", "echo x > ~/ostler-never-there", "echo x > /opt/never", "echo x > ../x", "echo x > $X",
    "npm test", "make -j 4", "make && npm test", "git add . && git commit -m x", "git push --force", "rm -rf build",
    "rm *.o", "FOO=1 make", "PATH=. make", "sudo make install", "timeout 5 make", "xargs rm < list", "bash -c 'make'",
    "for i in a b; do make $i; done", "if true; then make; fi", "(make)", "{ make; } > log", "make &", "f() { x; }; f",
    "echo $(make)", "cat /etc/hostname", "ls /", "cat /etc/hostname > copy", "sed -i s/a/b/ f", "cp a ../b > log",
    "echo 'unfinished", "python - <<E\nprint(1)\nE", "a=b", "a=b make", "cd / && make", "cd ~ && ls", "true > .envrc",
    "curl https://example.com", "mkdir -p a/b", "touch it", "echo )", "make  ", " make", "make # why\n", "ls /*",
)  # fmt: skip


def monitor(**what: Any) -> tuple[str, Json]:
    return "Monitor", {"description": "it", "timeout": 1000, **what}


OTHERS: Final[dict[str, tuple[str, Json]]] = {
    "read outside": ("Read", {"file_path": "/etc/hostname"}),
    "read a link": ("Read", {"file_path": "{folder}/link"}),
    "read strange": ("Read", {"file_path": "/opt/a [b] (c) {d} *?#!"}),
    "write": ("Write", {"file_path": "{folder}/new", "content": "x"}),
    "write outside": ("Write", {"file_path": "/opt/never/there", "content": "x"}),
    "write through a link": ("Write", {"file_path": "{folder}/leads/new", "content": "x"}),
    "write guarded": ("Write", {"file_path": "{folder}/.envrc", "content": "x"}),
    "edit": ("Edit", {"file_path": "{folder}/new", "old_string": "", "new_string": "x"}),
    "glob outside": ("Glob", {"pattern": "*", "path": "/opt"}),
    "grep outside": ("Grep", {"pattern": "x", "path": "/opt"}),
    "testing": ("TestingPermission", {}),
    "watch a command": monitor(command="make 2>&1 > log"),
    "watch more": monitor(command="npm test"),
    "watch a file outside": monitor(path="/etc/hostname"),
}


def deny_call(harness: Harness, tool: str, given: Json) -> tuple[SessionDriver, Json, Json]:
    """A session in which somebody was asked about a call and said no, the call's input, and the ask."""
    folder = make_project(harness)
    (folder / "link").symlink_to("/etc/hostname")
    (folder / "leads").symlink_to("/opt")
    values = {
        name: value.replace("{folder}", str(folder)) if isinstance(value, str) else value
        for name, value in given.items()
    }
    driver = open_session_with_calls(harness, calls(tool, values), folder=folder)
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    driver.answer(ask, "deny", message="not now")
    assert driver.wait_for_turn_end(turn_id)["denials"][0]["allow_with"] == next(
        (each["rule"] for each in ask["suggestions"]), None
    )
    return driver, values, ask


@pytest.mark.parametrize("call", [*COMMANDS, *OTHERS])
def test_a_suggested_rule_that_is_remembered_lets_the_very_same_call_pass(harness: Harness, call: str) -> None:
    tool, given = OTHERS.get(call, ("Bash", {"command": call}))
    driver, values, ask = deny_call(harness, tool, given)
    before = explain_rule(harness.daemon, driver.id, tool, **values)
    assert before["behavior"] == "ask"
    assert ("allow_always" in ask["choices"]) == bool(ask["suggestions"])
    if before["by"] == "safety":
        assert ask["suggestions"] == []
    for rule in {each["rule"] for each in ask["suggestions"]}:
        added = {"session_id": driver.id, "behavior": "allow", "rule": rule}
        harness.daemon.call("rule/add", **added)
        found = explain_rule(harness.daemon, driver.id, tool, **values)
        assert (found["behavior"], found["by"], found["rule"]) == ("allow", "rule", rule)
        harness.daemon.call("rule/remove", **added)


@pytest.mark.parametrize("call", [each for each in COMMANDS if each.startswith(("echo one", "npm", "make", "cat <<"))])
def test_commands_of_every_day_have_a_rule_that_helps(harness: Harness, call: str) -> None:
    assert deny_call(harness, "Bash", {"command": call})[2]["suggestions"] != []


def test_an_ask_that_no_rule_would_spare_suggests_none_and_can_be_forbidden_for_good(harness: Harness) -> None:
    driver = open_session_with_calls(harness, bash("touch it"), bash("touch it"), rules={"ask": ["Bash(touch:*)"]})
    turn_id = driver.start()
    ask = driver.wait_for_ask()
    assert (ask["choices"], ask["suggestions"]) == (["allow", "deny", "deny_always"], [])
    error = driver.expect_error("ask/resolve", ask_id=ask["id"], answer={"choice": "deny_always"})
    assert (error["code"], "answer.rule" in str(error)) == (-32602, True)
    driver.answer(ask, "deny_always", rule="Bash(touch it)", message="never")
    assert [each["allow_with"] for each in driver.wait_for_turn_end(turn_id)["denials"]] == [None, None]
    assert get_last_decision(driver)["rule"] == "Bash(touch it)"


@pytest.mark.parametrize("how", [{"on_ask": "deny"}, {"mode": "dontAsk"}], ids=["on_ask", "dontAsk"])
def test_a_denial_names_no_rule_where_a_rule_asks_whatever_is_allowed(harness: Harness, how: Json) -> None:
    driver = open_session_with_calls(
        harness, bash("touch it"), rules={"ask": ["Bash(touch:*)"], "allow": ["Bash(touch it)"]}, **how
    )
    (denial,) = driver.run_turn()["denials"]
    assert denial["allow_with"] is None
    assert "The rule Bash(touch:*) asks." in denial["reason"]


def test_a_denial_of_plan_mode_names_no_rule(harness: Harness) -> None:
    (denial,) = open_session_with_calls(harness, bash("touch it"), mode="plan").run_turn()["denials"]
    assert denial["allow_with"] is None


# Generated commands, and the chain itself.


def make_context(folder: Path, *allowed: str) -> PermissionContext:
    place = str(folder)
    found = RuleSet.of(parse_rules({"allow": list(allowed)}, Origin("session", None, place, place, "/nobody")), {})
    return PermissionContext("default", "ask", found, SessionView(SessionId("s_1"), place, place, (place,), "default"))


async def decide_command(shell: ShellTool, command: str, given: PermissionContext) -> Verdict:
    wanted = shell.parse({"command": command})
    said = judge(command, given.view).check if shell.name == "Bash" else check(command, given.view)
    return await decide(Case(shell, wanted, said, await find_subject(shell, wanted, given.view)), given)


async def check_suggestion(shell: ShellTool, command: str, folder: Path) -> None:
    first = await decide_command(shell, command, make_context(folder))
    if first.allow_with is not None:
        assert (first.behavior, first.by) == ("ask", "default")
        second = await decide_command(shell, command, make_context(folder, first.allow_with))
        assert (second.behavior, second.by, second.rule) == ("allow", "rule", first.allow_with)


redirected = st.tuples(
    plain_commands(most=3), st.sampled_from([">", ">>", "2>", "&>", ">|", "<>"]), st.sampled_from(["f", "/opt/f", "$x"])
).map(" ".join)


@settings(max_examples=count_examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@generated(
    st.one_of(redirected, plain_commands(most=3), reading_text, shell_text), st.sampled_from([Bash(), PowerShell()])
)
def test_what_is_offered_for_any_command_holds(tmp_path: Path, command: str, shell: ShellTool) -> None:
    anyio.run(check_suggestion, shell, command, tmp_path)
