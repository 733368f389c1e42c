"""`config` and `schema`."""

import json

from tests.clients.conftest import Cli
from tests.support.daemon import Daemon
from tests.support.repository import DOCS


def test_a_setting_is_changed_in_the_file_and_taken_out_again(daemon_cli: Cli, daemon: Daemon) -> None:
    changed = daemon_cli.run("config", "set", "retention.events_days", "7")
    assert (changed.code, changed.out, changed.err) == (0, "retention.events_days = 7\n", "")
    assert daemon_cli.run("config", "get", "retention.events_days").out == "7\n"
    assert "events_days = 7" in (daemon.home / "config.toml").read_text()
    assert daemon_cli.run("config", "unset", "retention.events_days").out == "retention.events_days = 30\n"
    assert "events_days" not in (daemon.home / "config.toml").read_text()


def test_what_is_not_json_is_text(daemon_cli: Cli) -> None:
    daemon_cli.run("config", "set", "model", "some-model")
    assert daemon_cli.run("config", "get", "model").out == "some-model\n"


def test_a_setting_that_waits_for_a_restart_says_so(daemon_cli: Cli) -> None:
    changed = daemon_cli.run("config", "set", "listen.port", "7718")
    assert changed.code == 0
    assert "ostler stop" in changed.err


def test_a_section_and_everything_are_lines(daemon_cli: Cli) -> None:
    section = daemon_cli.run("config", "get", "retention").out.splitlines()
    assert section == ["retention.events_days = 30", "retention.clients_days = 30"]
    everything = daemon_cli.run("config", "get").out.splitlines()
    assert set(section) < set(everything)
    assert "model.name = null" in everything


def test_config_as_json_says_where_a_value_comes_from(daemon_cli: Cli, daemon: Daemon) -> None:
    told = daemon_cli.run("config", "get", "log.level", "--format", "json").json
    assert told == daemon.call("config/get", key="log.level")


def test_wrong_settings_are_refused_in_one_line(daemon_cli: Cli) -> None:
    for arguments in (["set", "no.such", "1"], ["set", "retention.events_days", "many"], ["get", "no.such"]):
        failed = daemon_cli.run("config", *arguments)
        assert (failed.code, failed.out) == (2, "")
        assert len(failed.err.splitlines()) == 1
        assert "Invalid params" not in failed.err


def test_config_alone_shows_its_help(cli: Cli) -> None:
    shown = cli.run("config")
    assert shown.code == 0
    assert "unset" in shown.out


def test_schemas_are_those_of_the_documentation_and_need_no_daemon(cli: Cli) -> None:
    assert cli.run("schema", "openrpc").json == json.loads((DOCS / "openrpc.json").read_text())
    assert cli.run("schema", "jsonschema").json == json.loads((DOCS / "schema.json").read_text())
    assert cli.run("schema", "typescript").out == (DOCS / "ostler.d.ts").read_text()
    assert not cli.home.exists()
