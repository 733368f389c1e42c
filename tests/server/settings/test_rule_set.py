"""The rules in force: found by tool, in the order of their sources, while they last."""

from ostler.server.settings import Origin, RuleSet, parse_rules, resolve_rules
from tests.server.settings.machine import PersonMachine, format_rules
from tests.support.tables import try_each

ORIGIN = Origin("session", None, "/p", "/p", "/h")


def make_rules(*denied: str, allow: tuple[str, ...] = ()) -> RuleSet:
    return RuleSet.of(parse_rules({"deny": denied, "allow": allow}, ORIGIN), {"Task": "Agent", "Skill": "Skill"})


@try_each(
    ("rule", "tools", "others"),
    [
        ("Edit(a)", ["Edit", "Write", "NotebookEdit"], ["Read", "Bash", "Grep"]),
        ("Read(a)", ["Read", "Grep", "Glob", "LSP"], ["Edit", "Write", "Bash"]),
        ("Write(a)", ["Write"], ["Edit", "NotebookEdit"]),
        ("Grep", ["Grep"], ["Read", "Glob"]),
        ("Task(Explore)", ["Agent", "Task"], ["Bash"]),
        ("Agent(Explore)", ["Agent", "Task"], ["Skill"]),
        ("mcp__db", ["mcp__db__query", "mcp__db__x__y", "mcp__db"], ["mcp__dbs__query", "mcp__web__query"]),
        ("mcp__db__*", ["mcp__db__query"], ["mcp__dbs__query"]),
        ("mcp__db__query", ["mcp__db__query"], ["mcp__db__drop"]),
    ],
)
def test_a_rule_binds_the_tools_that_it_covers_and_no_others(rule: str, tools: list[str], others: list[str]) -> None:
    rules = make_rules(rule)
    assert [tool for tool in tools if not rules.find_deny_rules(tool)] == []
    assert [tool for tool in others if rules.find_deny_rules(tool)] == []


def test_a_servers_tool_is_allowed_by_the_servers_own_name_never_by_splitting() -> None:
    rules = make_rules(allow=("mcp__db", "mcp__web__get"))
    # It may as well be the tool of a server called `db__x`.
    assert rules.find_allow_rules("mcp__db__x__y") == ()
    assert len(rules.find_allow_rules("mcp__db__query", also=["mcp__db"])) == 1
    assert len(rules.find_allow_rules("mcp__web__get")) == 1
    assert rules.find_allow_rules("mcp__web__put", also=["mcp__web"]) == ()


def test_rules_are_listed_by_the_order_of_their_sources(machine: PersonMachine) -> None:
    machine.write_permissions("user", allow=["Bash(a)"])
    machine.write_permissions("local", allow=["Bash(b)"])
    machine.write_permissions("project", allow=["Bash(c)"])
    machine.write_permissions("policy", allow=["Bash(d)"])
    session = parse_rules({"allow": ["Bash(e)"]}, ORIGIN)
    flags = parse_rules({"allow": ["Bash(f)"]}, Origin("flag", None, "/p", "/p", "/h"))
    rules = resolve_rules(machine.load(), True, session, flags)
    assert [rule.source for rule in rules.find_allow_rules("Bash")] == [
        "policy",
        "flag",
        "session",
        "local",
        "project",
        "user",
    ]


def test_expired_rules_do_not_count(machine: PersonMachine) -> None:
    expires = {" Bash(old)": "2020-01-01T00:00:00Z", "Bash(new)": "2099-01-01T01:00:00+01:00"}
    machine.write("user", {"permissions": {"allow": ["Bash(old) ", "Bash(new)"], "expires": expires}})
    rules = machine.load_rules()
    assert format_rules(rules.find_allow_rules("Bash")) == ["allow Bash(new) (user)"]
    assert rules.next_expiry == "2099-01-01T00:00:00.000Z"
    # Listed all the same: a person may want to see what has ended.
    assert len(machine.load().rules) == 2


def test_a_rule_that_ends_while_its_set_is_in_use_is_left_out() -> None:
    old, new = parse_rules({"allow": ["Bash(a)", "Bash(b)"]}, ORIGIN, {"Bash(a)": "2020-01-01T00:00:00.000Z"})
    rules = RuleSet.of([old, new], {})
    assert rules.find_allow_rules("Bash") == (new,)


def test_tools_that_are_denied_as_a_whole_are_known() -> None:
    assert make_rules("Bash", "Task(*)", "Edit(a)", "mcp__db").list_denied_tools() == {"Bash", "Agent", "mcp__db"}
    assert make_rules("Read").list_denied_tools() == {"Read", "Grep", "Glob", "LSP"}


def test_stored_rules_that_cannot_be_read_any_more_never_allow() -> None:
    rules = parse_rules({"allow": ["Bash()"], "deny": ["Edit([)", "()"]}, ORIGIN)
    assert format_rules(rules) == ["ask Edit([) (session)"]


def test_a_rule_without_a_path_speaks_of_every_path() -> None:
    [rule] = parse_rules({"deny": ["Read"]}, ORIGIN)
    assert rule.matches_path("/a", "/b")


def test_what_forbids_looks_at_either_path_and_what_allows_at_both() -> None:
    deny, allow = parse_rules({"deny": ["Read(/a/**)"], "allow": ["Read(/a/**)"]}, ORIGIN)
    for written, real, both in (("/p/a/x", "/p/a/x", True), ("/p/a/x", "/etc/x", False), ("/etc/x", "/p/a/x", False)):
        assert deny.matches_path(written, real)
        assert allow.matches_path(written, real) is both
