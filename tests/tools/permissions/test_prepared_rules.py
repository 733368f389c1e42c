"""Rules about commands are prepared once for each rule set, and decide as they do one by one."""

from ostler.protocol import times
from ostler.protocol.ids import SessionId
from ostler.server.engine.permissions.rule_match import find_allow_rule, find_forbidding_rule
from ostler.server.settings import Origin, RuleSet, SourcedRule, parse_rules
from ostler.tools.context import SessionView
from ostler.tools.permissions import parse_rule
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.bash_policy import find_subject

ORIGIN = Origin("session", None, "/p", "/p", "/home/me")
HERE = SessionView(SessionId("s_1"), "/p", "/p", ("/p",), "default")


def find_allowing_text(rules: RuleSet, command: str) -> str | None:
    found = find_allow_rule(rules, Bash(), find_subject(command, "/p"), HERE, lambda _: False)
    return found.rule.text if found else None


def find_denying_text(rules: RuleSet, command: str) -> str | None:
    found = find_forbidding_rule(rules, "deny", Bash(), find_subject(command, "/p"))
    return f"{found.rule.rule.text}{'?' if found.unsure else ''}" if found else None


def test_they_are_prepared_when_first_asked_for_and_not_again() -> None:
    rules = RuleSet.of(parse_rules({"deny": ["Bash(rm:*)"], "allow": ["Bash(make:*)"]}, ORIGIN), {})
    first = rules.find_command_rules("deny", "Bash")
    assert rules.find_command_rules("deny", "Bash") is first
    assert first.contents.texts == ("rm:*",)
    assert rules.find_command_rules("allow", "Bash").contents.texts == ("make:*",)


def test_one_that_has_ended_counts_no_more() -> None:
    kept = SourcedRule(parse_rule("Bash(rm:*)"), "deny", "session", None, "/p")
    ended = SourcedRule(parse_rule("Bash(make:*)"), "deny", "session", None, "/p", expires_at=times.now())
    rules = RuleSet.of([kept, ended], {})
    assert rules.find_command_rules("deny", "Bash").rules == (kept,)
    assert find_denying_text(rules, "make x") is None
    assert find_denying_text(rules, "rm x") == "Bash(rm:*)"


def test_of_a_thousand_rules_the_right_one_is_found() -> None:
    lists = {
        "deny": [f"Bash(tool{number} part:*)" for number in range(500)] + ["Bash(rm:*)"],
        "allow": [f"Bash(make target{number}:*)" for number in range(500)],
    }
    rules = RuleSet.of(parse_rules(lists, ORIGIN), {})
    assert find_denying_text(rules, "sudo tool321 part x") == "Bash(tool321 part:*)"
    assert find_denying_text(rules, "tool321 other") is None
    assert find_denying_text(rules, "ls; /bin/rm x") == "Bash(rm:*)"
    assert (find_denying_text(rules, "$X part") or "").endswith("?")  # it may be any of them
    assert find_allowing_text(rules, "make target7 -x") == "Bash(make target7:*)"
    assert find_allowing_text(rules, "make target7 && make other") is None


def test_a_rule_for_one_part_lets_the_whole_pass_where_the_rest_only_reads_inside() -> None:
    rules = RuleSet.of(parse_rules({"allow": ["Bash(make:*)"]}, ORIGIN), {})
    assert find_allowing_text(rules, "make | head -3 && cat x") == "Bash(make:*)"
    assert find_allowing_text(rules, "make && cat /etc/hostname") is None
    assert find_allowing_text(rules, "cat x") is None, "it passes by itself, and not by a rule"
    assert find_allowing_text(rules, "make > x") is None


def test_a_rule_about_all_commands_comes_before_every_other() -> None:
    rules = RuleSet.of(parse_rules({"deny": ["Bash(rm:*)", "Bash"], "allow": ["Bash(make:*)", "Bash"]}, ORIGIN), {})
    assert find_denying_text(rules, "rm x") == "Bash"
    assert find_allowing_text(rules, "make") == "Bash"
