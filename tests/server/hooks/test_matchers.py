"""Matchers of hooks: which tool names each one matches."""

import pytest

from ostler.server.hooks.events import EVENTS, find_matched_value, takes_matcher
from ostler.server.hooks.matchers import BadMatcher, compile_matcher
from tests.support.tables import try_each


@try_each(
    ("matcher", "those", "not_those"),
    [
        ("", ["Bash", "mcp__a__b", ""], []),
        ("*", ["Bash", "mcp__a__b"], []),
        (" ", ["Bash"], []),
        ("Bash", ["Bash"], ["bash", "BashOutput", "MyBash", ""]),
        ("Edit|Write", ["Edit", "Write"], ["NotebookEdit", "Edit|Write", ""]),
        ("Edit, Write", ["Edit", "Write"], ["NotebookEdit"]),
        ("Edit|", ["Edit"], [""]),
        ("Notebook.*", ["NotebookEdit", "Notebook", "MyNotebook"], ["Edit"]),
        ("^Notebook", ["NotebookEdit", "Notebook"], ["MyNotebook"]),
        ("^(Edit|Write)$", ["Edit", "Write"], ["Editor"]),
        ("a.b|c", ["axb", "c", "axbc", "xc"], ["ab"]),
        ("mcp__memory__.*", ["mcp__memory__create"], ["mcp__other__create"]),
        ("mcp__.*__write.*", ["mcp__fs__write_file"], ["mcp__fs__read"]),
        ("mcp__memory__create", ["mcp__memory__create"], ["mcp__memory__create_all"]),
        ("mcp__memory", ["mcp__memory__create", "mcp__memory__x__y"], ["mcp__memory_two__create", "mcp__mem"]),
        ("^(?!Bash).*$", ["Read"], ["Bash", "BashOutput"]),
        (r"^Bash\n?$", ["Bash"], ["Bash\nRead"]),
    ],
)
def test_a_matcher_is_all_or_names_or_a_regular_expression_that_is_found_in_the_name(
    matcher: str, those: list[str], not_those: list[str]
) -> None:
    matches = compile_matcher(matcher)
    assert [name for name in those if not matches(name)] == []
    assert [name for name in not_those if matches(name)] == []


@try_each("matcher", ["(", "*Bash", "a)|(b", "[", "(a{0,100}){0,1000}", r"\p{Nothing}", "(a" * 600])
def test_what_is_no_regular_expression_is_refused(matcher: str) -> None:
    with pytest.raises(BadMatcher):
        compile_matcher(matcher)


@pytest.mark.parametrize("matcher", ["(a+)+b", "(a|aa)+b.", "(.*)*(.*)*(.*)*x."])
def test_an_expression_that_would_take_for_ever_does_not(matcher: str) -> None:
    # Python's own engine would need longer than the time limit of the tests.
    assert not compile_matcher(matcher)("a" * 5000)


def test_where_it_takes_too_long_to_tell_the_hook_runs() -> None:
    assert compile_matcher(r"(?=a)(a|aa)+\1b")("a" * 200)


def test_every_event_says_what_its_matcher_is_compared_with() -> None:
    assert len(EVENTS) == 19
    assert find_matched_value("PreToolUse", {"tool_name": "Bash"}) == "Bash"
    assert find_matched_value("SessionStart", {"source": "resume"}) == "resume"
    assert find_matched_value("Stop", {"tool_name": "Bash"}) is None
    assert [event for event in EVENTS if takes_matcher(event) != (find_matched_value(event, {}) is not None)] == []
