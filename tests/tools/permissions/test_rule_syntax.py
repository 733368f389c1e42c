"""Rules as people write them, and as they get them wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.tools.permissions import BadRule, Rule, format_rule, is_whole, matches_text, parse_rule
from tests.support.tables import try_each


@try_each(
    ("text", "tool", "content"),
    [
        ("Bash", "Bash", None),
        ("  Bash ", "Bash", None),
        ("Bash(npm test)", "Bash", "npm test"),
        ("Bash (npm test)", "Bash", "npm test"),
        ("Bash(echo (a) && (b))", "Bash", "echo (a) && (b)"),
        (r"Bash(echo \(a)", "Bash", "echo (a"),
        (r"Bash(echo a\))", "Bash", "echo a)"),
        (r"Bash(grep a\.b\\c)", "Bash", r"grep a\.b\\c"),
        ("Bash(a\nb)", "Bash", "a\nb"),
        ("Bash(git diff:*)", "Bash", "git diff:*"),
        ("Bash(*)", "Bash", None),
        ("Bash(:*)", "Bash", None),
        ("Read(~/.ssh/**)", "Read", "~/.ssh/**"),
        ("Edit(**)", "Edit", "**"),
        ("WebFetch(domain:Example.COM.)", "WebFetch", "domain:example.com"),
        ("WebFetch(domain:*.example.com)", "WebFetch", "domain:*.example.com"),
        ("WebFetch(domain:127.0.0.1)", "WebFetch", "domain:127.0.0.1"),
        ("WebFetch(domain:[::1])", "WebFetch", "domain:[::1]"),
        ("WebFetch(domain:*)", "WebFetch", None),
        ("Agent(Explore)", "Agent", "Explore"),
        ("Skill(deploy)", "Skill", "deploy"),
        ("Skill(deploy:*)", "Skill", "deploy:*"),
        ("Config(model.name)", "Config", "model.name"),
        ("mcp__db", "mcp__db", None),
        ("mcp__db__*", "mcp__db", None),
        ("mcp__db__query", "mcp__db__query", None),
        ("mcp__db__query(*)", "mcp__db__query", None),
        ("FromAPlugIn(anything at all)", "FromAPlugIn", "anything at all"),
    ],
)
def test_a_rule_is_a_tool_and_perhaps_a_content(text: str, tool: str, content: str | None) -> None:
    rule = parse_rule(text)
    assert (rule.tool, rule.content, rule.text) == (tool, content, text.strip())


@try_each(
    ("text", "position", "words"),
    [
        ("", 0, "begins with the name of a tool"),
        ("(npm test)", 0, "begins with the name of a tool"),
        ("1Bash", 0, "begins with the name of a tool"),
        ("Ba*", 2, "without *"),
        ("*", 0, "begins with"),
        ("Bash npm", 5, "write Tool or Tool(content)"),
        ("Bash(npm test", 13, "never closed"),
        ("Bash(a) b", 9, "behind the last parenthesis"),
        ("Bash(a)b)", 6, "never opened"),
        ("Bash(a(b)", 6, "never closed"),
        ("Bash()", 5, "empty"),
        ("Bash(  )", 5, "empty"),
        ("  Bash()", 7, "empty"),
        ("Bash(a\0b)", 6, "cannot be seen"),
        ("Bash(a\ud800)", 6, "cannot be seen"),
        ("Read()", 5, "empty"),
        ("Read( a)", 5, "space"),
        ("Read(a )", 6, "space"),
        ("Read(!a)", 5, "negated"),
        ("Read(a/[bc)", 7, "never closed"),
        ("Read([z-a])", 6, "backwards"),
        ("Read([[:letters:]])", 6, "class"),
        ("Read(a\\)", 6, "escapes nothing"),
        ("Read(a//b)", 7, "empty component"),
        ("Read(a/./b)", 7, "component '.'"),
        ("Edit(a/../b)", 7, "component '..'"),
        ("Read(a/*.{pem,key})", 9, "Braces"),
        ("Read($HOME/.ssh)", 5, "not filled in"),
        ("Read(~root/.ssh)", 5, "not filled in"),
        ("WebFetch(example.com)", 9, "perhaps WebFetch(domain:example.com)"),
        ("WebFetch(https://Example.com/x)", 9, "perhaps WebFetch(domain:example.com)"),
        ("WebFetch(domain:https://a.b)", 16, "no host"),
        ("WebFetch(domain:a.b:80)", 16, "no host"),
        ("WebFetch(domain:a.*.b)", 16, "no host"),
        ("WebFetch(domain:)", 16, "no host"),
        ("WebFetch(domain:bücher.example)", 16, "ASCII"),
        ("Agent(two words)", 6, "kind of an agent"),
        ("Skill(a*)", 6, "name of a skill"),
        ("Config(.x)", 7, "name of a setting"),
        ("mcp__db(x)", 8, "no content"),
        ("mcp__", 5, "MCP server"),
        ("mcp__*", 5, "MCP server"),
        ("mcp__db*", 7, "all tools of a server"),
        ("Bash(" + "x" * 10_001 + ")", 0, "more than"),
    ],
)
def test_what_is_no_rule_is_said_to_be_none_and_where(text: str, position: int, words: str) -> None:
    with pytest.raises(BadRule) as caught:
        parse_rule(text)
    assert words in caught.value.message
    assert caught.value.position == position


def test_a_bad_content_still_says_of_which_tool() -> None:
    for text in ("Edit([z-a])", "Edit()", "Edit(a", "Edit(a)b)", "Edit(a\0)"):
        with pytest.raises(BadRule) as caught:
            parse_rule(text)
        assert caught.value.tool == "Edit"


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=40))
def test_every_command_can_be_written_as_a_rule_and_read_back(command: str) -> None:
    if not command.strip() or command.strip() in {"*", ":*", "**"}:
        return
    assert parse_rule(format_rule("Bash", command)).content == command


def parse_or_error(text: str) -> Rule | BadRule:
    try:
        return parse_rule(text)
    except BadRule as error:
        return error


@given(st.text(max_size=60))
def test_reading_a_rule_gives_one_or_says_why_not(text: str) -> None:
    found = parse_or_error(text)
    if isinstance(found, BadRule):
        assert found.message
        assert 0 <= found.position <= len(text)
        return
    assert text.strip() == found.text
    assert found.text.startswith(found.tool)


@try_each(
    "text",
    ["Bash", "Bash(*)", "Bash(:*)", "Bash(* *)", "Bash(**)", "Edit(**)", "Edit(*)", "Edit(/)", "Edit(/**)",
     "Edit(//**)", "Edit(~/)", "Edit(~)", "Edit(./**/*)", "Edit(../**)", "Read(//)", "WebFetch(domain:*)", "mcp__db",
     "mcp__db__query", "Tally(/**)", "Tally(//)", "Tally(**)"],
)  # fmt: skip
def test_a_whole_tool_is_whole_in_every_spelling(text: str) -> None:
    rule = parse_rule(text)
    assert is_whole(rule.tool, rule.content)


@try_each(
    "text",
    ["Bash(npm:*)", "Edit(src/**)", "Edit(*.py)", "Edit(.*)", "WebFetch(domain:*.a.b)", "Skill(x:*)", "Tally(a/**)"],
)
def test_a_part_of_a_tool_is_not_the_whole(text: str) -> None:
    rule = parse_rule(text)
    assert not is_whole(rule.tool, rule.content)


@try_each(
    ("rule", "text", "matches"),
    [
        ("WebFetch(domain:example.com)", "example.com", True),
        ("WebFetch(domain:example.com)", "EXAMPLE.com.", True),
        ("WebFetch(domain:example.com)", "www.example.com", False),
        ("WebFetch(domain:example.com)", "example.com.evil.net", False),
        ("WebFetch(domain:example.com)", "badexample.com", False),
        ("WebFetch(domain:*.example.com)", "a.b.example.com", True),
        ("WebFetch(domain:*.example.com)", "example.com", False),
        ("WebFetch(domain:*.example.com)", "badexample.com", False),
        ("WebFetch(domain:*.example.com)", ".example.com", False),
        ("Agent(Explore)", "Explore", True),
        ("Agent(Explore)", "explore", False),
        ("Skill(deploy)", "deploy", True),
        ("Skill(deploy)", "deploy now", False),
        ("Skill(deploy:*)", "deploy", True),
        ("Skill(deploy:*)", "deploy now", True),
        ("Skill(deploy:*)", "deployment", False),
        ("Config(permissions)", "permissions.allow_bypass", True),
        ("Config(model.name)", "model.names", False),
        ("Config(model.name)", "model.name", True),
    ],
)
def test_hosts_kinds_skills_and_keys_match_whole_words(rule: str, text: str, matches: bool) -> None:
    parsed = parse_rule(rule)
    assert matches_text(parsed.tool, parsed.content, text) is matches
