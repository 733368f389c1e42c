"""Whatever happens to a settings file, nothing is allowed that the intact one did not allow."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ostler.server.settings import Settings
from tests.server.settings.machine import PersonMachine
from tests.support.examples import count_examples

WHOLE = {
    "permissions": {
        "deny": ["Bash(rm:*)", "Read(~/.ssh/**)"],
        "ask": ["Edit(src/[a-z]*.py)", "WebFetch(domain:example.com)"],
        "allow": ["Bash(npm test)", "Edit(/docs/(a)/*.md)", "Skill(deploy:*)", "mcp__db"],
        "expires": {"Bash(npm test)": "2099-01-01T00:00:00Z"},
        "mode": "plan",
    },
    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]},
}
TEXT = json.dumps(WHOLE, indent=1)
STRUCTURE = [index for index, character in enumerate(TEXT) if character in '{}[]":,()']


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> PersonMachine:
    return PersonMachine(tmp_path_factory.mktemp("machine"))


def list_allowed(found: Settings) -> set[tuple[str, str | None]]:
    return {(rule.rule.tool, rule.rule.content) for rule in found.rules if rule.behavior == "allow"}


def list_forbidden_tools(found: Settings) -> set[str]:
    return {rule.rule.tool for rule in found.rules if rule.behavior != "allow"}


def check(machine: PersonMachine, text: str) -> None:
    machine.write("user", TEXT)
    intact = machine.load()
    assert intact.problems == ()
    machine.write("user", text)
    broken = machine.load()
    assert list_allowed(broken) <= list_allowed(intact)
    # Where it still allows anything, everything that was to be forbidden is still looked at.
    if list_allowed(broken):
        assert list_forbidden_tools(broken) >= list_forbidden_tools(intact)


bounded = settings(
    max_examples=count_examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@bounded
@given(end=st.integers(0, len(TEXT) - 1))
def test_a_file_that_was_cut_off(machine: PersonMachine, end: int) -> None:
    check(machine, TEXT[:end])


@bounded
@given(index=st.sampled_from(STRUCTURE))
def test_a_file_that_lost_a_character_of_its_structure(machine: PersonMachine, index: int) -> None:
    check(machine, TEXT[:index] + TEXT[index + 1 :])


@bounded
@given(index=st.sampled_from(STRUCTURE), instead=st.sampled_from('{}[]":,()\\\0\n*'))
def test_a_file_with_another_character_in_its_structure(machine: PersonMachine, index: int, instead: str) -> None:
    check(machine, TEXT[:index] + instead + TEXT[index + 1 :])


@bounded
@given(
    path=st.sampled_from([("permissions",), *(("permissions", key) for key in ("deny", "ask", "expires"))]),
    value=st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.lists(st.integers(), min_size=1)),
)
def test_a_value_of_the_wrong_kind(machine: PersonMachine, path: tuple[str, ...], value: object) -> None:
    document = json.loads(TEXT)
    around = document
    for step in path[:-1]:
        around = around[step]
    around[path[-1]] = value
    check(machine, json.dumps(document))


@bounded
@given(key=st.sampled_from(["deny", "ask", "expires"]), index=st.integers(0, 6), letter=st.characters(codec="ascii"))
def test_a_key_that_was_misspelt(machine: PersonMachine, key: str, index: int, letter: str) -> None:
    wrong = key[:index] + letter + key[index + 1 :]
    document = json.loads(TEXT)
    if wrong in document["permissions"]:
        return
    document["permissions"] = {wrong if name == key else name: value for name, value in document["permissions"].items()}
    check(machine, json.dumps(document))
    assert list_allowed(machine.load()) == set()


@bounded
@given(noise=st.binary(max_size=200))
def test_noise(machine: PersonMachine, noise: bytes) -> None:
    Path(machine.file("user")).write_bytes(noise)
    assert machine.load().rules == ()
