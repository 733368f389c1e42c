"""Which files are read, in which order, and what each of them may say."""

import json

import pytest

from ostler.server.settings import load_settings, resolve_default_mode, resolve_servers
from tests.server.settings.machine import FILES, PersonMachine, format_rules


def test_without_any_file_nothing_is_said(machine: PersonMachine) -> None:
    settings = machine.load()
    assert (settings.rules, settings.hooks, settings.problems, settings.project_effects.lines) == ((), (), (), ())
    assert settings.mode is None


def test_every_file_is_read_and_its_rules_know_their_source(machine: PersonMachine) -> None:
    for name in FILES:
        machine.write_permissions(name, deny=[f"Bash({name})"], allow=[f"Edit(/{name}.txt)"])
    settings = machine.load()
    assert settings.problems == ()
    denied = [(rule.source, rule.rule.content, rule.file) for rule in settings.rules if rule.behavior == "deny"]
    assert denied == [(name.split()[-1], name, str(machine.root / FILES[name])) for name in FILES]
    assert [rule.source for rule in machine.load_rules(trusted=True).find_deny_rules("Bash")] == [
        "policy", "local", "local", "project", "project", "user", "user"
    ]  # fmt: skip


def test_a_slash_starts_from_the_folder_that_the_settings_belong_to(machine: PersonMachine) -> None:
    machine.write_permissions("project", deny=["Read(/a)"])
    machine.write_permissions("claude user", deny=["Read(/b)"])
    machine.write_permissions("policy", deny=["Read(/c)"])
    rules = {rule.rule.text: rule for rule in machine.load_rules().find_deny_rules("Read")}
    for text, path in (
        ("Read(/a)", f"{machine.folder}/a"),
        ("Read(/b)", f"{machine.root}/me/b"),
        ("Read(/c)", "/c"),
    ):
        assert rules[text].matches_path(path, path)
        assert not rules[text].matches_path(f"{path}x", f"{path}x")


def test_in_a_repository_the_files_at_its_root_are_read_too_and_none_between(machine: PersonMachine) -> None:
    machine.git("init", "-q")
    machine.write_permissions("project", deny=["Bash(at the root)"])
    for name in ("a", "a/b"):
        (machine.folder / name / ".ostler").mkdir(parents=True)
        (machine.folder / name / ".ostler" / "settings.json").write_text(
            f'{{"permissions": {{"deny": ["Bash({name})"]}}}}'
        )
    settings = load_settings(str(machine.folder / "a" / "b"), machine.places)
    assert [rule.rule.content for rule in settings.rules] == ["a/b", "at the root"]


def test_what_a_repository_forbids_does_not_depend_on_where_the_session_starts(machine: PersonMachine) -> None:
    machine.git("init", "-q")
    (machine.folder / "app").mkdir()
    machine.write_permissions("project", deny=["Read(secrets/**)"], allow=["Read(notes/**)"])
    settings = load_settings(str(machine.folder / "app"), machine.places)
    deny, allow = settings.rules
    for path in (f"{machine.folder}/secrets/key", f"{machine.folder}/app/secrets/key"):
        assert deny.matches_path(path, path)
    assert not allow.matches_path(f"{machine.folder}/notes/a", f"{machine.folder}/notes/a")


def test_outside_of_a_repository_only_the_folder_itself_counts(machine: PersonMachine) -> None:
    machine.write_permissions("project", deny=["Bash"])
    (machine.folder / "below").mkdir()
    assert load_settings(str(machine.folder / "below"), machine.places).rules == ()


def test_in_the_home_folder_the_users_own_file_is_no_project(machine: PersonMachine) -> None:
    machine.write_permissions("claude user", allow=["Bash(x)"])
    settings = load_settings(str(machine.root / "me"), machine.places)
    assert format_rules(settings.rules) == ["allow Bash(x) (user)"]
    assert settings.project_effects.lines == ()


def test_the_format_of_claude_files_is_read_as_it_is(machine: PersonMachine) -> None:
    machine.write(
        "claude user",
        {
            "$schema": "https://example.com/schema.json",
            "model": "opus",
            "permissions": {
                "allow": ["Bash(npm run lint)", "Read(~/.zshrc)"],
                "ask": ["Bash(git push:*)"],
                "deny": ["WebFetch", "Read(./.env)"],
                "defaultMode": "acceptEdits",
                "additionalDirectories": ["../docs/"],
                "disableBypassPermissionsMode": "disable",
                "somethingNew": True,
            },
            "env": {"FOO": "bar"},
            "hooks": {
                "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check"}]}],
                "AnEventOfTheirs": [{"hooks": []}],
            },
            "enableAllProjectMcpServers": True,
        },
    )
    settings = machine.load()
    assert settings.problems == ()
    assert len(settings.rules) == 5
    assert settings.mode == "acceptEdits"
    assert settings.additional_directories == ("../docs/",)
    assert settings.bypass_disabled
    assert settings.env == {"FOO": "bar"}
    [hook] = settings.hooks
    assert (hook.event, hook.matcher, hook.source) == ("PreToolUse", "Bash", "user")
    assert hook.hook == {"type": "command", "command": "check"}


def test_single_values_come_from_the_nearest_file_and_policy_is_above_all(machine: PersonMachine) -> None:
    machine.write("claude user", {"permissions": {"defaultMode": "plan"}, "env": {"A": "claude", "B": "claude"}})
    assert resolve_default_mode(machine.load(), True) == "plan"
    machine.write("user", {"permissions": {"mode": "acceptEdits"}, "env": {"A": "ours"}})
    assert resolve_default_mode(machine.load(), True) == "acceptEdits"
    assert machine.load().env == {"A": "ours", "B": "claude"}
    machine.write("local", {"permissions": {"mode": "dontAsk"}})
    assert resolve_default_mode(machine.load(), True) == "dontAsk"
    machine.write("policy", {"permissions": {"frozen_mode": "default"}, "env": {"A": "policy"}})
    assert resolve_default_mode(machine.load(), True) == "default"
    assert machine.load().frozen_mode == "default"
    assert machine.load().env["A"] == "policy"


def test_policy_can_forbid_other_sources_allow_rules(machine: PersonMachine) -> None:
    machine.write("policy", {"permissions": {"forbid_other_allow_rules": True, "allow": ["Bash(ours)"]}})
    machine.write_permissions("user", allow=["Bash(mine)"], deny=["Bash(bad)"])
    rules = machine.load_rules(trusted=True)
    assert format_rules(rules.find_allow_rules("Bash")) == ["allow Bash(ours) (policy)"]
    assert format_rules(rules.find_deny_rules("Bash")) == ["deny Bash(bad) (user)"]


@pytest.mark.parametrize("key", ["frozen_mode", "forbid_other_allow_rules"])
def test_only_a_policy_file_has_the_settings_of_a_policy(machine: PersonMachine, key: str) -> None:
    machine.write("user", {"permissions": {key: "default"}})
    [problem] = machine.load().problems
    assert key in problem.message


def test_a_files_hooks_and_servers_are_kept_with_their_source(machine: PersonMachine) -> None:
    machine.write(
        "project",
        {
            "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "a"}, {"type": "http", "url": "b"}]}]},
            "mcp_servers": {"db": {"command": "db-server", "args": ["-x"]}},
        },
    )
    settings = machine.load()
    assert settings.problems == ()
    assert [(hook.event, hook.matcher, hook.source) for hook in settings.hooks] == [("Stop", None, "project")] * 2
    [server] = settings.mcp_servers
    assert (server.name, server.source, server.entry["args"]) == ("db", "project", ["-x"])


def test_servers_of_mcp_json_are_the_projects_and_nothing_else_in_it_counts(machine: PersonMachine) -> None:
    entry = {"type": "http", "url": "https://x.example/mcp", "timeout": 5}
    content = {"mcpServers": {"web": entry}, "permissions": {"allow": ["Bash"]}, "hooks": {"Stop": 1}, "inputs": []}
    (machine.folder / ".mcp.json").write_text(json.dumps(content))
    settings = machine.load()
    assert (settings.problems, settings.rules, settings.hooks) == ((), (), ())
    [server] = settings.mcp_servers
    assert (server.name, server.source, server.entry) == ("web", "project", entry)
    assert resolve_servers(settings, trusted=False) == {}
    assert set(resolve_servers(settings, trusted=True)) == {"web"}


def test_a_broken_mcp_json_is_reported_with_its_position(machine: PersonMachine) -> None:
    path = machine.folder / ".mcp.json"
    path.write_text('{"mcpServers": {\n  "good": {"command": "x"},\n  "bad": {"command": 1},\n  "b d": {}}}')
    settings = machine.load()
    assert [str(problem).removeprefix(str(path)) for problem in settings.problems] == [
        ":3:10: command is a text.",
        ":4:10: 'b d' is no name of a server.",
    ]
    assert [server.name for server in settings.mcp_servers] == ["good"]
    path.write_text('{"mcpServers": ')
    [problem] = machine.load().problems
    assert problem.file == str(path)
    path.write_text("[]")
    assert "an object" in machine.load().problems[0].message


def test_the_root_of_a_repository_has_an_mcp_json_too_and_the_nearer_one_counts(machine: PersonMachine) -> None:
    machine.git("init", "-q")
    below = machine.folder / "below"
    below.mkdir()
    (machine.folder / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "far"}, "b": {"command": "b"}}}')
    (below / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "near"}}}')
    acting = resolve_servers(load_settings(str(below), machine.places), trusted=True)
    assert {name: server.entry["command"] for name, server in acting.items()} == {"a": "near", "b": "b"}
