"""Rules: read, compared by exact text, and closed where they are not understood."""

import pytest

from ostler.server.engine.rules import BEHAVIORS, BadRule, Behavior, RuleBook, check_rules, parse_rule
from ostler.tools.bash import Bash
from ostler.tools.edit import Edit
from ostler.tools.glob import Glob
from ostler.tools.grep import Grep
from ostler.tools.read import Read
from ostler.tools.tool import AnyTool, ToolInput
from ostler.tools.write import Write


def given(tool: AnyTool, **values: str) -> ToolInput:
    parsed: ToolInput = tool.parse(values)
    return parsed


TOOLS = ("Bash", "Read", "Edit")
COMMAND = given(Bash(), command="npm test")


@pytest.mark.parametrize(
    ("text", "tool", "content"),
    [
        ("Bash", "Bash", None),
        (" Bash ", "Bash", None),
        ("Bash()", "Bash", None),
        ("Bash(*)", "Bash", None),
        ("Bash(npm test)", "Bash", "npm test"),
        ("Bash(echo (a) && (b))", "Bash", "echo (a) && (b)"),
        ("Bash(a\nb)", "Bash", "a\nb"),
        ("mcp__server__tool", "mcp__server__tool", None),
        ("Read(/etc/passwd)", "Read", "/etc/passwd"),
    ],
)
def test_a_rule_is_a_tool_and_perhaps_a_content(text: str, tool: str, content: str | None) -> None:
    rule = parse_rule(text, "allow", "session")
    assert (rule.tool, rule.content, rule.source) == (tool, content, "session")


@pytest.mark.parametrize(
    "text", ["", " ", "()", "(npm test)", "Bash(npm test", "Bash npm", "Bash(x) y", "1Bash", "Ba*"]
)
def test_what_is_no_rule_is_said_to_be_none(text: str) -> None:
    with pytest.raises(BadRule, match="is no rule"):
        parse_rule(text, "deny", "session")
    assert len(check_rules({"deny": [text], "allow": ["Bash"]}, TOOLS)) == 1


def test_good_rules_have_no_problems() -> None:
    assert check_rules({"allow": ["Bash", "Read(a)"], "deny": [], "ask": ["Edit", "FromAPlugIn"]}, TOOLS) == []


def test_a_rule_that_names_a_tool_almost_is_reported() -> None:
    [problem] = check_rules({"deny": ["bash(rm)"]}, TOOLS)
    assert "bash" in problem
    assert "Bash" in problem


def test_brackets_in_a_command_are_text_and_in_a_path_a_pattern() -> None:
    assert not parse_rule("Bash([ -f a ])", "deny", "session").is_pattern
    assert parse_rule("Read([ab])", "deny", "session").is_pattern


def test_exact_text_is_compared_exactly() -> None:
    book = RuleBook.of_session({"allow": ["Bash(npm test)"]})
    assert book.find("allow", Bash(), COMMAND) is not None
    for other in ("npm test ", "npm  test", "npm test && rm -rf /", "NPM test", "npm"):
        assert book.find("allow", Bash(), given(Bash(), command=other)) is None
    assert book.find("deny", Bash(), COMMAND) is None


def test_a_pattern_never_allows_by_guess() -> None:
    for pattern in ("Bash(npm:*)", "Bash(npm *)", "Bash(npm tes?)"):
        book = RuleBook.of_session({"allow": [pattern]})
        assert book.find("allow", Bash(), COMMAND) is None


@pytest.mark.parametrize("pattern", ["Bash(npm:*)", "Bash(rm *)", "Bash(*rm*)", "Bash(prompt: anything)"])
@pytest.mark.parametrize("behavior", ["ask", "deny"])
def test_a_pattern_that_forbids_may_mean_this_call(pattern: str, behavior: Behavior) -> None:
    book = RuleBook.of_session({behavior: [pattern]})
    found = book.find(behavior, Bash(), COMMAND)
    assert found is not None
    assert found.unsure


def test_an_exact_rule_counts_above_a_pattern_that_is_unsure() -> None:
    book = RuleBook.of_session({"deny": ["Bash(npm:*)", "Bash(npm test)"]})
    found = book.find("deny", Bash(), COMMAND)
    assert found is not None
    assert (found.unsure, found.rule.text) == (False, "Bash(npm test)")


def test_rules_of_edit_bind_write_and_rules_of_read_bind_the_searches() -> None:
    book = RuleBook.of_session({"deny": ["Edit", "Read"]})
    assert book.find("deny", Write(), given(Write(), file_path="/a", content=""))
    assert book.find("deny", Edit(), given(Edit(), file_path="/a", old_string="a", new_string="b"))
    assert book.find("deny", Grep(), given(Grep(), pattern="x"))
    assert book.find("deny", Glob(), given(Glob(), pattern="x"))
    assert book.find("deny", Read(), given(Read(), file_path="/a"))
    assert book.find("deny", Bash(), COMMAND) is None


def test_rules_of_write_do_not_bind_edit() -> None:
    book = RuleBook.of_session({"allow": ["Write"]})
    assert book.find("allow", Edit(), given(Edit(), file_path="/a", old_string="a", new_string="b")) is None


def test_tools_that_are_denied_as_a_whole_are_known() -> None:
    book = RuleBook.of_session({"deny": ["Bash", "Read(/etc)"], "ask": ["Edit"], "allow": ["Grep"]})
    assert book.denied_tools() == {"Bash"}


def test_no_rules_say_nothing() -> None:
    for behavior in BEHAVIORS:
        assert RuleBook().find(behavior, Bash(), COMMAND) is None
    assert RuleBook.of_session({}).denied_tools() == frozenset()
