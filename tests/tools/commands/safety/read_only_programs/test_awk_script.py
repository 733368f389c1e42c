"""Scripts of awk: what only prints passes, and no spelling of anything else does."""

import os
import subprocess
from pathlib import Path

from ostler.tools.commands.safety.read_only_programs.awk_script import prints_only
from tests.support.tables import try_each

PRINTS = [
    "{print $1}", "{ print $1, $2 }", "NR==3", "NR>1{print}", "/a b/", "!/x/", "$1>2",
    '$1 == "x" || $2 != 3 {print $NF}',
    "END{print NR}", "{s+=$1} END{print s}", 'BEGIN{OFS="\\t"} {print $1,$2}', '{printf "%-5s|%d\\n", $1, NR}',
    "{a[$1]++} END{for (k in a) print k, a[k]}", "{$2=\"\"; print}", "{print $1/2}", "{print length($0), length}",
    "/[a-z]+[0-9]/{print}", "/^[[:space:]]*$/{next} {print}", "/a\\/b/", '{print "a|b>c"}', "NR%2", "NF>2&&NF<9",
    "{if ($1>1) print \"big\"; else print \"small\"}", "{n=split($0,a,/,/); print a[n]}", "{print;print}", "1;{print}",
    '{print 6 / 2 "/; print " touch " | " sh " #/"}',
]  # fmt: skip
DOES_MORE = [
    '{print > "canary"}', '{print>>"canary"}', '{print > $1}', '{print | "touch canary"}', '{print |& "touch canary"}',
    '{"touch canary" | getline}', '{system("touch canary")}', '{system  ("touch canary")}',
    '{ system\\\n("touch canary") }',
    '{if (1) /"/; system("touch canary"); /"/}', '{if (1) /"/; print "touch canary" | "sh"; /"/}',
    'NF /"/ {print "touch canary" | "sh"} /"/',
    '{print ("x") > "canary"}', '{printf("x") > "canary"}', '{if (1) print "x" > "canary"}',
    'BEGIN{for (print "x" > "canary"; 0;) x}', '{print 1, 2 > "canary"}', '{print $1 > "canary" ; print $2}',
    "{getline < \"/etc/passwd\"; print}", '{print ENVIRON["HOME"]}', 'BEGIN{ARGV[1]="/etc/passwd"; ARGC=2} {print}',
    "function f(x) {print x}", '@include "x"', '{close("x")}', '{f = "system"; @f("touch canary")}',
    '/[/]"/ {print "touch canary" | "sh"} /"/', '/[]/]"/ {print "x" | "sh"} /"/',
    '{print a /"/ b} {print "x" | "sh"} /"/',
    '{else /"/; print "x" | "sh"; /"/}', '{i++ /"/; print "x" | "sh"; /"/}', "{while (1) print}", "{print", "print}",
    "{print (1}", "", "   ", "{delete a}", "# x", "{print `id`}", "{print \\x}", "x" * 5000,
    '{print "x\n" > "canary"}', '{print "x" > "canary"}', "BEGIN { printf \"x\" > \"canary\" }",
    '{print 1 >"canary"}', '{print(1)>"canary"}', '{$3 = $1 > 2}', '{print a > b ? c : d}', "{print -1 > x}",
]  # fmt: skip


@try_each("script", PRINTS)
def test_a_script_that_prints_fields_passes(script: str) -> None:
    assert prints_only(script)


@try_each("script", DOES_MORE)
def test_a_script_that_may_do_more_than_print_does_not_pass(script: str) -> None:
    assert not prints_only(script)


def test_what_passes_is_awk_for_the_real_one_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a b 3\n1 2 3\n")
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    for script in PRINTS:
        done = subprocess.run(["awk", script, "in"], cwd=tmp_path, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, (script, done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_long_script_takes_no_longer_to_refuse() -> None:
    assert not prints_only("(" * 3_999)
    assert not prints_only('"' * 3_999)
    assert not prints_only("/" * 3_999)
