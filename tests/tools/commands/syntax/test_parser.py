"""Parsing a command into its parts, and what never counts as understood."""

import time

import pytest

from ostler.tools.commands import MAX_BYTES, is_read_only, parse_command, part_is_read_only
from ostler.tools.commands.syntax.strict_parser import parse_strictly
from tests.support.tables import try_each


def list_words(command: str) -> list[tuple[str | None, ...]]:
    return [part.words for part in parse_command(command).parts]


@try_each(
    "command",
    [
        "ls\rrm x", "ls\x0brm x", "ls\x0crm", "ls\x00", "ls\x1b[2J", "ls\x7f", "ls \x85x",
        "ls\u00a0-l", "ls\u2003-l", "ls\u3000-l", "ls\u2028rm x", "ls\u2029rm x",
        "ls \u202erm", "ls \u2066x\u2069", "l\u200bs", "ls \ufeffx", "ls \u00adx", "ls \u3164x", "ls \u2800",
        "ls \ud800",
    ],
)  # fmt: skip
def test_control_bytes_but_tab_and_newline_and_unicode_spaces_format_and_bidi_characters_are_refused(
    command: str,
) -> None:
    parsed = parse_command(command)
    assert parsed.problem is not None
    assert not is_read_only(parsed, "/").ok


def test_tab_and_newline_are_blanks() -> None:
    assert list_words("ls\t-l\nwc") == [("ls", "-l"), ("wc",)]
    assert parse_command("ls\t-l\nwc").plain


def test_over_long_input_is_refused_without_being_parsed() -> None:
    parsed = parse_command("ls " + "a" * MAX_BYTES)
    assert parsed.problem is not None
    assert parsed.parts == ()


@try_each(
    "command",
    ["ls (", "ls )", "ls &&", "| ls", "ls ;; ls", "if ls", "ls 'a", 'ls "a', "a=(", "ls <", "case x in", "r\\\nm x"],
)
def test_any_error_node_is_not_understood(command: str) -> None:
    assert parse_command(command).problem is not None


@pytest.mark.parametrize("command", ["cat <<E\n`rm x`\nE", "cat <<E\n$(a) `rm x`\nE", "cat <<E | wc\nx `rm y`\nE"])
def test_an_unquoted_heredoc_cannot_hide_a_backtick(command: str) -> None:
    assert parse_command(command).problem is not None


@pytest.mark.parametrize(
    ("command", "inside"),
    [("cat <<E\n$(rm x)\nE", ("rm", "x")), ("cat <<E\na ${b:-$(rm x)}\nE", ("rm", "x"))],
)
def test_what_a_heredoc_substitutes_is_a_part(command: str, inside: tuple[str, ...]) -> None:
    assert inside in list_words(command)


def test_a_quoted_heredoc_is_text() -> None:
    parsed = parse_command("cat <<'E'\n$(rm x) `rm y`\nE\n")
    assert parsed.problem is None
    assert [part.words for part in parsed.parts] == [("cat",)]


@try_each("word", ["then", "do", "fi", "done", "else", "esac", "}", "in", "function"])
def test_argv0_must_be_no_reserved_word(word: str) -> None:
    parsed = parse_command(f"{word} x")
    assert parsed.problem is not None or not parsed.plain
    assert not is_read_only(parsed, "/").ok


@try_each("command", ["$x ls", "`ls`", "$(ls)", "l* x", "~/ls", "{ls,-l}"])
def test_argv0_must_be_a_literal_word(command: str) -> None:
    assert not is_read_only(parse_command(command), "/").ok


@try_each(
    ("command", "expected"),
    [
        ("a && b || c; d | e\nf", ["a", "b", "c", "d", "e", "f"]),
        ("(a; b) & { c; }", ["a", "b", "c"]),
        ("echo $(a $(b)) `c`", ["echo", "a", "b", "c"]),
        ('echo "x $(a "$(b)")"', ["echo", "a", "b"]),
        ("diff <(a) >(b)", ["diff", "a", "b"]),
        ("f() { a; b; }", ["a", "b"]),
        ("function f { a; }", ["a"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("while a; do b; done; until c; do d; done", ["a", "b", "c", "d"]),
        ("for i in x y; do a; done", [None, "a"]),
        ("for ((i=0;i<2;i++)); do a; done", [None, "a"]),
        ("select i in x; do a; done", [None, "a"]),
        ("case x in a|b) c;; *) d;; esac", ["c", "d"]),
        ("case $(a) in $(b)) c;; esac", ["a", "b", "c"]),
        ("x=$(a) y=(1 $(b))", [None, "a", "b"]),
        ("export x=$(a)", ["export", "a"]),
        ("[ $(a) = b ] && [[ $(c) ]]", ["[", "a", "[[", "c"]),
        ("echo ${x:-$(a)} $((1 + $(b)))", ["echo", "a", "b"]),
        ("cat <<E | a && b\n$(c)\nE\nd", ["cat", "c", "a", "b", "d"]),
        ("cat <<< $(a)", ["cat", "a"]),
        ("a > $(b)", ["a", "b"]),
        ("! a | b", ["a", "b"]),
        ("(a) > $(b)", ["a", "b"]),
    ],
)
def test_every_simple_command_is_found_anywhere_in_order(command: str, expected: list[str | None]) -> None:
    parsed = parse_command(command)
    assert parsed.problem is None
    assert [part.words[0] if part.words else None for part in parsed.parts] == expected


@try_each(
    ("source", "literal"),
    [
        ("abc", "abc"), ("'a b'", "a b"), ('"a b"', "a b"), ("a\\ b", "a b"), ("a'b'\"c\"", "abc"), ('"a\\"b"', 'a"b'),
        ('"a\\b"', "a\\b"), ("''", ""), ("'$x'", "$x"), ('"\\$x"', "$x"), ("HEAD@{1}", "HEAD@{1}"),
        ("HEAD~3", "HEAD~3"), ("x$", "x$"), ('"x$"', "x$"), ("é'ü'", "éü"), ("'*'", "*"), ("\\*", "*"), ("[", "["),
        ("$x", None), ("${x@P}", None), ("$IFS", None), ("$'a'", None), ("*.py", None), ("a?", None), ("[ab]", None),
        ("{a,b}", None), ("{1..3}", None), ("~user", None), ("~", None), ("~/x", None), ("a=~/x", None), ('"$x"', None),
        ('"`a`"', None), ("$((1))", None), ("a$(b)", None),
    ],
)  # fmt: skip
def test_a_word_is_literal_only_where_the_shell_would_leave_it_alone(source: str, literal: str | None) -> None:
    assert parse_command(f"echo {source}").parts[0].words == ("echo", literal)


@try_each(
    "command",
    [
        "echo $x", "echo ${x@P}", "echo $IFS", "echo $'\\x41'", "echo {a..b}", "echo ~user", "echo $(a)", "echo `a`",
        "diff <(a) <(b)", "coproc ls", "f() { ls; }", "((1))", "echo $((x))", "[[ a ]]", "((ls); ls)", "(ls) > f",
        "{ rm x; }", "ls &",
        "x=1", "x=1 ls", "! rm x", "if ls; then rm x; fi", "for i in a; do rm x; done", "while ls; do ls; done",
        "ls |& wc",
        "cat <<E\n$x\nE", "cat <<< $x", "case a in a) ls;; esac", 'echo $"x"', "time", "! time ls",
    ],
)  # fmt: skip
def test_any_expansion_substitution_coproc_function_or_arithmetic_is_asked(command: str) -> None:
    parsed = parse_command(command)
    assert not parsed.plain
    assert not is_read_only(parsed, "/").ok


@pytest.mark.parametrize(
    "command",
    ["(ls)", "( ls )", "((ls) | wc)", "(cd src && ls *.py) | head", "(ls; pwd) && ( (cat a) )", "cat <<E\nx\nE",
     "cat <<'E' | wc -l && ls\n$(x)\nE\npwd", "cat <<-\"E\" # c\n\tx\n\tE"],
)  # fmt: skip
def test_groups_and_here_documents_of_text_are_agreed_on_and_yet_not_plain(command: str) -> None:
    parsed = parse_command(command)
    assert parsed.agreed is ("((" not in command)
    assert not parsed.plain


@pytest.mark.parametrize(
    "command",
    ["(ls)ls", "(ls) ls", "ls (ls)", "(ls", "ls)", "()", "(ls;;)", "(ls) 2>x", "x=(ls)", "f() (ls)",
     "f()(ls)", "time (ls)",
     "! (rm)", "(! rm)", "(ls &)", "(x=1)", "(\\\n(ls))", "((ls))", "(ls && )", "(&& ls)", "(ls) (ls)",
     "(if ls; then rm; fi)",
     "cat <<E", "cat <<E\nx", "cat <<E\nx\nE ", "cat <<'E\nF'\nx", "cat <<E <<F\nx\nE\ny\nF",
     "cat <<E 'a\nb'\nx\nE", "cat 0<<E\nx\nE",
     "cat {x}<<E\nx\nE", "cat <<E |\nx\nE\nls", "(cat <<E)\nx\nE", "cat <<$E\nx\n$E", "cat <<E\n`x`\nE",
     "cat <<E\\\nF\nx\nEF",
     "cat <<E \\\n-n\nx\nE", "cat <<\\E\nx\nE"],
)  # fmt: skip
def test_any_other_group_or_here_document_is_asked(command: str) -> None:
    parsed = parse_command(command)
    assert not parsed.agreed
    assert not is_read_only(parsed, "/").ok


@pytest.mark.parametrize(
    "command", ["head -n 1 <<E\n\\\na b\n\nE\n(cat b)", "npm test <<E\n\\\na b\nE", "npm test <<E\n\\\n| ls\nE",
     "cat <<'E'\n\\\nx y\nE"]
)  # fmt: skip
def test_text_of_a_here_document_is_not_taken_for_words(command: str) -> None:
    # The tree takes a first line that is continued for the rest of the command.
    parsed = parse_command(command)
    assert parsed.problem is not None
    assert not is_read_only(parsed, "/").ok


@pytest.mark.parametrize(
    "command", ["npm test\n<f 2>&1 a=b", "npm test\n<1 \\\n2>&1 a=b", "npm test\n<f 2>&1 rm x", "ls\n>f 2>&1"]
)
def test_redirections_in_a_line_of_their_own_belong_to_another_command(command: str) -> None:
    parsed = parse_command(command)
    assert parsed.problem is not None or len(parsed.parts) == 2
    assert not any("rm" in part.words[1:] for part in parsed.parts)
    assert not is_read_only(parsed, "/").ok


def test_a_here_document_in_a_line_of_which_a_rule_allows_the_rest_is_no_part_that_reads() -> None:
    assert not part_is_read_only(parse_command("npm test; cat <<E\nx\nE").parts[1])


def test_the_strict_parser_refuses_by_itself_what_the_tree_refuses_too() -> None:
    assert parse_strictly("echo {x} >f") is not None
    assert parse_strictly("(ls) | cat <<'E'\n$x\nE\nls") is not None
    for line in (
        "echo {x}>f", "echo {PATH}<f", "echo {x}<<<y", f"echo {'9' * 10}>f", "cat {x}<<E\ny\nE", "cat 2<<E\ny\nE",
        "cat <<E\n$y\nE", "cat <<E\n`y`\nE", "cat <<E\n\\y\nE", "cat <<E\ny", "cat <<E | wc 'a\nb'\ny\nE",
        "((ls))", "((ls); ls)", "(\\\n(ls))", "(ls) ls", "(ls) >f", "(ls", "ls)", "()", "(ls;)", "ls (ls)",
    ):  # fmt: skip
        assert parse_strictly(line) is None, line


def test_operators_inside_quotes_are_data() -> None:
    assert list_words("echo 'a && b; c | d' \"e > f\"") == [("echo", "a && b; c | d", "e > f")]


@try_each(
    ("command", "folders"),
    [
        ("cd x && y", ("x",)), ("cd x; y", ("x", "")), ("cd x || y", ("",)), ("(cd x) && y", ("",)),
        ("cd x && cd z && y", ("x/z",)), ("cd x/.. && y", (".",)), ("cd /a && cd ../b && y", ("/b",)),
        ("cd x | y", ("",)), ("cd x & y", ("",)), ("! cd x && y", ("",)), ("cd x && ls 2>&1 | y", ("x",)),
        ("{ cd x && true; } && y", ("x", "")), ("cd $x && y", None), ("cd - && y", None), ("cd && y", None),
        ("pushd x && y", ("x",)), ("pushd +1 && y", None), ("popd && y", None),
        ("eval a; y", None), ("builtin cd x && y", ("x",)), ("$a; y", None),
        ("for i in a; do cd x; done; y", None), ("f() { cd x; }; f; y", None), ("CDPATH=/ cd x && y", None),
        ("cd -- x && y", ("x",)), ("builtin cd -- x && y", ("x",)), ("cd -- -x && y", None), ("cd -- && y", None),
    ],
)  # fmt: skip
def test_cd_x_and_y_is_judged_with_the_directory_it_would_run_in(command: str, folders: tuple[str, ...] | None) -> None:
    assert parse_command(command).parts[-1].folders == folders


def test_a_group_opens_its_redirections_where_it_began() -> None:
    (_, last) = parse_command("{ cd x && ls; } > f").parts
    assert last.folders == ("x",)
    assert [(found.target.text, found.folders) for found in last.redirections] == [("f", ("",))]


def test_redirections_belong_to_the_command_before_them() -> None:
    parts = parse_command("a >f b && c 2>&1 >>g | d <h").parts
    assert [part.words for part in parts] == [("a", "b"), ("c",), ("d",)]
    found = [
        [(each.fd, each.operator, each.target.literal, each.writes) for each in part.redirections] for part in parts
    ]
    assert found == [
        [("", ">", "f", True)],
        [("2", ">&", "1", False), ("", ">>", "g", True)],
        [("", "<", "h", False)],
    ]


def test_what_two_readers_see_differently_is_not_understood() -> None:
    # The tree takes the dollar and the string as two words.
    assert parse_command('echo $"a"').problem is not None


@try_each(
    "command",
    [
        "--a=b rm x", "é=b rm x", "a\n\\\nrm x", "a=b\\\nc rm x", "!{a,b} rm", "-5>&2 rm", "a >&-5",
        "a <<< b$=c", "r\\\nm x", "a < b\\\nc",
    ],
)  # fmt: skip
def test_what_the_grammar_reads_otherwise_than_the_shell_is_not_believed(command: str) -> None:
    parsed = parse_command(command)
    assert parsed.problem is not None or [part.words[:1] for part in parsed.parts] == [(None,)]


NONSENSE = [
    "(",
    "`",
    "$(",
    "<<a ",
    '"',
    "&&",
    "{ ",
    "${",
    "[[ ",
    "((",
    "case x in ",
    "<",
    "if ",
    "f() ",
    "\\",
    "a=(",
    "a|&if",
    "*|&if",
    "[a`>",
]


@pytest.mark.parametrize("piece", NONSENSE)
def test_nonsense_of_full_length_is_read_in_bounded_time(piece: str) -> None:
    started = time.process_time()
    parsed = parse_command(piece * ((MAX_BYTES - 10) // len(piece)))
    # Some of these take the parser a minute where nothing stops it: this is no measurement.
    assert time.process_time() - started < 15
    assert not is_read_only(parsed, "/").ok


def test_deep_nesting_is_a_problem_and_no_crash() -> None:
    for command in ("(" * 300 + "ls" + ")" * 300, "echo " + "$(echo " * 300 + ")" * 300, "a && " * 5000 + "b"):
        parsed = parse_command(command)
        assert not is_read_only(parsed, "/").ok


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("ls | wc | cat\nls && pwd", ["ls", "wc", "cat", "ls", "pwd"]),
        ("ls | wc | cat # a; rm x\nls && pwd\n\n# rm y", ["ls", "wc", "cat", "ls", "pwd"]),
        ("ls | wc | cat 'x\ny'\nls && pwd", ["ls", "wc", "cat 'x\ny'", "ls", "pwd"]),
    ],
)
def test_line_ends_behind_long_pipelines_end_commands(command: str, parts: list[str]) -> None:
    parsed = parse_command(command)
    assert (parsed.problem, parsed.plain, parsed.command) == (None, True, command)
    assert [part.text for part in parsed.parts] == parts


@pytest.mark.parametrize("command", ["ls | wc | cat\\\nrm x && pwd", "ls | wc | cat <<E\nls\nE\nls && pwd"])
def test_line_ends_that_end_no_command_are_not_taken_for_such(command: str) -> None:
    parsed = parse_command(command)
    assert "rm" not in [part.words[0] for part in parsed.parts]
    assert parsed.plain is False or len(parsed.parts) == 4
