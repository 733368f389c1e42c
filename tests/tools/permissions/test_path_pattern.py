"""Where path patterns start, and what they match there."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.tools.permissions import (
    BadRule,
    PathPattern,
    RealPathCache,
    build_exact_pattern,
    compile_path,
    format_rule,
    is_case_insensitive,
    matches_both,
    matches_either,
    parse_rule,
)
from ostler.tools.permissions.gitignore import translate
from tests.support.tables import try_each


def compile_pattern(content: str, *, folds: bool = False) -> PathPattern:
    return compile_path(content, settings_root="/repo", cwd="/repo/app", home="/home/me", folds=folds)


@try_each(
    ("content", "inside", "outside"),
    [
        ("//etc/passwd", ["/etc/passwd"], ["/repo/etc/passwd", "/repo/app/etc/passwd", "/etc/passwd2"]),
        ("//etc", ["/etc", "/etc/a/b"], ["/etcetera"]),
        ("//", ["/", "/a"], []),
        ("~/.ssh/**", ["/home/me/.ssh/id"], ["/home/me/.ssh", "/home/you/.ssh/id", "/repo/.ssh/id"]),
        ("~", ["/home/me/a"], ["/home/mean"]),
        ("/src/*.py", ["/repo/src/a.py"], ["/repo/app/src/a.py", "/src/a.py", "/repo/src/x/a.py"]),
        ("./src", ["/repo/app/src", "/repo/app/src/a"], ["/repo/src", "/repo/app/x/src", "/repo/app/srcs"]),
        ("../lib/**", ["/repo/lib/a"], ["/repo/app/lib/a", "/repo/lib"]),
        ("*.key", ["/repo/app/a.key", "/repo/app/x/y/a.key"], ["/repo/a.key", "/a.key", "/repo/app/a.keys"]),
        ("src/gen", ["/repo/app/src/gen/x"], ["/repo/app/x/src/gen", "/repo/app/src/gener"]),
        ("**/gen/*.py", ["/repo/app/gen/a.py", "/repo/app/x/gen/a.py"], ["/repo/app/gen/x/a.txt"]),
        ("a/**/b", ["/repo/app/a/b", "/repo/app/a/x/y/b", "/repo/app/a/x/b/below"], ["/repo/app/a", "/repo/app/ab"]),
        ("[a-c]?", ["/repo/app/bx"], ["/repo/app/dx", "/repo/app/b"]),
        (r"\!a", ["/repo/app/!a"], ["/repo/app/a"]),
        (r"\{a,b\}", ["/repo/app/{a,b}"], ["/repo/app/a"]),
        ("[id]", ["/repo/app/i"], ["/repo/app/[id]"]),
        ("{id}", ["/repo/app/{id}"], ["/repo/app/id"]),
        (r"a\*b", ["/repo/app/a*b"], ["/repo/app/axb"]),
    ],
)
def test_patterns_start_from_where_their_first_characters_say(
    content: str, inside: list[str], outside: list[str]
) -> None:
    compiled = compile_pattern(content)
    assert [path for path in inside if not compiled.matches(path, folder=True)] == []
    assert [path for path in outside if compiled.matches(path, folder=True)] == []


def test_a_slash_at_the_end_is_only_for_folders_and_what_they_hold() -> None:
    build = compile_pattern("build/")
    assert build.matches("/repo/app/x/build/out.o")
    assert build.matches("/repo/app/build", folder=True)
    assert not build.matches("/repo/app/build")


def test_deny_if_either_is_denied_allow_only_if_both_are(tmp_path: Path) -> None:
    src = compile_pattern("/src/**")
    inside, outside = "/repo/src/a", "/etc/passwd"
    assert matches_either(src, inside, outside)
    assert matches_either(src, outside, inside)
    assert not matches_either(src, outside, outside)
    assert matches_both(src, inside, inside)
    assert not matches_both(src, inside, outside)
    assert not matches_both(src, outside, inside)


def test_a_folder_that_is_reached_through_a_link_is_known_by_both_names(tmp_path: Path) -> None:
    real = (tmp_path / "real").resolve()
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    compiled = compile_path("/src/**", settings_root=str(tmp_path / "link"), cwd="/", home="/")
    assert matches_both(compiled, str(tmp_path / "link/src/a"), str(real / "src/a"))


def test_a_deny_follows_the_links_that_it_names_and_an_allow_does_not(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "data").mkdir()
    (root / "secret").symlink_to("data")
    place = {"settings_root": str(root), "cwd": str(root), "home": str(root)}
    target = str(root / "data" / "key")
    deny = compile_path("/secret/**", **place, through_links=True)  # type: ignore[arg-type]
    allow = compile_path("/secret/**", **place)  # type: ignore[arg-type]
    assert matches_either(deny, target, target)
    assert matches_either(deny, str(root / "secret" / "key"), target)
    assert not matches_both(allow, target, target)
    assert not matches_both(allow, str(root / "secret" / "key"), target)


def test_case_folds_where_the_file_system_does() -> None:
    folding, exact = compile_pattern("/Src/[A-C]*.PY", folds=True), compile_pattern("/Src/[A-C]*.PY")
    assert folding.matches("/REPO/src/beta.py")
    assert not exact.matches("/repo/src/beta.py")
    assert exact.matches("/repo/Src/Beta.PY")
    # One character or two: to such file systems it is the same name.
    assert compile_pattern("caf\u00e9.txt", folds=True).matches("/repo/app/CAFE\u0301.txt")
    assert compile_pattern("cafe\u0301.txt", folds=True).matches("/repo/app/caf\u00e9.txt")


def test_the_letter_case_of_a_file_system_is_seen_without_writing(tmp_path: Path) -> None:
    folder = tmp_path / "Letters"
    folder.mkdir()
    truth = (tmp_path / "lETTERS").exists()
    before = os.stat(folder).st_mtime_ns
    assert is_case_insensitive(str(folder)) is truth
    assert is_case_insensitive(str(folder / "absent" / "below")) is truth
    assert os.stat(folder).st_mtime_ns == before


def test_a_second_name_in_the_other_case_does_not_make_a_file_system_fold(tmp_path: Path) -> None:
    folder = tmp_path / "linked"
    folder.mkdir()
    (folder / "name").write_text("x")
    if (folder / "NAME").exists():
        pytest.skip("this file system takes both as one name")
    (folder / "NAME").hardlink_to(folder / "name")
    assert not is_case_insensitive(str(folder))


names = st.text(
    st.characters(codec="utf-8", exclude_characters="/", exclude_categories=["Cc"]), min_size=1, max_size=12
)


@given(st.lists(names.filter(lambda name: name not in {".", ".."}), min_size=1, max_size=4))
def test_a_path_can_be_written_as_a_rule_that_speaks_of_it_alone(components: list[str]) -> None:
    path = "/" + "/".join(components)
    rule = parse_rule(format_rule("Edit", build_exact_pattern(path)))
    assert rule.content is not None
    compiled = compile_pattern(rule.content)
    assert compiled.matches(path)
    assert compiled.matches(path + "/below")
    assert not compiled.matches(path + "x")
    assert not compiled.matches(f"/{components[0]}x{path}")


@pytest.mark.timeout(30)
def test_no_pattern_takes_forever() -> None:
    # As long as any path that rules look at; a second path holds long names.
    paths = ["/repo/app/" + "a/" * 60_000 + "a" * 1_000, "/repo/app/" + ("a" * 250 + "/") * 500]
    # The last character stands in brackets, so that nothing of it can be told without matching.
    hostile = ["*a" * 49 + "[b]", "**/a/" * 49 + "[b]", "a*" * 48 + "?[b]", "**/*a*a*a*a*/" * 8 + "[z]",
               "[!b]*" * 24 + "[c]", "**/a*a/" * 24 + "**/[b]", "*" * 600 + "[b]", "**/" + "*/" * 48 + "[b]",
               "**/" + "a*/" * 48 + "[b]", "**/" + "a/" * 2_000 + "[b]", "**/*a*a*a*a*[b]"]  # fmt: skip
    compiled = [compile_pattern(content) for content in hostile]
    # One that tries everything would take longer than the universe.
    assert not any(each.matches(path, folder=True) for each in compiled for path in paths)


@pytest.mark.parametrize("wildcard", ["*a", "?", "[a]", "a*/", "**/"])
def test_a_pattern_with_more_wildcards_than_anybody_needs_is_a_problem_and_said_where(wildcard: str) -> None:
    assert compile_path("x" + "/" + wildcard * 49 + "?", settings_root="/", cwd="/", home="/")
    with pytest.raises(BadRule, match="more than 50 wildcards") as caught:
        parse_rule(f"Read(x/{wildcard * 50}?)")
    assert caught.value.tool == "Read"
    assert caught.value.position == len("Read(x/") + len(wildcard) * 50


@pytest.mark.timeout(30)
def test_braces_that_are_never_closed_are_seen_at_once() -> None:
    # Longer than a pattern may be: where each comma was tried in turn, that took minutes.
    commas = "{" + "," * 400_000
    assert translate(commas, anchored=True).literal == (commas,)


def test_stars_that_are_escaped_are_no_wildcards() -> None:
    assert compile_pattern(r"\*" * 100).matches("/repo/app/" + "*" * 100)


def test_real_paths_are_what_the_system_says(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "a" / "b").mkdir(parents=True)
    (root / "link").symlink_to("a")
    (root / "a" / "up").symlink_to("../link/b")
    (root / "loop").symlink_to("loop")
    real = RealPathCache()
    for name in ("a/b/c", "link/b", "link/up/x", "a/up", "loop/x", "absent/x", "a/../link", "a//b"):
        path = str(root / name) if "//" not in name else f"{root}/{name}"
        assert real(path) == os.path.realpath(path)
        assert real(path) == os.path.realpath(path)
