"""Rules about commands are prepared once for each set, and say what they say one by one."""

from ostler.protocol import times
from ostler.protocol.ids import SessionId
from ostler.server.engine.permissions.rule_match import allowing, forbidding
from ostler.server.settings import Origin, RuleSet, SourcedRule, rules_of
from ostler.tools.context import Surroundings
from ostler.tools.permissions import parse_rule
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.bash_policy import subject

ORIGIN = Origin("session", None, "/p", "/p", "/home/me")
HERE = Surroundings(SessionId("s_1"), "/p", "/p", ("/p",), "default")


def allowed(rules: RuleSet, command: str) -> str | None:
    found = allowing(rules, Bash(), subject(command, "/p"), HERE, lambda _: False)
    return found.rule.text if found else None


def denied(rules: RuleSet, command: str) -> str | None:
    found = forbidding(rules, "deny", Bash(), subject(command, "/p"))
    return f"{found.rule.rule.text}{'?' if found.unsure else ''}" if found else None


def test_they_are_prepared_when_first_asked_for_and_not_again() -> None:
    rules = RuleSet.of(rules_of({"deny": ["Bash(rm:*)"], "allow": ["Bash(make:*)"]}, ORIGIN), {})
    first = rules.commands("deny", "Bash")
    assert rules.commands("deny", "Bash") is first
    assert first.contents.texts == ("rm:*",)
    assert rules.commands("allow", "Bash").contents.texts == ("make:*",)


def test_one_that_has_ended_counts_no_more() -> None:
    kept = SourcedRule(parse_rule("Bash(rm:*)"), "deny", "session", None, "/p")
    ended = SourcedRule(parse_rule("Bash(make:*)"), "deny", "session", None, "/p", expires_at=times.now())
    rules = RuleSet.of([kept, ended], {})
    assert rules.commands("deny", "Bash").rules == (kept,)
    assert denied(rules, "make x") is None
    assert denied(rules, "rm x") == "Bash(rm:*)"


def test_of_a_thousand_rules_the_right_one_is_found() -> None:
    lists = {
        "deny": [f"Bash(tool{number} part:*)" for number in range(500)] + ["Bash(rm:*)"],
        "allow": [f"Bash(make target{number}:*)" for number in range(500)],
    }
    rules = RuleSet.of(rules_of(lists, ORIGIN), {})
    assert denied(rules, "sudo tool321 part x") == "Bash(tool321 part:*)"
    assert denied(rules, "tool321 other") is None
    assert denied(rules, "ls; /bin/rm x") == "Bash(rm:*)"
    assert denied(rules, "$X part") == "Bash(tool0 part:*)?"
    assert allowed(rules, "make target7 -x") == "Bash(make target7:*)"
    assert allowed(rules, "make target7 && make other") is None


def test_a_rule_for_one_part_lets_the_whole_pass_where_the_rest_only_reads_inside() -> None:
    rules = RuleSet.of(rules_of({"allow": ["Bash(make:*)"]}, ORIGIN), {})
    assert allowed(rules, "make | head -3 && cat x") == "Bash(make:*)"
    assert allowed(rules, "make && cat /etc/hostname") is None
    assert allowed(rules, "cat x") is None, "it passes by itself, and not by a rule"
    assert allowed(rules, "make > x") is None


def test_a_rule_about_all_commands_comes_before_every_other() -> None:
    rules = RuleSet.of(rules_of({"deny": ["Bash(rm:*)", "Bash"], "allow": ["Bash(make:*)", "Bash"]}, ORIGIN), {})
    assert denied(rules, "rm x") == "Bash"
    assert allowed(rules, "make") == "Bash"
