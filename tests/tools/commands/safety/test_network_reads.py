"""The table of what needs the network only to look: it passes only where the setting is on."""

import tomllib
from pathlib import Path

import pytest

from ostler.tools.commands import is_read_only, parse_command
from ostler.tools.commands.safety.network_reads import load_network_forms

TABLE = tomllib.loads(Path(__file__).with_name("network_table.toml").read_text("utf-8"))


def test_what_only_looks_passes_where_the_setting_is_on_and_nowhere_else(tmp_path: Path) -> None:
    parsed = {command: parse_command(command) for command in TABLE["passes"]}
    looks = {command: is_read_only(each, str(tmp_path), network=True) for command, each in parsed.items()}
    assert {command: verdict.reason for command, verdict in looks.items() if not verdict.ok} == {}
    assert [command for command, each in parsed.items() if is_read_only(each, str(tmp_path)).ok] == []


def test_what_may_do_more_than_look_is_asked_about_with_the_setting_too(tmp_path: Path) -> None:
    asks = TABLE["asks"]
    assert [each for each in asks if is_read_only(parse_command(each), str(tmp_path), network=True).ok] == []


def test_every_form_of_the_table_is_tried_here() -> None:
    for name in load_network_forms():
        assert any(command == name or command.startswith(f"{name} ") for command in TABLE["passes"]), name


@pytest.mark.parametrize("more", [" > f", " &", " $x", " `x`", " --zzzz", " --outp=f", " -\u00e9"])
def test_what_only_looks_does_not_any_more_with_this(more: str, tmp_path: Path) -> None:
    commands = [command for command in TABLE["passes"] if "|" not in command]
    assert [each for each in commands if is_read_only(parse_command(each + more), str(tmp_path), network=True).ok] == []
