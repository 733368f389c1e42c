"""`ostler models`, and the names that shells complete."""

from pathlib import Path

from tests.clients.cli.commands.installation.test_completion import complete_words
from tests.clients.conftest import Cli
from tests.support.daemon import Daemon
from tests.support.messages_api.server import ScriptedApi


def test_models_are_listed_with_where_the_list_is_from(home: Path, api: ScriptedApi) -> None:
    api.models = ("claude-sonnet-5", "claude-haiku-4-5", "odd:name$(x)")
    with Daemon(home, environment=api.environment):
        cli = Cli(home)
        done = cli.run("models")
        first, second, *_ = done.out.splitlines()
        assert first == "claude-sonnet-5\tdefault\tClaude Sonnet 5\t300k in, 30k out\t$2 in, $10 out"
        assert second.startswith("claude-haiku-4-5\t\tClaude Haiku 4 5\t")
        assert done.err.startswith("As the provider lists them;")
        assert cli.run("models", "--format", "json").json["source"] == "provider"
        assert cli.run("models", "--session", "s_none").code == 1
        # What a shell would take for something else is not offered.
        assert complete_words(cli, "ostler", "run", "x", "--model", "") == [
            "claude-sonnet-5",
            "claude-haiku-4-5",
            "rehearsal",
        ]
        assert complete_words(cli, "ostler", "chat", "--model", "claude-h") == ["claude-haiku-4-5"]


def test_providers_are_offered_where_a_key_is_wanted(cli: Cli) -> None:
    assert complete_words(cli, "ostler", "auth", "login", "") == ["anthropic", "brave", "tavily", "exa"]
    assert not cli.home.exists()
