"""Patterns of file names, compared with a regular expression that says plainly what they mean."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.tools.search.glob_pattern import _translate_component, compile_pattern

COMPONENTS = st.sampled_from(["**", "**", "a", "b", "*", "a*", "?", "[ab]"])
NAMES = st.sampled_from(["a", "b", "ab", "c"])


def compile_reference(pattern: str) -> "re.Pattern[str]":
    """The reference: a regular expression in which each `**` tries every number of folders."""
    components = [component for component in pattern.split("/") if component]
    if "/" not in pattern.strip("/") and components != ["**"]:
        components.insert(0, "**")
    parts = [
        (".+" if last else "(?:[^/]+/)*")
        if component == "**"
        else _translate_component(component) + ("" if last else "/")
        for component, last in zip(components, [False] * (len(components) - 1) + [True], strict=True)
    ]
    return re.compile("".join(parts), re.DOTALL)


@given(
    st.lists(COMPONENTS, min_size=1, max_size=6).filter(lambda components: components.count("**") <= 4),
    st.lists(NAMES, min_size=1, max_size=7),
)
def test_the_first_fit_is_as_good_as_any(components: list[str], names: list[str]) -> None:
    pattern, path = "/".join(components), "/".join(names)
    assert compile_pattern(pattern)(path) == (compile_reference(pattern).fullmatch(path) is not None)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("pattern", ["**/a/**/a/**/a/**/a/b", "**/a*/**/*a/**/a/**/[b]", "a/**/a/a/**/a/**/a/b"])
def test_a_deep_path_takes_no_longer_than_it_is_deep(pattern: str) -> None:
    """It took eight seconds for one path of 250 folders."""
    matches = compile_pattern(pattern)
    for depth in range(2000, 2050):
        assert not matches("/".join(["a"] * depth))
        assert matches("/".join(["a"] * depth) + "/b")
