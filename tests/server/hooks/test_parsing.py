"""Hooks as settings files declare them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.server.hooks import EVENTS, Hook, Problem, format_hook_rows, parse_hooks
from tests.support.tables import try_each

# As people have them in `.claude/settings.json`, with all that we do not know.
IN_THE_WILD = """
{
  "PreToolUse": [
    {
      "matcher": "Bash",
      "hooks": [
        {"type": "command", "command": "jq -r '.tool_input.command' >> ~/.claude/bash-log.txt"},
        {"type": "command", "if": "Bash(git push *)", "command": "$CLAUDE_PROJECT_DIR/.claude/hooks/push.sh",
         "timeout": 10, "statusMessage": "Looking at the push", "async": false, "once": true}
      ]
    },
    {"matcher": "Edit|MultiEdit|Write", "hooks": [{"type": "command", "command": "python3 guard.py"}]},
    {"matcher": "mcp__.*", "hooks": [
      {"type": "http", "url": "http://localhost:8080/hooks?key=1", "timeout": 5,
       "headers": {"Authorization": "Bearer ${TEAM_TOKEN}", "X-Plain": "yes"}, "allowedEnvVars": ["TEAM_TOKEN"]}]}
  ],
  "PostToolUse": [{"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "prettier --write ."}]}],
  "Notification": [{"matcher": "", "hooks": [{"type": "command", "command": "notify-send ready"}]}],
  "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "git status --short"}]}],
  "Stop": [{"hooks": [{"type": "prompt", "prompt": "Are all tasks done? $ARGUMENTS", "model": "haiku"}]}],
  "SessionStart": [{"matcher": "startup|resume", "hooks": [{"type": "command", "command": "cat TODO.md"}]}],
  "SubagentStop": [], "PreCompact": [{"matcher": "auto", "hooks": []}]
}
"""


def parse_one(declared: Any, event: str = "PreToolUse", source: Any = "user", matcher: Any = "") -> Any:
    return parse_hooks([({event: [{"matcher": matcher, "hooks": [declared]}]}, source, "s.json")])


def test_the_format_of_claude_settings_is_read_as_it_is() -> None:
    hooks, problems = parse_hooks([(json.loads(IN_THE_WILD), "project", ".claude/settings.json")])
    assert problems == ()
    assert [(hook.event, hook.matcher, hook.kind, hook.timeout_seconds, hook.name) for hook in hooks] == [
        ("PreToolUse", "Bash", "command", 60, "PreToolUse[0].hooks[0]"),
        ("PreToolUse", "Bash", "command", 10, "PreToolUse[0].hooks[1]"),
        ("PreToolUse", "Edit|MultiEdit|Write", "command", 60, "PreToolUse[1].hooks[0]"),
        ("PreToolUse", "mcp__.*", "http", 5, "PreToolUse[2].hooks[0]"),
        ("PostToolUse", "Edit|Write", "command", 60, "PostToolUse[0].hooks[0]"),
        ("Notification", "", "command", 60, "Notification[0].hooks[0]"),
        ("UserPromptSubmit", None, "command", 60, "UserPromptSubmit[0].hooks[0]"),
        ("Stop", None, "prompt", 60, "Stop[0].hooks[0]"),
        ("SessionStart", "startup|resume", "command", 60, "SessionStart[0].hooks[0]"),
    ]
    assert hooks[1].condition == "Bash(git push *)"
    assert hooks[3].headers == (("Authorization", "Bearer ${TEAM_TOKEN}"), ("X-Plain", "yes"))
    assert {(hook.source, hook.file) for hook in hooks} == {("project", ".claude/settings.json")}


@try_each("event", EVENTS)
def test_every_event_can_be_declared(event: str) -> None:
    hooks, problems = parse_one({"type": "command", "command": "true"}, event)
    assert [hook.event for hook in hooks] == [event]
    assert problems == ()


@try_each(
    ("declared", "path", "words"),
    [
        ([], "", "an object is expected"),
        ({"BeforeTool": []}, ".BeforeTool", "there is no event 'BeforeTool'"),
        ({"Stop": {}}, ".Stop", "a list is expected"),
        ({"Stop": ["x"]}, ".Stop[0]", "an object with `matcher` and `hooks`"),
        ({"Stop": [{}]}, ".Stop[0].hooks", "a list is expected"),
        ({"Stop": [{"matcher": 3, "hooks": []}]}, ".Stop[0].matcher", "a text is expected"),
        ({"PreToolUse": [{"matcher": "(", "hooks": []}]}, ".PreToolUse[0].matcher", "no regular expression"),
        ({"Stop": [{"hooks": ["x"]}]}, ".Stop[0].hooks[0]", "an object with `type`"),
    ],
)
def test_what_cannot_be_read_is_reported_with_file_and_place(declared: Any, path: str, words: str) -> None:
    hooks, problems = parse_hooks([(declared, "user", "s.json")])
    assert hooks == ()
    (problem,) = problems
    assert (problem.file, problem.path) == ("s.json", f"hooks{path}")
    assert words in problem.message


@try_each(
    ("declared", "below", "words"),
    [
        ({"type": "agent", "prompt": "x"}, ".type", "'agent' cannot"),
        ({"type": "python", "command": "os:abort"}, ".type", "'python' cannot"),
        ({}, ".type", "None cannot"),
        ({"type": "command"}, ".command", "a text is expected"),
        ({"type": "command", "command": " "}, ".command", "a text is expected"),
        ({"type": "command", "command": "a\0b"}, ".command", "a zero byte"),
        ({"type": "command", "command": "node", "args": ["x.js"]}, ".args", "into the command"),
        ({"type": "command", "command": "ls", "shell": "powershell"}, ".shell", "bash only"),
        ({"type": "command", "command": "ls", "if": 3}, ".if", "a permission rule"),
        ({"type": "http", "url": "file:///etc/passwd"}, ".url", "http:// or https://"),
        ({"type": "http", "url": "http://"}, ".url", "http:// or https://"),
        ({"type": "http", "url": "http://a:99999/"}, ".url", "no address"),
        ({"type": "http", "url": "http://[::1/"}, ".url", "no address"),
        ({"type": "http", "url": "http://a/", "headers": {"X": 1}}, ".headers", "an object of texts"),
        ({"type": "http", "url": "http://a/", "allowedEnvVars": "X"}, ".allowedEnvVars", "a list of names"),
        ({"type": "http", "url": "http://a/", "headers": {"X": "$KEY"}}, ".headers.X", "does not name KEY"),
        ({"type": "prompt"}, ".prompt", "a text is expected"),
    ],
)
def test_a_hook_that_cannot_be_run_is_told_loudly_and_not_run(declared: Any, below: str, words: str) -> None:
    hooks, problems = parse_one(declared)
    assert hooks == ()
    (problem,) = problems
    assert problem.path == f"hooks.PreToolUse[0].hooks[0]{below}"
    assert words in problem.message
    assert problem.message.endswith("the hook is NOT run")


@pytest.mark.parametrize("declared", [{"type": "agent"}, {"type": "command"}, "x"])
def test_a_policys_hook_that_cannot_be_run_is_kept_so_that_it_denies(declared: Any) -> None:
    (hook,), (problem,) = parse_one(declared, source="policy", matcher="Bash")
    assert hook.broken
    assert hook.must_run
    assert hook.matches("Bash")
    assert not hook.matches("Read")
    assert problem.message.endswith("what it would see is denied")


def test_a_policys_matcher_that_cannot_be_read_is_for_every_tool() -> None:
    (hook,), (_,) = parse_one({"type": "command", "command": "true"}, source="policy", matcher="(")
    assert hook.broken
    assert hook.matches("Read")


def test_a_policys_hook_of_an_event_without_decision_is_only_reported() -> None:
    hooks, problems = parse_one({"type": "agent"}, event="Stop", source="policy")
    assert hooks == ()
    assert len(problems) == 1


@try_each("timeout", [0, -1, "10", True, 1e9, float("nan"), [1]])
def test_a_wrong_time_limit_is_reported_and_does_not_cost_the_hook(timeout: Any) -> None:
    (hook,), (problem,) = parse_one({"type": "command", "command": "true", "timeout": timeout})
    assert hook.timeout_seconds == 60
    assert problem.path == "hooks.PreToolUse[0].hooks[0].timeout"


def test_a_condition_is_about_a_tool() -> None:
    _, (problem,) = parse_one({"type": "command", "command": "true", "if": "Bash(ls)"}, event="Stop")
    assert problem.path == "hooks.Stop[0].hooks[0].if"


def test_one_bad_hook_does_not_cost_the_others() -> None:
    groups = [{"matcher": "(", "hooks": []}, {"hooks": [{"type": "?"}, {"type": "command", "command": "true"}]}]
    hooks, problems = parse_hooks([({"Stop": "x", "PreToolUse": groups}, "user", "s.json")])
    assert [hook.name for hook in hooks] == ["PreToolUse[1].hooks[1]"]
    assert len(problems) == 3


def test_rows_name_each_hook_and_hide_what_an_address_holds() -> None:
    url = "https://me:secret@example.com/hook?key=secret#secret"
    hooks, _ = parse_one({"type": "http", "url": url, "headers": {"Authorization": "secret"}}, matcher="Bash")
    (row,) = format_hook_rows(hooks)
    assert row == {
        "event": "PreToolUse",
        "name": "PreToolUse[0].hooks[0]",
        "kind": "http",
        "shown": "https://example.com/hook?…",
        "matcher": "Bash",
        "condition": None,
        "timeout_ms": 60_000,
        "source": "user",
        "file": "s.json",
        "problem": None,
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)
HOOK = st.dictionaries(
    st.sampled_from(["type", "command", "url", "prompt", "timeout", "if", "headers", "allowedEnvVars", "shell"]),
    st.sampled_from(["command", "http", "prompt", "Bash(ls)", "http://a/", "(", ""]) | JSON,
)
GROUP = st.fixed_dictionaries(
    {}, optional={"matcher": st.sampled_from(["", "Bash", "("]) | JSON, "hooks": st.lists(HOOK) | JSON}
)
DECLARED = JSON | st.dictionaries(st.sampled_from(["PreToolUse", "Stop", "Wrong"]), st.lists(GROUP | JSON) | JSON)


@given(DECLARED, st.sampled_from(["policy", "user", "project"]))
def test_whatever_a_file_holds_is_read_or_reported(declared: Any, source: Any) -> None:
    hooks, problems = parse_hooks([(declared, source, "s.json")])
    assert all(isinstance(hook, Hook) and hook.event in EVENTS for hook in hooks)
    assert all(isinstance(problem, Problem) and problem.message for problem in problems)
    assert len(format_hook_rows(hooks)) == len(hooks)
