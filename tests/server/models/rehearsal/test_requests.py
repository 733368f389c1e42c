"""Parsing of a request to the rehearsal model into steps."""

import time
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.server.models.rehearsal.requests import MAX_CHARS, MAX_STEPS, parse
from ostler.server.models.rehearsal.steps import (
    Ask,
    Delegate,
    Fetch,
    Find,
    Introduce,
    ListFiles,
    MakeList,
    PermissionTest,
    Plan,
    Read,
    Replace,
    Run,
    Say,
    SearchWeb,
    Step,
    Think,
    Unclear,
    UseTool,
    Wait,
    Write,
)
from ostler.server.models.rehearsal.suggestions import suggest_requests
from tests.support.tables import try_each


def parse_steps(text: str) -> list[Step]:
    return [planned.step for planned in parse(text)]


def test_a_list_holds_what_is_understood_and_what_is_only_to_be_written_down() -> None:
    (step,) = parse_steps("make a list: read README.md, water the horses, and run `a, b`")
    assert isinstance(step, MakeList)
    assert [(item.subject, [each.step for each in item.steps]) for item in step.items] == [
        ("read README.md", [Read("README.md")]),
        ("water the horses", []),
        ("run `a, b`", [Run("a, b")]),
    ]
    assert isinstance(parse_steps("make a list")[0], Unclear)
    assert isinstance(parse_steps("make a list: plan to read a")[0], MakeList)


@try_each(
    ("text", "expected"),
    [
        ("read README.md", [Read("README.md")]),
        ("Please read README.md.", [Read("README.md")]),
        ("read lines 10-20 of src/app.py", [Read("src/app.py", 10, 20)]),
        ("read line 7 of a", [Read("a", 7, 7)]),
        ("show me the first 5 lines of a.txt", [Read("a.txt", 1, 5)]),
        ("read src/app.py:3-5", [Read("src/app.py", 3, 5)]),
        ("read src/app.py lines 3 to 5", [Read("src/app.py", 3, 5)]),
        ("read a.py, b.py and c.py", [Read("a.py"), Read("b.py"), Read("c.py")]),
        ('read "my file.txt"', [Read("my file.txt")]),
        ("list files", [ListFiles("**/*")]),
        ("list files in . and read a.md.", [ListFiles("**/*"), Read("a.md")]),
        ("read a.txt. Then list files.", [Read("a.txt"), ListFiles("**/*")]),
        ("list files in src", [ListFiles("**/*", "src")]),
        ("list src", [ListFiles("**/*", "src")]),
        ("list *.py in src", [ListFiles("**/*.py", "src")]),
        ("find files named *.md in docs", [ListFiles("**/*.md", "docs")]),
        ("list docs/*.md", [ListFiles("docs/*.md")]),
        ("find TODO in src", [Find("TODO", "TODO", "src")]),
        ("find TODO", [Find("TODO", "TODO")]),
        ("search for X", [SearchWeb("X", Find("X", "X"))]),
        ("search for 'a in b'", [SearchWeb("a in b", Find("a in b", "a in b"))]),
        ("search the web for X in Y", [SearchWeb("X in Y")]),
        ("search TODO", [Find("TODO", "TODO")]),
        ("search for X here", [Find("X", "X")]),
        ("search for files named *.md", [ListFiles("**/*.md")]),
        ("fetch https://example.org/a?b=c", [Fetch("https://example.org/a?b=c")]),
        (
            "fetch the page http://a.example/ and https://b.example/.",
            [Fetch("http://a.example/"), Fetch("https://b.example/")],
        ),
        ("search for X in *.py", [Find("X", "X", None, "*.py")]),
        ("find f( in src/**/*.ts", [Find(r"f\(", "f(", "src", "**/*.ts")]),
        ("look for /a+b/ here", [Find("a+b", "/a+b/")]),
        ("find /a+b/ in the src folder", [Find("a+b", "/a+b/", "src")]),
        ("find 'a in b' in this folder", [Find("a in b", "a in b")]),
        ("replace A with B in f.py", [Replace("A", "B", "f.py")]),
        ("replace all A with B in f.py", [Replace("A", "B", "f.py", every=True)]),
        ('replace "x in y" with "\\ty\\\\" in f.py', [Replace("x in y", "\ty\\", "f.py")]),
        ("change a b to c d in f.py and g.py", [Replace("a b", "c d", "f.py"), Replace("a b", "c d", "g.py")]),
        ("replace gone with '' in f.py", [Replace("gone", "", "f.py")]),
        ('write "hello" to notes.txt', [Write("hello", "notes.txt")]),
        ('write "say \\"hi\\"\\nthen read b" to notes.txt', [Write('say "hi"\nthen read b', "notes.txt")]),
        ("create file notes.txt with hello world", [Write("hello world", "notes.txt")]),
        ("create a new file notes.txt", [Write("", "notes.txt")]),
        ("write ```py\nread(x)\nread y\n``` to x.py", [Write("read(x)\nread y\n", "x.py")]),
        ("run pytest -q", [Run("pytest -q")]),
        ("run `make; make install` in the background", [Run("make; make install", in_background=True)]),
        ("run npm start in background.", [Run("npm start", in_background=True)]),
        ("run `echo in the background`", [Run("echo in the background")]),
        ("run `pytest -q; echo then run`", [Run("pytest -q; echo then run")]),
        ("run cd src; find . -name x; ls", [Run("cd src; find . -name x; ls")]),
        ("run if true; then echo hi; fi", [Run("if true; then echo hi; fi")]),
        ("ask me which one: tea, coffee or water", [Ask("Which one?", ("tea", "coffee", "water"))]),
        ("ask me whether to use tabs or spaces", [Ask("Use tabs or spaces?", ("tabs", "spaces"))]),
        ("ask me if it is done", [Ask("It is done?", ("Yes", "No"))]),
        ("ask an agent to read a.md", [Delegate(("read a.md",))]),
        ("ask two agents to read a.md and run `ls -l`", [Delegate(("read a.md", "run `ls -l`"))]),
        ("ask 2 agents to find TODO in src", [Delegate(("find TODO in src", "find TODO in src"))]),
        ("ask two agents to read a then run b, and find c", [Delegate(("read a then run b", "find c"))]),
        ("ask two agents to read a; run b; say c", [Delegate(("read a; say c", "run b"))]),
        ("ask two Explore agents to find c", [Delegate(("find c", "find c"), "Explore")]),
        ("ask two background agents to say c", [Delegate(("say c", "say c"), in_background=True)]),
        ("ask an agent in the background to say c", [Delegate(("say c",), in_background=True)]),
        ("ask an agent to say c in the background.", [Delegate(("say c",), in_background=True)]),
        (
            "ask two agents, in the background and in worktrees, to say c",
            [Delegate(("say c", "say c"), in_background=True, isolated=True)],
        ),
        ("read a then ask an agent to say b", [Read("a"), Delegate(("say b",))]),
        ("think about horses", [Think("horses")]),
        ("say it's fine", [Say("it's fine")]),
        ("wait", [Wait(1.0)]),
        ("wait 250 ms", [Wait(0.25)]),
        ("wait for 9 minutes", [Wait(60.0)]),
        ("test permission", [PermissionTest()]),
        ('call Glob {"pattern": "*"}', [UseTool("Glob", {"pattern": "*"})]),
        ("call mcp__db__query", [UseTool("mcp__db__query", {})]),
        ("Hello!", [Introduce()]),
        ("what can you do?", [Introduce()]),
        ("", [Introduce()]),
    ],
)
def test_one_request_is_understood(text: str, expected: list[Step]) -> None:
    assert parse_steps(text) == expected


@try_each(
    ("text", "joins"),
    [
        ("read a then run b", ["apart", "after"]),
        ("read a and find b in c", ["apart", "with"]),
        ("read a and then say b", ["apart", "after"]),
        ("read a; run b", ["apart", "apart"]),
        ("run b; read a", ["apart", "apart"]),
        ("read a\nrun b", ["apart", "apart"]),
        ("1. read a\n2. run b\n3) then say c", ["apart", "apart", "after"]),
        ("- read a\n- run b", ["apart", "apart"]),
        ("Read a. Then run b. Finally say c", ["apart", "after", "after"]),
        ("read a, find b in c, and run d", ["apart", "with", "with"]),
        ("read a and b then say c", ["apart", "with", "after"]),
    ],
)
def test_steps_are_joined_as_the_words_between_them_say(text: str, joins: list[str]) -> None:
    assert [planned.join for planned in parse(text)] == joins


@try_each(
    "text",
    [
        "fix the bug",
        "replace a in b",
        "read",
        "read all about horses",
        "read lines 5-2 of a",
        "run the tests",
        "write hello",
        "wait until noon",
        "call Glob {nonsense",
        "say",
        "plan",
        "ask two agents",
        "ask 11 agents to say a",
        "ask 0 agents to say a",
        "x" * (MAX_CHARS + 1),
    ],
)
def test_what_is_not_understood_is_said(text: str) -> None:
    assert [type(step) for step in parse_steps(text)] == [Unclear]


def test_words_before_the_first_verb_are_not_lost() -> None:
    assert [type(step) for step in parse_steps("fix the bug then read a.py")] == [Unclear, Read]


def test_a_plan_holds_all_that_follows_a_list_and_agents_too_but_no_other_plan() -> None:
    (plan,) = parse_steps("plan to read a then run b")
    assert isinstance(plan, Plan)
    assert [planned.step for planned in plan.steps] == [Read("a"), Run("b")]
    (plan,) = parse_steps("plan to make a list: ask two agents to read a; say b")
    assert isinstance(plan, Plan)
    (planned,) = plan.steps
    assert isinstance(planned.step, MakeList)
    assert [[each.step for each in item.steps] for item in planned.step.items] == [
        [Delegate(("read a", "read a"))],
        [Say("b")],
    ]
    (deep,) = parse_steps("plan " * 5000)
    assert isinstance(deep, Plan)
    assert [type(planned.step) for planned in deep.steps] == [Unclear]


def test_too_many_steps_are_cut_and_it_is_said() -> None:
    found = parse_steps("say a; " * (MAX_STEPS + 20))
    assert len(found) == MAX_STEPS + 1
    assert isinstance(found[-1], Unclear)


_THOUGHT: Final = "think about horses then say done"
_TOOLS: Final = frozenset({"Read", "Glob", "Grep", "Write", "Edit", "Bash", "TaskOutput", "AskUserQuestion", "Agent"})


@pytest.mark.parametrize("names", [(), ("src/",), ("README.md", "a.py"), ("b.py", "lib/", "has space.md", "x.bin")])
def test_every_suggestion_is_understood_and_names_what_is_there(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).write_text("TODO\n")
    suggested = suggest_requests(_TOOLS, str(tmp_path))
    assert suggested
    for request in suggested:
        steps = parse_steps(request)
        assert not any(isinstance(step, Unclear | Introduce) for step in steps), request
        assert all((tmp_path / step.path).is_file() for step in steps if isinstance(step, Read)), request
        folders = [step.folder for step in steps if isinstance(step, Find | ListFiles) and step.folder]
        assert all((tmp_path / folder).is_dir() for folder in folders), request


def test_what_is_suggested_takes_only_tools_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("x")
    assert suggest_requests(frozenset({"Read"}), str(tmp_path)) == [
        "read README.md",
        _THOUGHT,
    ]
    assert suggest_requests(frozenset(), None) == [_THOUGHT]


_VERBS = ("read", "find", "in", "with", "to", "replace", "run", "plan", "ask me", "say", "call", "write", "create")
_SIGNS = ("then", "and", "or", ";", "\n", "'", '"', "`", "```", "“", "”", "\\", "a.py", "*.py", "the", "1.", "7-9", ":")


@given(st.one_of(st.text(), st.lists(st.sampled_from(_VERBS + _SIGNS)).map(" ".join)))
def test_any_text_gives_some_step(text: str) -> None:
    assert parse(text)


@pytest.mark.parametrize(
    "piece", ["'a ", '"\\', "and ", "a with ", "```\n", "“", "and read ", "; find", "then now ", "\n", " in ", "a,"]
)
def test_long_and_strange_texts_are_read_in_linear_time(piece: str) -> None:
    def seconds(chars: int) -> float:
        text = ("replace " + piece * chars)[:chars]
        started = time.thread_time()
        parse(text)
        return time.thread_time() - started

    # Quadratic work would take seconds here, whatever the machine.
    assert min(seconds(MAX_CHARS) for _ in range(2)) < 1.0
