"""What the configuration says to tools: one object, which stays the same until the configuration changes."""

from pathlib import Path

import pytest

from ostler.protocol.config import ConfigSet
from ostler.protocol.places import Places
from ostler.server.config.configuration import Configuration, load_configuration
from ostler.server.daemon.wiring import SandboxCache, ToolConfigCache
from ostler.tools.shell.running.profile import ShellProfile


@pytest.fixture
def configuration(tmp_path: Path) -> Configuration:
    return load_configuration(tmp_path / "config.toml", {}, {})


@pytest.fixture
def sandbox(configuration: Configuration, tmp_path: Path) -> SandboxCache:
    return SandboxCache(lambda: configuration.current.sandbox, Places(tmp_path, tmp_path, tmp_path, tmp_path))


@pytest.fixture
def tool_config(configuration: Configuration, sandbox: SandboxCache, tmp_path: Path) -> ToolConfigCache:
    return ToolConfigCache(configuration, sandbox, ShellProfile(tmp_path, print), 0o027, testing=False)


def test_it_is_the_same_object_until_a_setting_changes(
    configuration: Configuration, tool_config: ToolConfigCache
) -> None:
    before = tool_config()
    assert tool_config() is before
    assert before.umask == 0o027
    configuration.set(ConfigSet(key="tools.read_tokens", value=2_000))
    after = tool_config()
    assert after is not before
    assert after != before
    assert (before.tools.read_tokens, after.tools.read_tokens) == (25_000, 2_000)
    assert tool_config() is after


def test_it_follows_the_proxy_of_the_sandbox(sandbox: SandboxCache, tool_config: ToolConfigCache) -> None:
    before = tool_config()
    sandbox.proxy = "/run/proxy"
    after = tool_config()
    assert after is not before
    assert after.sandbox is not None
    assert after.sandbox.proxy == "/run/proxy"


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("assistant", True, lambda config: config.assistant is not None),
        ("permissions.network_reads", True, lambda config: config.network_reads),
        ("tools.shell_snapshot", False, lambda config: config.profile is None),
        ("sandbox.mode", "off", lambda config: config.sandbox.mode == "off"),
    ],
)
def test_settings_of_other_sections_reach_tools(
    configuration: Configuration, tool_config: ToolConfigCache, key: str, value: object, shown: object
) -> None:
    assert callable(shown)
    assert not shown(tool_config())
    configuration.set(ConfigSet(key=key, value=value))
    assert shown(tool_config())
