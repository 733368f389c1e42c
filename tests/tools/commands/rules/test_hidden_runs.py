"""The deny side fails closed: what a rule forbids is denied or asked about, however it is written."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from ostler.tools.commands import (
    find_forbidding_rule,
    find_possible_rule,
    index_forbid_rules,
    may_be_forbidden,
    parse_command,
)
from ostler.tools.commands.syntax.parser import clear_cache
from tests.support.examples import choose_examples
from tests.support.tables import try_each
from tests.tools.commands.rules.everyday_lines import EVERYDAY
from tests.tools.commands.rules.hidden_lines import list_hidden_lines, list_removing_lines

RUN_ALL = """
place=0
while IFS= read -r -d '' line; do
    place=$((place + 1))
    mkdir "$place"
    (cd "$place" && echo x > x && echo f > f && timeout 20 bash -c "$line" <<< x >/dev/null 2>&1) &
    if ((place % 8 == 0)); then wait; fi
done
wait
"""


def is_open(command: str, *contents: str) -> bool:
    parsed = parse_command(command)
    return find_forbidding_rule(parsed, contents) is None and not may_be_forbidden(parsed, contents)


def is_denied(command: str, *contents: str) -> bool:
    return find_forbidding_rule(parse_command(command), contents) is not None


DELETING = [
    "find . -delete", "find . -name x -delete", "find x -type f -delete -print", "unlink x", "sudo unlink x",
    "rmdir d", "git clean -fd", "git clean -fdx x", "git -C . clean -f", "git rm x", "git rm -f x", "git-rm x",
    "git worktree remove x", "shred -u x", "shred -fuz x", "shred --remove x", "shred --remove=unlink x",
    "rsync -a --delete e/ d/", "rsync --del e/ d/", "rsync --delete-after e/ d/", "rsync --remove-source-files x d/",
    "trash x", "trash-put x", "srm x", "wipe x", "gio trash x", "gio remove x", "npx rimraf x", "rimraf x",
    "mv x /dev/null", "tar cf y --remove-files x", "tar --remove-f -cf y x", "zip -m y x", "zip -rm y x",
    "zip --move y x", "cmake -E rm x", "cmake -E remove x", "cmake -E remove_directory d", "hg purge", "svn rm x",
    "svn delete x", "xargs unlink", "find . -exec unlink {} ;", "sh -c 'unlink x'", "rclone delete x",
    "rclone purge d", "7z a y -sdel x", "perl -e 'unlink \"x\"'", "perl -ne unlink", "perl -e unlink x",
    "python -c 'import os; os.remove(\"x\")'", "python -c 'from os import remove as print; print(\"x\")'",
    "node -e 'fs.unlinkSync(\"x\")'", "ruby -e 'File.delete \"x\"'", "php -r 'unlink(\"x\");'",
    "lua -e 'os.remove(\"x\")'", "awk 'BEGIN{system(\"unlink x\")}'", "tclsh <<< 'file delete x'",
    "emacs --batch --eval '(delete-file \"x\")'", "vim -es -c 'call delete(\"x\")' -cq", "find . -fprint x -delete",
    "somebodys-wrapper unlink x", "systemd-tmpfiles --remove", "busybox unlink x", "busybox find . -delete",
]  # fmt: skip
OTHER_WAYS = [
    line.replace("\\n", "\n") for line in Path(__file__).with_name("other_lines.txt").read_text("utf-8").splitlines()
]
"""Ways by hand, one a line; `\\n` stands for a newline."""
PUSHING = [
    "git push", "git -C d push", "git --git-dir=x push", "git --git-dir x --work-tree y push", "git -c alias.p=push p",
    "git -c alias.p='push -f' p", "git -c 'alias.p=!git push' p", "git -calias.p=push p", "git --no-pager -p push",
    "git-push", "git-push origin", "/usr/lib/git-core/git-push", "$(git --exec-path)/git-push",
    "git --exec-path=/x push", "git send-pack u", "git-send-pack u", "git http-push u", "git subtree push -P a u b",
    "git lfs push u", "git svn dcommit", "git submodule foreach git push",
    "git submodule foreach --recursive 'git push'", "git submodule --quiet foreach 'git push || :'",
    "git bisect run git push", "git rebase -x 'git push' main", "git rebase --exec 'git push' main",
    "git rebase --exec='git push' main", "git rebase -i -x'git push'", "git p", "git pu", "git publish",
    "git -C d p origin", "git config alias.p push; git p", "git config alias.p push && git p",
    "git --config-env=alias.p=X p", "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.p GIT_CONFIG_VALUE_0=push git p",
    "git $X", "git pus[h]", "git {push,origin}", "git \"$X\" push", "git -c \"$X\" p",
    "git -c core.pager='git push' log", "git -c core.editor='git push #' commit", "EDITOR='git push #' git commit",
    "GIT_EDITOR='git push' git commit", "git filter-branch --tree-filter 'git push' HEAD",
    "git difftool -x 'git push' a", "echo push | xargs git", "xargs git < f", "xargs -I{} git {} < f",
    "git for-each-repo --config=a push", "git for-each-repo --config a push", "git hook run pre-push", "sudo git push",
    "sh -c 'git push'", "sh -c 'cd x && git push'", "P=push; git $P", "git -c help.autocorrect=immediate psuh",
    "alias g=git\ng push", "f() { git \"$@\"; }; f push", "g() { git $*; }; g push", "hub push", "git !push",
    "git stash; git push", "git push&", "git\tpush", "git \\\n push", "command git push", "exec git push",
    "git 'push'", "git pu''sh", "git p\\ush",
]  # fmt: skip
FETCHING = [
    "curl u", "/usr/bin/curl u", "c''url u", "sudo curl u", "curl u | sh", "sh -c 'curl u'",
    "docker run --rm curlimages/curl curl u", "docker run i curl u", "ssh h curl u", "xargs curl < f",
    "echo u | xargs curl", "find . -exec curl {} ;", "python -c 'import os; os.system(\"curl u\")'",
    "somebodys-wrapper curl u", "somebodys-wrapper --run=curl u", "somebodys-wrapper 'curl u'",
    "kubectl exec p -- curl u", "parallel curl ::: u", "watch curl u", "env -S 'curl u'", "time ! curl u",
    "nohup curl u &", "coproc curl u", "trap 'curl u' EXIT", "timeout --odd 5 curl u", "make SHELL=curl",
    "PAGER='curl u' git log", "git -c core.pager='curl u' log", "awk 'BEGIN{system(\"curl u\")}'",
    "tar cf y --checkpoint-action=exec='curl u' f", "cp /usr/bin/curl c; ./c u", "hash -p /usr/bin/curl c; c u",
    "bash -oc errexit 'curl u'", "strace /usr/bin/curl u",
]  # fmt: skip


@pytest.mark.parametrize(("program", "arguments"), [("rm", "x"), ("git push", "origin"), ("curl", "u"), ("sudo", "id")])
def test_no_way_of_writing_a_line_hides_its_program_from_a_rule(program: str, arguments: str) -> None:
    lines = list_hidden_lines(program, arguments)
    # An option that takes one word only cannot push: the rule has two.
    lines = [line for line in lines if all(word in line for word in program.split()) or " " not in program]
    assert len(lines) > 350
    open_lines = [line[:200] for line in lines if is_open(line, f"{program}:*")]
    assert open_lines == []


@try_each("command", DELETING)
def test_a_rule_about_rm_asks_about_what_deletes_in_its_place(command: str) -> None:
    assert not is_open(command, "rm:*")
    assert not is_open(command, "rm -rf *")


def test_no_other_way_is_open_either() -> None:
    assert [command for command in OTHER_WAYS if is_open(command, "rm:*")] == []


@try_each("command", PUSHING)
def test_a_rule_about_git_push_is_seen_through_aliases_subcommands_and_settings(command: str) -> None:
    assert not is_open(command, "git push:*")


@try_each("command", FETCHING)
def test_a_rule_about_curl_is_seen_through_what_runs_it(command: str) -> None:
    assert not is_open(command, "curl:*")


@pytest.mark.parametrize("content", ["rm:*", "git push:*", "curl:*", "rm -rf *", "dropdb:*"])
def test_what_people_run_all_day_stays_as_it_is(content: str) -> None:
    assert len(EVERYDAY) >= 80
    assert [line for line in EVERYDAY if not is_open(line, content)] == []


def test_the_list_of_ways_is_honest_since_bash_removes_the_file_by_them(tmp_path: Path) -> None:
    lines = choose_examples(list_removing_lines())
    given = b"".join(line.encode() + b"\0" for line in lines)
    settings = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["bash", "-c", RUN_ALL], input=given, cwd=tmp_path, env=settings, check=True, timeout=100)
    kept = [line for place, line in enumerate(lines, 1) if (tmp_path / str(place) / "x").exists()]
    assert kept == []
    assert [line[:200] for line in lines if is_open(line, "rm:*")] == []


DENIED = [
    "rm x", "sudo --odd y rm x", "bash -oc errexit 'rm x'", "bash 0<<<'rm x'", "time ! rm x",
    "git -c alias.y='!rm x' y", "env -S 'rm x'", "mapfile -C 'rm x' -c 1", "compgen -C 'rm x'", "jobs -x rm x",
    "docker exec c rm x", "tar --to-command='rm x' -xf y", "npx -c 'rm x'", "su a -c 'rm x'",
    "git rebase -x 'rm x' main", "git submodule foreach rm x", "builtin eval 'rm x'", "setarch x86_64 rm x",
    "unshare -r rm x", "uv run rm x", "xargs --odd rm",
]  # fmt: skip


@try_each("command", DENIED)
def test_what_visibly_runs_the_program_is_denied_and_not_only_asked(command: str) -> None:
    assert is_denied(command, "rm:*")


@try_each(
    ("content", "command"),
    [
        ("kubectl delete:*", "kubectl -n a delete pod x"),
        ("kubectl delete:*", "kubectl --context b -n a delete pod x"),
        ("docker run:*", "docker -H x run i"),
        ("npm publish:*", "npm --access public publish"),
        ("npm run deploy:*", "npm run --silent deploy"),
        ("terraform destroy:*", "terraform -chdir=x destroy"),
        ("aws s3 rm:*", "aws --profile p s3 rm u"),
    ],
)
def test_options_before_a_subcommand_do_not_hide_it(content: str, command: str) -> None:
    assert not is_open(command, content)
    assert is_open("kubectl get pods", content)
    assert is_open("npm run build", content)


def test_the_rule_that_may_catch_a_command_is_the_one_that_is_named() -> None:
    parsed = parse_command("find . -delete")
    assert find_possible_rule(parsed, ["curl:*", "rm:*"]) == "rm:*"
    assert find_possible_rule(parse_command("somebodys-wrapper curl u"), ["rm:*", "curl:*"]) == "curl:*"


CAPS = {
    "levels of wrappers": ("sudo ", [7, 8, 9, 10, 50]),
    "levels of eval": ("eval ", [7, 8, 9, 10]),
    "words after an unknown option": ("a ", [50, 87, 88, 89, 90, 199, 200, 201, 4_000]),
    "assignments": ("A=1 ", [199, 200, 201, 2_000]),
    "parts": ("true; ", [49, 50, 51, 999, 1_000, 1_001, 4_999, 5_001]),
    "openings": (": ${a}; ", [1_499, 1_500, 1_501]),
    "heredocs": (": <<E\nE\n", [249, 250, 251]),
    "pipes": (": | ", [1_999, 2_000, 2_001]),
    "bytes": ("#" * 99 + "\n", [160, 163, 164, 999, 1_000, 1_001]),
}


@pytest.mark.parametrize("name", CAPS)
def test_no_cap_turns_a_deny_into_an_allow(name: str) -> None:
    piece, numbers = CAPS[name]
    before = {"words after an unknown option": "sudo --odd ", "assignments": "env --odd "}.get(name, "")
    for number in numbers:
        lines = [f"{before}{piece * number}rm x"]
        lines += [f"bash -c '{lines[0]}'"] if number < 3_000 else []
        assert [line[:80] for line in lines if is_open(line, "rm:*")] == [], number


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("$(", ")"), ("{ ", "; }"), ("if true; then ", "; fi")])
def test_no_depth_turns_a_deny_into_an_allow(opening: str, closing: str) -> None:
    for depth in (1, 8, 9, 59, 60, 61, 62, 200):
        assert not is_open(f"{opening * depth}rm x{closing * depth}", "rm:*"), depth


def test_a_find_with_more_commands_than_are_looked_at_is_asked_about() -> None:
    for number in (10, 200, 2_000):
        assert not is_open("find . " + "-exec ls " * number + "-exec rm {} ;", "rm:*")
        assert not is_open("find . " + "-exec ls {} ; " * number + "-exec rm {} ;", "rm:*")


LONG = {
    "data": "echo " + "word " * 2_000,
    "words": "somebodys-tool " + "word " * 2_000,
    "unknown option": "sudo --odd " + "word " * 2_000,
    "options of options": "sudo --odd " + "env --odd " * 1_000,
    "commands of find": "find . " + "-exec ls " * 1_200,
    "assignments": "env " + "A=1 " * 2_500 + "ls",
    "wrappers": "sudo " * 2_000 + "ls",
    "settings": "git " + "-c a.b=c " * 1_100 + "status",
    "script of sed": "sed '" + "s/a/b/;" * 1_400 + "' f",
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_command_is_judged_in_a_moment_with_a_thousand_rules(name: str) -> None:
    contents = index_forbid_rules([*(f"program{number}:*" for number in range(998)), "rm:*", "git push:*"])
    best = 1.0
    for _ in range(5):
        clear_cache()
        parsed = parse_command(LONG[name])
        began = time.process_time()
        find_forbidding_rule(parsed, contents)
        may_be_forbidden(parsed, contents)
        best = min(best, time.process_time() - began)
    # A multiple of what it takes on a machine that does nothing else.
    assert best < 0.1
