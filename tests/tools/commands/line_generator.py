"""Generates command lines by a grammar that is rich in what shells and parsers read differently."""

import random
from collections.abc import Callable, Sequence
from typing import Final

READERS: Final = (
    "ls",
    "cat",
    "echo",
    "printf",
    "head",
    "wc",
    "grep",
    "test",
    "[",
    "true",
    "cd",
    "pwd",
    ":",
    "rg",
    "find",
)
RULED: Final = ("npm test", "npm test", "npm")
CHANGERS: Final = (
    "read", "export", "declare", "eval", "set", "unset", "hash -p bin/ls ls", "alias ls=x", "exec", "source", ".",
    "let",
    "mapfile", "getopts a", "local", "readonly", "printf -v", "wait -p", "coproc", "shopt -s", "enable -n", "trap",
    "PATH=bin",
    "x=1", "time", "!", "builtin", "command", "sudo", "env", "if", "then", "for", "while", "case", "function", "{",
    "}", "[[",
)  # fmt: skip
_BARE: Final = (
    "a", "b", "f.txt", "src/x.py", "d", "-", "-n", "-l", "--", "--x", ".", "..", "2", "1", "10", "0", "x", "a.py",
    "a=b", "%s",
    "é", "^", "@", "+x", "in", "do", "done", "esac", "links/out",
)  # fmt: skip
_QUOTED: Final = (
    "'a b'", '"c d"', "''", '""', "'*'", '"*"', '"{x}"', "'{PATH}'", "\\*", "\\{x\\}", "'it'\"'\"'s'", "'#'", '"a\\"b"',
    "'a\nb'", '"a\\\nb"', "\\ ", "\\\\", "\\a", "'$x'", '"\\$x"', "\"'\"", "'\\'", "\\'", "\\;", "';'", '"|"', "'>f'",
)  # fmt: skip
_GLOBS: Final = (
    "*", "*.py", "?", "[ab]", "[a-c]*", "src/*", "d/*/", ".*", "links/*", "[[:alpha:]]*", "[!a]*", "a*", "**",
    "*/x.py", "no*",
    "-*", "[]a]*", "[a-Z]", "*'*'", "'a'*", "s*/*.py", "{a}*", "../*", "links/o[u]t", "?.py", "[^b].py",
)  # fmt: skip
_EXPANDED: Final = (
    "{x}", "{PATH}", "{a,b}", "{1..3}", "{a[0]}", "{}", "{x", "$x", "${x}", "$?", "$PATH", "$HOME", "${PATH:=y}",
    "$((x=1))",
    "$'a'", '$"a"', '"$x"', "$(ls)", "`ls`", "~", "~/x", "~root", "<(ls)", "${x@P}", "$[x=1]", "$", '"$', "${!x}",
    "x=~", "\\\n",
)  # fmt: skip
_ODD: Final = ("#", "#a", "a#b", "=", "PATH=x", "x=1", "!", "]", "[[", "]]", ",", "\t", "~a", "{", "}", "(", ")", "\\")
_OPERATORS: Final = (">", ">>", ">|", "<", "<>", ">&", "<&", "&>", "&>>", "<<<", "<<", "<<-", "|", "&")
_DESCRIPTORS: Final = (
    "",
    "",
    "",
    "2",
    "1",
    "{x}",
    "{PATH}",
    "{a[0]}",
    "3",
    "10",
    "2\\\n",
    "99999999999",
    "{x}\\\n",
    "a",
    "02",
)
_TARGETS: Final = (
    "/dev/null", "/dev/null", "/dev/null", "1", "2", "-", "&1", "f", "'a b'", "*.py", "$x", "/dev/null{x}", "E",
    "3-", "2>&1",
    "{x}", "\\\n/dev/null", "'E'",
)  # fmt: skip
_SEPARATORS: Final = (
    "; ", ";", " && ", "&&", " || ", "||", "|", " | ", "\n", "\n", " & ", " |& ", " # c\n", " # c '\n", " \\\n; ",
    ";;", "\n\n",
    " \n", "#\n", "\\\n",
)  # fmt: skip
_SEEDS: Final = (
    "ls *.py", "echo a >/dev/null 2>&1", "cat src/* | head -n 1", "cd src && cat *.py", "npm test >/dev/null; ls",
    "echo 'a b' \"c\"",
    "grep -n a *.py | wc -l", "test -f a && echo yes", "npm test a b; echo {x}", "[ -f a ] || ls d", "cat a <<E\nx\nE",
    "npm test <<'E'\n$x\nE", "for x in a b; do npm test; done", "{ npm test; } 2>/dev/null", "(npm test) | cat",
    "x=1; npm test",
    "ls [ab].py 2>&1", "echo \\\n a", "npm test # c\nls", "if npm test; then ls; fi", "x=1 npm test -- '*'",
    "time npm test", "echo é",
    "cat <<'E' | wc -l\na $x\nE\nls *.py", "cat <<-E && ls d\n\ta\n\tE\npwd",
    "(cd src && ls *.py) | head -n 1", "npm test <<E\n\\\na b\nE\nls",
    'for f in *.py a; do echo "$f" $f; done', "for n in {1..3} '*'; do ls x$n \"$n\"; done | head -n 1",
    'if [ -f a ]; then cat a; elif test -n "$HOME"; then ls; else cat b; fi', 'echo "a $(cat a | wc -l) b" $(nproc)',
    "diff <(sort a) <(cat b | uniq)", "LC_ALL=C sort a; { ls; cat b; } 2>/dev/null", "[[ -f a ]] && ls {a,b}.py",
    'cd src && for f in *; do cat "$f"; done', 'echo "$(echo "$(ls)")" $((7*3)) $\'a\\tb\'',
    'basename "$(cat a)"; dirname $(pwd)',
    'for d in src d; do (cd src && ls); echo "$d: $(find "$d" -name x)"; done', "sed 's/a/b/;2p' a | cat",
    'git log $(git rev-parse HEAD) --stat; git show "$(git merge-base a b)"', '[ "$(cat a)" = b ] || echo "${HOME}"',
    "! grep -q a b; for a in 'x y' \"it's\"; do printf '%s' \"$a\"; done", "echo {a,'b c'}$((1)) {2..1}",
    "( ls; (cat a) ) && echo b", "head -n 1 <<E\na b\n\nE\n(cat b)", "cat <<\"E\" # c\n`x`\nE",
)  # fmt: skip


class LineGenerator:
    """The same seed makes the same lines."""

    def __init__(self, seed: int) -> None:
        self.chosen = random.Random(seed)

    def generate(self) -> str:
        line = self._pick((self._build_line, self._build_line, self._mutate))()
        return self._mutate_text(line) if self.chosen.random() < 0.2 else line

    def _pick(self, among: Sequence[Callable[[], str]]) -> Callable[[], str]:
        return self.chosen.choice(among)

    def _build_line(self) -> str:
        parts = [self._build_part() for _ in range(self.chosen.choice((1, 1, 1, 2, 2, 3)))]
        line = parts[0] + "".join(f"{self.chosen.choice(_SEPARATORS)}{part}" for part in parts[1:])
        if self.chosen.random() < 0.1:
            line = self.chosen.choice((
                f"( {line} )", f"({line}) | cat", f"({line}) && ls", f"cat <<E | {line}\na b\nE\nls",
                f"{{ {line}; }}", f"for x in a *; do {line}; done", f"if {line}; then {line}; fi",
                f"! {line}", f"{line} &", f"case a in a) {line};; esac", f"f() {{ {line}; }}; f",
                f'echo "$({line})"', f"cat <({line}) a", f"if {line}; then echo $x; else {line}; fi",
                f'for f in a "b c"; do {line} "$f" $f; done', f"for x in $({line}); do ls; done", f"git show $({line})",
                f"{{ {line}; }}>/dev/null", f"( {line} ) {{x}}>/dev/null", f"{line} <<E\n$x\nE",
                f"{line} <<'E'\n$(ls)\nE",
            ))  # fmt: skip
        return line

    def _build_part(self) -> str:
        name = self.chosen.choices((READERS, RULED, CHANGERS), (12, 7, 1))[0]
        pieces = [self.chosen.choice(name)]
        for _ in range(self.chosen.choice((0, 1, 1, 2, 3))):
            pieces.append(self._build_redirection() if self.chosen.random() < 0.25 else self._build_word())
        if self.chosen.random() < 0.05:
            pieces.insert(
                0, self.chosen.choice(("x=1", "PATH=bin", ">/dev/null", "{x}>/dev/null", "2>&1", "a[0]=1", "x=*"))
            )
        if pieces[0] == "[" or pieces[-1] == "[":
            pieces.append("]")
        return (
            "".join(piece + self.chosen.choice((" ", " ", " ", " ", "  ", "\t", " \\\n")) for piece in pieces[:-1])
            + pieces[-1]
        )

    def _build_word(self) -> str:
        count = self.chosen.choice((1, 1, 1, 1, 2, 3))
        kinds = self.chosen.choices((_BARE, _QUOTED, _GLOBS, _EXPANDED, _ODD), (12, 5, 5, 1, 0.5), k=count)
        return "".join(self.chosen.choice(kind) for kind in kinds)

    def _build_redirection(self) -> str:
        blank = self.chosen.choice(("", "", " "))
        if self.chosen.random() < 0.5:
            return self.chosen.choice(
                (">/dev/null", "2>/dev/null", "2>&1", "&>/dev/null", ">>/dev/null", "</dev/null", ">&2")
            )
        glued = self.chosen.choice(("", "", "", "{x}", "a", "'b'"))
        descriptor, operator = self.chosen.choice(_DESCRIPTORS), self.chosen.choice(_OPERATORS)
        return f"{glued}{descriptor}{operator}{blank}{self.chosen.choice(_TARGETS)}"

    def _mutate(self) -> str:
        line = self.chosen.choice(_SEEDS)
        for _ in range(self.chosen.choice((1, 1, 2, 3))):
            place = self.chosen.randint(0, len(line))
            piece = self.chosen.choice((
                *_EXPANDED, *_ODD, *_SEPARATORS, *_OPERATORS, *_GLOBS, *_QUOTED, "{x}>/dev/null", "{PATH}", "2>&1",
                " ", "\\\n",
            ))  # fmt: skip
            line = line[:place] + piece + line[place:]
        return line

    def _mutate_text(self, line: str) -> str:
        """A character more, less or twice."""
        place = self.chosen.randint(0, max(0, len(line) - 1))
        other = self.chosen.choice(" \t\n;&|<>(){}[]$`'\"\\#*?~=!-a2")
        return self.chosen.choice(
            (line[:place] + line[place + 1 :], line[:place] + other + line[place:], line[: place + 1] + line[place:])
        )
