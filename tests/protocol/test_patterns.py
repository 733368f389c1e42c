"""Tests of regular expressions that are compiled when they are first used: they find what others find."""

import re
from typing import Any

import pytest

from ostler.protocol.patterns import compile_later

ACTIONS: dict[str, tuple[Any, ...]] = {
    "match": ("Ab1",),
    "search": ("..ab2",),
    "fullmatch": ("AB3",),
    "sub": (r"<\1>", "ab4 AB5"),
    "subn": ("", "ab4 AB5"),
    "split": ("1ab62ab73",),
    "findall": ("ab8 ab9",),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_it_does_what_a_compiled_one_does(name: str) -> None:
    now, later = (make(r"ab(\d)", re.IGNORECASE) for make in (re.compile, compile_later))
    found = [getattr(each, name)(*ACTIONS[name]) for each in (now, later, later)]
    if isinstance(found[0], re.Match):
        found = [(each.span(), each.groups()) for each in found]
    assert found[0] == found[1] == found[2]


def test_it_is_compiled_once_and_not_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    real = re.compile

    def compile_and_tell(pattern: str, flags: int) -> re.Pattern[str]:
        compiled.append(pattern)
        return real(pattern, flags)

    monkeypatch.setattr(re, "compile", compile_and_tell)
    later = compile_later("a+")
    assert (later.pattern, compiled) == ("a+", [])
    assert [bool(later.match(text)) for text in ("aa", "b")] == [True, False]
    assert compiled == ["a+"]


def test_bytes_are_found_by_bytes() -> None:
    found = compile_later(rb"\d+").search(b"a12")
    assert found is not None
    assert found[0] == b"12"


def test_a_mistake_shows_when_it_is_used() -> None:
    wrong = compile_later("(")
    with pytest.raises(re.error):
        wrong.match("")
