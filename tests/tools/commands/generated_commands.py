"""Strategies that generate shell commands, and two reference parsers for them: bash and shfmt."""

import json
import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import strategies as st

PLAIN_CHARACTERS = "abcXYZ019_./:=@%+-,^é"
QUOTED_CHARACTERS = PLAIN_CHARACTERS + " ;&|<>()#*?[]{}~!\t"
# Not from an equals sign on: the grammar takes `==` for an operator, and such a command counts as not understood.
bare = st.text(PLAIN_CHARACTERS, min_size=1, max_size=8).filter(lambda text: not (text[0].isdigit() or text[0] == "="))
single = st.text(QUOTED_CHARACTERS + '$`"\\', max_size=8).map(lambda text: f"'{text}'")
double = st.text(QUOTED_CHARACTERS + "'", max_size=8).map(lambda text: f'"{text}"')
escaped = st.sampled_from(QUOTED_CHARACTERS + "$`\"'\\").map(lambda character: "\\" + character)
words = st.lists(st.one_of(bare, bare, single, double, escaped), min_size=1, max_size=3).map("".join)
whole_words = st.one_of(bare, bare, single, double)
names = st.sampled_from(["ls", "cat", "grep", "git", "npm", "a.b", "./x", "'q'"])
redirections = st.sampled_from(["", "", "", " 2>&1", " >/dev/null", " > 'a b'", " >>f", " <f", " 2>/dev/null"])
separators = st.sampled_from([" && ", " || ", "; ", " | ", "\n", "&&", "|", ";", " # c '\n", " \\\n && "])


@st.composite
def plain_commands(draw: st.DrawFn, argument: st.SearchStrategy[str] = words, most: int = 12) -> str:
    """Simple commands, joined."""
    simple = st.tuples(names, st.lists(argument, max_size=5), redirections).map(
        lambda found: " ".join([found[0], *found[1]]) + found[2]
    )
    commands = draw(st.lists(simple, min_size=1, max_size=most))
    return "".join(command + draw(separators) for command in commands[:-1]) + commands[-1]


PIECES = [
    "ls", "cat", "rg", "git", "status", "log", "-l", "-n", "--pre=x", "f", "x y", " ", " ", " ", "\n", "\t", ";",
    "&&", "||",
    "|", "&", "(", ")", "{", "}", "<", ">", ">>", "<<", "<<<", "$", "$(", "${", "`", "'", '"', "\\", "#", "*", "?",
    "[", "]",
    "~", "!", "=", "a=", "if", "then", "fi", "for", "do", "done", "case", "in", "esac", ";;", "[[", "]]", "((",
    "))", "é",
    "\r", "\x0b", "\u00a0", "\u202e", "2>&1", ">/dev/null", "EOF", "<<EOF\n", "\nEOF\n", "\\\n", "time", "coproc",
    "function",
    "1", "{a,b}", "echo", "-", "--", "/dev/null", "head", "-5", "&>", "|&", ">&", "+=", "@", "%",
]  # fmt: skip
shell_text = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
reading_text = st.lists(
    st.sampled_from(
        ["ls ", "cat ", "echo ", "head ", "f ", "-5 ", "'a b' ", '"c" ', "| ", "&& ", "; ", "\n", *PIECES[30:]]
    ),
    max_size=8,
).map(lambda pieces: "ls " + "".join(pieces))

shfmt = shutil.which("shfmt")
needs_shfmt = pytest.mark.skipif(shfmt is None, reason="shfmt is not installed (Debian package shfmt)")


def bash_accepts(command: str) -> bool:
    """Whether bash finds no fault in its syntax, and has nothing to say about it."""
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-n"], input=command.encode(), capture_output=True, check=False
    )
    return done.returncode == 0 and not done.stderr


def expand_with_bash(sources: list[str]) -> list[str]:
    """The words as bash expands them; they must hold nothing to run."""
    script = "printf '%s\\0' " + " ".join(sources)
    done = subprocess.run(["bash", "--noprofile", "--norc", "-c", script], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


def parse_with_shfmt(command: str) -> dict[str, Any] | None:
    """The syntax tree by another parser; None where it refuses."""
    assert shfmt is not None
    done = subprocess.run([shfmt, "--to-json"], input=command.encode(), capture_output=True, check=False)
    found: dict[str, Any] | None = json.loads(done.stdout) if done.returncode == 0 else None
    return found


def list_shfmt_calls(tree: dict[str, Any], command: str) -> list[list[str]]:
    """The words of each simple command, as written, in order."""
    data = command.encode()
    calls = [node for node in list_nodes(tree) if node.get("Type") == "CallExpr"]
    calls.sort(key=lambda node: node["Pos"]["Offset"])
    return [[_extract_source(word, data) for word in call.get("Args", [])] for call in calls]


def list_nodes(tree: Any) -> list[dict[str, Any]]:
    """Every object of the tree."""
    found: list[dict[str, Any]] = []
    waiting = [tree]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            found.append(here)
            waiting.extend(here.values())
        elif isinstance(here, list):
            waiting.extend(here)
    return found


def _extract_source(word: dict[str, Any], data: bytes) -> str:
    return data[word["Pos"]["Offset"] : word["End"]["Offset"]].decode()
