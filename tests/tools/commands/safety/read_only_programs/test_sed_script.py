"""Scripts of sed: what we say only prints neither runs nor writes nor reads a file, as sed itself sees it."""

import random
import shutil
import subprocess

import pytest

from ostler.tools.commands.safety.read_only_programs.sed_script import prints_only

_PIECES = (
    "s/a/b/", "s,a,b,", "s/[/]/b/", "s|[|]|w x|", "y/ab/cd/", "p", "d", "w x", "e", "e id", "r x", "R x", "W x", "1",
    "$", "2,3",
    "/a/", "/a[/]b/", "\\,a,", "!", "{", "}", ";", "\n", " ", "g", "w", "s/a/b/w x", "s/a/b/e", "s/a\\/b/c/", "/",
    "\\", "[", "]",
    "[^]/]", "[[:space:]/]", "a\\\nx", "i x", "c x", "q", "Q", "=", "l", "n", "N", "b", "t x", ": x", "F", "z", "v",
    "#x", "#n",
    "s/\\c/w x/", "M", "I", "1~2", "+3", "s/a/b/\n", "x", "&", "\\n", "s#a#b#", "s;a;b;", "sxaxbx", "s a b ",
    "s/[[.].]/]/w x/",
    "s/[[=]=]/]/w x/", "s/[\\]/w x/", "s/[\\n]/a/", "s/[a\\]/]/w x/",
)  # fmt: skip


def is_refused_by_sed(script: str) -> bool:
    """Whether sed finds something in it that runs, reads or writes."""
    done = subprocess.run(
        ["sed", "--sandbox", "-n", script, "/dev/null"], capture_output=True, text=True, check=False, timeout=20
    )
    return "sandbox" in done.stderr


@pytest.mark.skipif(shutil.which("sed") is None, reason="needs sed")
def test_sed_itself_finds_nothing_but_printing_in_what_passes() -> None:
    chosen = random.SystemRandom()
    scripts = {"".join(chosen.choices(_PIECES, k=chosen.choice((1, 2, 3, 4, 5, 6)))) for _ in range(40_000)}
    passing = [script for script in sorted(scripts) if prints_only(script)][:250]
    assert len(passing) > 100
    assert is_refused_by_sed("1w x")
    assert is_refused_by_sed("s/a/b/e")
    assert [script for script in passing if is_refused_by_sed(script)] == []


@pytest.mark.parametrize(
    "script",
    [
        "p", "1p", "$p", "1,5p;9p", "/x/p", "/x/,/y/p", "/x/!d", "1d", "$!d", "s/a/b/", "s/a/b/g", "s/a/b/2p",
        "s,/,_,g",
        "s|a|b|I", "s/[^a]*$//", "s/\\//_/g", "y/abc/xyz/", "1{p;p}", "/x/{s/a/b/;p}", "2q", "$=", "=", "n;d",
        "s/a/b/;s/c/d/", "s/a/b/\np", "/^$/d", "s/^[ \t]*//", "s/[[:space:]]*$//", "0~3p", "/a/,+2p", "s/.*\\.//",
        "s/(a)/[\\1]/",
        "N;s/\\n/ /", "s/'//g", "s/a/&&/",
    ],
)  # fmt: skip
def test_what_only_prints_passes(script: str) -> None:
    assert prints_only(script)
    assert not is_refused_by_sed(script)


@pytest.mark.parametrize(
    "script",
    [
        "", "e", "e id", "1e", "w x", "1w x", "$w x", "/x/w y", "r x", "$r/etc/passwd", "R x", "W x", "s/a/b/w x",
        "s/a/b/e",
        "s/a/b/gw x", "s/a/b/;w x", "s/a/b/\nw x", "1{w x\n}", "{e\n}", "s/[/]/b/w x", "s/[/]/w x/;p/", "a\\\nw x",
        "i x", "c x",
        "y/a/b/w x", "p;e", "pw x", "}", "{p", "b", "t x", ":x", "\\,x,w y", "s/a/b", "s/a/b/ w x", "s/a/b/gg w x",
        "F", "v", "#n\nw x",
        "s/a/b/ # w x\nw y", "s\na\nb\n", "s/\\cx/w/", "s xax w x",
    ],
)  # fmt: skip
def test_what_may_do_more_does_not(script: str) -> None:
    assert not prints_only(script)
