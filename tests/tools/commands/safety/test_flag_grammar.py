"""Options are taken apart as each program itself does it: tried with the real programs."""

import itertools
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import pytest

from ostler.tools.commands import find_file_accesses, is_read_only, parse_command
from ostler.tools.commands.safety.program_table import load_programs
from tests.support.examples import choose_examples
from tests.support.tables import try_each
from tests.tools.commands.safety.test_program_table import NO_PROGRAMS

TABLE = tomllib.loads(resources.files("ostler.tools.commands.safety").joinpath("programs.toml").read_text("utf-8"))
OPTIONED = sorted(name for name in set(load_programs()) - NO_PROGRAMS if load_programs()[name].special is None)
INSTALLED = [name for name in OPTIONED if shutil.which(name)]
OF_THEIR_OWN = [name for name in INSTALLED if "like" not in TABLE[name]]
WRITING = "oOiwWxXzTRCHFfS"
"""Letters of options that write or run something, somewhere."""


def passes(command: str) -> bool:
    return is_read_only(parse_command(command), "/nowhere").ok


def run_all(commands: Sequence[str], folder: Path) -> None:
    """Runs all of them in one shell, and says nothing about how each ends."""
    script = "\n".join(f"{{ {command}; }} </dev/null >/dev/null 2>&1" for command in commands)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C", "TERM": "dumb"}
    subprocess.run(["bash", "-c", script], cwd=folder, env=environment, check=False, timeout=60, capture_output=True)


def test_every_program_declares_its_grammar() -> None:
    for name in OPTIONED:
        entry = TABLE[name]
        assert "grammar" in entry or "grammar" in TABLE[entry["like"]], name


@pytest.mark.parametrize("name", [name for name in OF_THEIR_OWN if load_programs()[name].short_values])
def test_no_letter_that_hides_behind_another_ones_value_writes_a_file(name: str, tmp_path: Path) -> None:
    # `tree -Po x FILE`: after a letter with a value some programs go on to read letters.
    (tmp_path / "in").write_text("a b\n")
    flags = load_programs()[name].short[:1]
    bundles = [
        f"{name} -{before}{letter}{hidden} 1 NEW in"
        for letter in load_programs()[name].short_values
        for hidden in WRITING
        for before in ("", flags)[: 2 if load_programs()[name].grammar == "own" else 1]
    ]
    run_all(choose_examples([command for command in bundles if passes(command)]), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("name", [name for name in OF_THEIR_OWN if load_programs()[name].most is not None])
def test_no_option_behind_the_last_operand_becomes_a_file(name: str, tmp_path: Path) -> None:
    # `xxd in -p`: for some programs the first operand ends the options, and the next word is a file to be written.
    (tmp_path / "in").write_text("a b\n")
    options = [f"-{letter}" for letter in load_programs()[name].short] + [*load_programs()[name].exact]
    commands = [f"{name} in {option}" for option in options] + [f"{name} in in {option}" for option in options]
    run_all(choose_examples([command for command in commands if passes(command)]), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    "name", [name for name in OF_THEIR_OWN if "text" in load_programs()[name].short_values.values()]
)
def test_the_program_opens_no_word_that_is_the_value_of_an_option_for_us(name: str, tmp_path: Path) -> None:
    program = load_programs()[name]
    (tmp_path / "in").write_text("a b\n")
    letters = [letter for letter, kind in program.short_values.items() if kind == "text"]
    places = (("-{} zzvalue in", "in -{} zzvalue"), ("-{}zzvalue in", "in -{}zzvalue"))
    for letter, form in itertools.product(letters, itertools.chain(*places)):
        arguments = form.format(letter)
        command = f"{name} {'x ' if program.operands == 'pattern' else ''}{arguments}"
        if not passes(command):
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=10,
        )
        said = done.stderr.decode("utf-8", "replace")
        assert not re.search(r"zzvalue'?: No such file|(?:open|access|stat) '?zzvalue", said), (command, said)


@try_each(
    "command",
    [
        "tree -Po x FILE", "tree -Io x FILE", "tree -LPo 1 x FILE", "tree -aIo x FILE", "xxd in -p", "xxd -p in FILE",
        "fd -e -x rm", "rg -g --pre=x y", "less in -o FILE", "jq -rf in .",
        "tree -- -o FILE", "tree -P -o FILE", "tar tf -x",
        "awk -F -f in", "xxd -- in FILE", "basename in -s", "type ls -a",
        "sort -ko in -o FILE", "uniq -f1 in FILE",
    ],
)  # fmt: skip
def test_the_grammar_of_flags_belongs_to_the_program(command: str) -> None:
    assert not passes(command)


@pytest.mark.parametrize(
    "abbreviated", ["sort --rev in", "ls --al", "grep --recurs x in", "wc --line in", "tree --nore"]
)
def test_no_abbreviation_passes_although_getopt_takes_it(abbreviated: str) -> None:
    assert not passes(abbreviated)


def test_a_value_of_clap_may_follow_an_equals_sign_and_its_file_is_known(tmp_path: Path) -> None:
    read = find_file_accesses(parse_command("rg -f=/etc/passwd x"), str(tmp_path))
    assert "/etc/passwd" in {each.path for each in read}


@pytest.mark.parametrize(
    ("command", "read"),
    [
        ("zcat a", "a.gz"), ("gzip -dc a", "a.Z"), ("unzip -l a", "a.zip"), ("zipinfo a", "a.ZIP"),
    ],
)  # fmt: skip
def test_a_file_that_is_read_in_place_of_one_that_does_not_exist_is_known(command: str, read: str) -> None:
    assert f"/nowhere/{read}" in {each.path for each in find_file_accesses(parse_command(command), "/nowhere")}


@pytest.mark.parametrize(
    "command", ["diff here there", "diff -r here there", "grep -R x here", "rg -L x here", "ls -RL here"]
)
def test_what_is_read_through_the_links_of_a_folder_is_known(command: str, tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "here" / "link").symlink_to("/etc/passwd")
    read = find_file_accesses(parse_command(command), str(tmp_path))
    assert f"{tmp_path}/here/link" in {each.path for each in read}


def test_a_word_with_a_blank_is_no_command_line() -> None:
    assert passes("python3 --version")
    assert not passes("'python3 --version'")
