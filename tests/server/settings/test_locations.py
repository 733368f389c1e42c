"""Which files are read, in which order, and what each of them may say."""

import json

import pytest

from ostler.server.settings import acting_servers, default_mode, load_settings
from tests.server.settings.machine import FILES, Desk, texts


def test_without_any_file_nothing_is_said(desk: Desk) -> None:
    settings = desk.load()
    assert (settings.rules, settings.hooks, settings.problems, settings.project_acts.lines) == ((), (), (), ())
    assert settings.mode is None


def test_every_file_is_read_and_its_rules_know_their_source(desk: Desk) -> None:
    for name in FILES:
        desk.permit(name, deny=[f"Bash({name})"], allow=[f"Edit(/{name}.txt)"])
    settings = desk.load()
    assert settings.problems == ()
    denied = [(rule.source, rule.rule.content, rule.file) for rule in settings.rules if rule.behavior == "deny"]
    assert denied == [(name.split()[-1], name, str(desk.root / FILES[name])) for name in FILES]
    assert [rule.source for rule in desk.rules(trusted=True).denies("Bash")] == [
        "policy", "local", "local", "project", "project", "user", "user"
    ]  # fmt: skip


def test_a_slash_starts_from_the_folder_that_the_settings_belong_to(desk: Desk) -> None:
    desk.permit("project", deny=["Read(/a)"])
    desk.permit("claude user", deny=["Read(/b)"])
    desk.permit("policy", deny=["Read(/c)"])
    rules = {rule.rule.text: rule for rule in desk.rules().denies("Read")}
    for text, path in (
        ("Read(/a)", f"{desk.folder}/a"),
        ("Read(/b)", f"{desk.root}/me/b"),
        ("Read(/c)", "/c"),
    ):
        assert rules[text].speaks_of_path(path, path)
        assert not rules[text].speaks_of_path(f"{path}x", f"{path}x")


def test_in_a_repository_the_files_at_its_root_are_read_too_and_none_between(desk: Desk) -> None:
    desk.git("init", "-q")
    desk.permit("project", deny=["Bash(at the root)"])
    for name in ("a", "a/b"):
        (desk.folder / name / ".ostler").mkdir(parents=True)
        (desk.folder / name / ".ostler" / "settings.json").write_text(
            f'{{"permissions": {{"deny": ["Bash({name})"]}}}}'
        )
    settings = load_settings(str(desk.folder / "a" / "b"), desk.places)
    assert [rule.rule.content for rule in settings.rules] == ["a/b", "at the root"]


def test_what_a_repository_forbids_does_not_depend_on_where_the_session_starts(desk: Desk) -> None:
    desk.git("init", "-q")
    (desk.folder / "app").mkdir()
    desk.permit("project", deny=["Read(secrets/**)"], allow=["Read(notes/**)"])
    settings = load_settings(str(desk.folder / "app"), desk.places)
    deny, allow = settings.rules
    for path in (f"{desk.folder}/secrets/key", f"{desk.folder}/app/secrets/key"):
        assert deny.speaks_of_path(path, path)
    assert not allow.speaks_of_path(f"{desk.folder}/notes/a", f"{desk.folder}/notes/a")


def test_outside_of_a_repository_only_the_folder_itself_counts(desk: Desk) -> None:
    desk.permit("project", deny=["Bash"])
    (desk.folder / "below").mkdir()
    assert load_settings(str(desk.folder / "below"), desk.places).rules == ()


def test_in_the_home_folder_the_users_own_file_is_no_project(desk: Desk) -> None:
    desk.permit("claude user", allow=["Bash(x)"])
    settings = load_settings(str(desk.root / "me"), desk.places)
    assert texts(settings.rules) == ["allow Bash(x) (user)"]
    assert settings.project_acts.lines == ()


def test_the_format_of_claude_files_is_read_as_it_is(desk: Desk) -> None:
    desk.write(
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
    settings = desk.load()
    assert settings.problems == ()
    assert len(settings.rules) == 5
    assert settings.mode == "acceptEdits"
    assert settings.additional_directories == ("../docs/",)
    assert settings.bypass_disabled
    assert settings.env == {"FOO": "bar"}
    [hook] = settings.hooks
    assert (hook.event, hook.matcher, hook.source) == ("PreToolUse", "Bash", "user")
    assert hook.hook == {"type": "command", "command": "check"}


def test_single_values_come_from_the_nearest_file_and_policy_is_above_all(desk: Desk) -> None:
    desk.write("claude user", {"permissions": {"defaultMode": "plan"}, "env": {"A": "claude", "B": "claude"}})
    assert default_mode(desk.load(), True) == "plan"
    desk.write("user", {"permissions": {"mode": "acceptEdits"}, "env": {"A": "ours"}})
    assert default_mode(desk.load(), True) == "acceptEdits"
    assert desk.load().env == {"A": "ours", "B": "claude"}
    desk.write("local", {"permissions": {"mode": "dontAsk"}})
    assert default_mode(desk.load(), True) == "dontAsk"
    desk.write("policy", {"permissions": {"frozen_mode": "default"}, "env": {"A": "policy"}})
    assert default_mode(desk.load(), True) == "default"
    assert desk.load().frozen_mode == "default"
    assert desk.load().env["A"] == "policy"


def test_policy_can_forbid_other_sources_allow_rules(desk: Desk) -> None:
    desk.write("policy", {"permissions": {"forbid_other_allow_rules": True, "allow": ["Bash(ours)"]}})
    desk.permit("user", allow=["Bash(mine)"], deny=["Bash(bad)"])
    rules = desk.rules(trusted=True)
    assert texts(rules.allows("Bash")) == ["allow Bash(ours) (policy)"]
    assert texts(rules.denies("Bash")) == ["deny Bash(bad) (user)"]


@pytest.mark.parametrize("key", ["frozen_mode", "forbid_other_allow_rules"])
def test_only_a_policy_file_has_the_settings_of_a_policy(desk: Desk, key: str) -> None:
    desk.write("user", {"permissions": {key: "default"}})
    [problem] = desk.load().problems
    assert key in problem.message


def test_a_files_hooks_and_servers_are_kept_with_their_source(desk: Desk) -> None:
    desk.write(
        "project",
        {
            "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "a"}, {"type": "http", "url": "b"}]}]},
            "mcp_servers": {"db": {"command": "db-server", "args": ["-x"]}},
        },
    )
    settings = desk.load()
    assert settings.problems == ()
    assert [(hook.event, hook.matcher, hook.source) for hook in settings.hooks] == [("Stop", None, "project")] * 2
    [server] = settings.mcp_servers
    assert (server.name, server.source, server.entry["args"]) == ("db", "project", ["-x"])


def test_servers_of_mcp_json_are_the_projects_and_nothing_else_in_it_counts(desk: Desk) -> None:
    entry = {"type": "http", "url": "https://x.example/mcp", "timeout": 5}
    content = {"mcpServers": {"web": entry}, "permissions": {"allow": ["Bash"]}, "hooks": {"Stop": 1}, "inputs": []}
    (desk.folder / ".mcp.json").write_text(json.dumps(content))
    settings = desk.load()
    assert (settings.problems, settings.rules, settings.hooks) == ((), (), ())
    [server] = settings.mcp_servers
    assert (server.name, server.source, server.entry) == ("web", "project", entry)
    assert acting_servers(settings, trusted=False) == {}
    assert set(acting_servers(settings, trusted=True)) == {"web"}


def test_a_broken_mcp_json_is_reported_with_its_position(desk: Desk) -> None:
    path = desk.folder / ".mcp.json"
    path.write_text('{"mcpServers": {\n  "good": {"command": "x"},\n  "bad": {"command": 1},\n  "b d": {}}}')
    settings = desk.load()
    assert [str(problem).removeprefix(str(path)) for problem in settings.problems] == [
        ":3:10: command is a text.",
        ":4:10: 'b d' is no name of a server.",
    ]
    assert [server.name for server in settings.mcp_servers] == ["good"]
    path.write_text('{"mcpServers": ')
    [problem] = desk.load().problems
    assert problem.file == str(path)
    path.write_text("[]")
    assert "an object" in desk.load().problems[0].message


def test_the_root_of_a_repository_has_an_mcp_json_too_and_the_nearer_one_counts(desk: Desk) -> None:
    desk.git("init", "-q")
    below = desk.folder / "below"
    below.mkdir()
    (desk.folder / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "far"}, "b": {"command": "b"}}}')
    (below / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "near"}}}')
    acting = acting_servers(load_settings(str(below), desk.places), trusted=True)
    assert {name: server.entry["command"] for name, server in acting.items()} == {"a": "near", "b": "b"}
