"""The table of what needs the network only to look: it passes only where the setting is on."""

import tomllib
from pathlib import Path

import pytest

from ostler.tools.commands import is_read_only, parse_command
from ostler.tools.commands.safety.network_reads import load_network_forms

TABLE = tomllib.loads(Path(__file__).with_name("network_table.toml").read_text("utf-8"))


@pytest.mark.parametrize("command", TABLE["passes"])
def test_what_only_looks_passes_where_the_setting_is_on_and_nowhere_else(command: str, tmp_path: Path) -> None:
    parsed = parse_command(command)
    looks = is_read_only(parsed, str(tmp_path), network=True)
    assert looks.ok, looks.reason
    assert not is_read_only(parsed, str(tmp_path)).ok


@pytest.mark.parametrize("command", TABLE["asks"])
def test_what_may_do_more_than_look_is_asked_about_with_the_setting_too(command: str, tmp_path: Path) -> None:
    assert not is_read_only(parse_command(command), str(tmp_path), network=True).ok


def test_every_form_of_the_table_is_tried_here() -> None:
    for name in load_network_forms():
        assert any(command == name or command.startswith(f"{name} ") for command in TABLE["passes"]), name


@pytest.mark.parametrize("more", [" > f", " &", " $x", " `x`", " --zzzz", " --outp=f", " -\u00e9"])
def test_what_only_looks_does_not_any_more_with_this(more: str, tmp_path: Path) -> None:
    commands = [command for command in TABLE["passes"] if "|" not in command]
    assert [each for each in commands if is_read_only(parse_command(each + more), str(tmp_path), network=True).ok] == []
