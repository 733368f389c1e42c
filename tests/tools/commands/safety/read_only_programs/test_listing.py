"""A program that runs on files which are found: no name on the disk may become two words, an option or a way out."""

import os
import subprocess
from pathlib import Path

import pytest

from ostler.tools.commands import (
    explain_parts,
    find_file_effects,
    is_read_only,
    parse_command,
    part_is_read_only,
    seems_read_only,
)
from ostler.tools.commands.safety.read_only_programs.listing import Listing, find_listing_problem

LISTS = [
    "find . | xargs cat", "find . -print0 | xargs -0 cat", "find . -exec cat {} +", "find . -exec grep x {} \\;",
    "ls | xargs cat", "git ls-files | xargs cat", "fdfind | xargs cat", "rg --files | xargs cat",
    "grep -rl x . | xargs cat",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    (place / "src").mkdir(parents=True)
    (place / "src" / "a.py").write_text("x\n")
    (place / "b.txt").write_text("x\n")
    (tmp_path / "outside").write_text("secret\n")
    subprocess.run(["git", "init", "-q"], cwd=place, check=True)
    return place


def passes(command: str, folder: Path) -> bool:
    return is_read_only(parse_command(command), str(folder)).ok


@pytest.mark.parametrize("command", LISTS)
def test_on_ordinary_names_it_passes(command: str, folder: Path) -> None:
    assert passes(command, folder)
    assert seems_read_only(parse_command(command))


@pytest.mark.parametrize("name", ["a /etc/passwd", "a\n/etc/passwd", "it's", 'a"b', "a\\b", "tab\tx"])
@pytest.mark.parametrize("command", [each for each in LISTS if "xargs cat" in each])
def test_a_name_that_would_be_split_in_two_is_asked_about(command: str, name: str, folder: Path) -> None:
    path = folder / "src" / name if not command.startswith("ls") else folder / name.replace("/", "_")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x\n")
    assert not passes(command, folder)
    assert passes("find . -type f -print0 | xargs -0 cat", folder)
    assert passes("find . -type f -exec cat {} +", folder)


@pytest.mark.parametrize("command", [each for each in LISTS if not each.startswith("find")])
@pytest.mark.parametrize("name", ["-x", "--pre=bash", "+5", "@args"])
def test_a_name_that_looks_like_an_option_is_asked_about(command: str, name: str, folder: Path) -> None:
    (folder / name).write_text("x\n")
    assert not passes(command, folder)


@pytest.mark.parametrize("command", [each for each in LISTS if not each.startswith(("rg", "grep"))])
def test_a_link_that_leads_out_of_what_is_searched_is_asked_about(command: str, folder: Path) -> None:
    (folder / "link").symlink_to("../outside")
    assert not passes(command, folder)
    for harmless in ("find . -type f -exec cat {} +", "find . -name '*.py' | xargs cat", "rg --files | xargs cat"):
        assert passes(harmless, folder)


@pytest.mark.parametrize(
    "command",
    [
        "find . -type f -o -name x -exec cat {} +", "find . ! -type f -exec cat {} +", "find . -exec cat {} + -type f",
        "find -L . -type f -exec cat {} +", "find . -follow -type f -exec cat {} +",
        "find . -not -name x -exec cat {} +",
        "find . -type f -exec cat {} + -o -exec cat {} +", "find . -name '[l]ink' -exec cat {} +",
        "find . \\( -type f -exec true \\; -o -exec cat {} + \\)", "find . -type l -exec cat {} +",
        "find . -name -type -name f -o -exec cat {} +", "find . -exec grep -R x {} +",
        "find . -name '(' -o -exec cat {} +",
        "grep -Rl x . | xargs cat", "find . -type d -exec grep -R x {} +",
    ],
)  # fmt: skip
def test_a_test_that_does_not_always_hold_does_not_keep_links_out(command: str, folder: Path) -> None:
    (folder / "link").symlink_to("../outside")
    assert not passes(command, folder)


def test_a_link_to_a_file_below_what_is_searched_is_no_way_out(folder: Path) -> None:
    (folder / "link").symlink_to("src/a.py")
    assert passes("find . -exec cat {} +", folder)
    assert not passes("cd src && ls | xargs cat; find ../src/../link -exec cat {} +; ls $x", folder)


def test_a_folder_with_more_files_than_can_be_looked_at_is_asked_about(folder: Path) -> None:
    listing = Listing((None,), hidden=False)
    assert find_listing_problem(listing, str(folder), most=4) is None
    assert "more files" in (find_listing_problem(listing, str(folder), most=3) or "")


def test_it_is_judged_where_it_would_run(folder: Path) -> None:
    (folder / "src" / "-x").write_text("x")
    assert not passes("cd src && ls | xargs cat", folder)
    assert not passes("cd $x; ls | xargs cat", folder)


def test_of_xargs_alone_nothing_is_known() -> None:
    parts = parse_command("find . | xargs cat").parts
    assert [part_is_read_only(part) for part in parts] == [True, False]


def test_which_files_it_reads_counts_as_not_known(folder: Path) -> None:
    assert find_file_effects(parse_command("find . | xargs cat"), str(folder)).unknown_reads
    read = find_file_effects(parse_command("find src -exec grep -f b.txt {} +"), str(folder)).accesses
    assert {(os.path.relpath(each.path, folder), each.deep) for each in read} == {("src", True), ("b.txt", True)}


def test_what_is_explained_of_xargs_is_what_it_is_behind_its_pipeline() -> None:
    assert [why for _, why in explain_parts(parse_command("find . | sort | xargs cat"))] == [None, None, None]
    assert [bool(why) for _, why in explain_parts(parse_command("find .; xargs cat"))] == [False, True]
    assert [bool(why) for _, why in explain_parts(parse_command("(find .) | xargs cat"))] == [False, True]
