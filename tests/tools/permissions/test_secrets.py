"""What looks like a secret, and what only speaks of one."""

import pytest

from ostler.tools.permissions.memory_notes import is_project_note, refuse_secret
from ostler.tools.permissions.secrets import find_secret
from tests.support.tables import try_each

pytestmark = pytest.mark.without_daemon

# Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "an AWS access key": "key AKIA" + "ABCDEFGHIJKLMNOP",
    "a private key": "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nabc",
    "a GitHub token": "ghp_" + "a1" * 18,
    "a GitLab token": "glpat-" + "a1b2" * 6,
    "a key of a model provider": "sk-ant-" + "api03-" + "x9" * 16,
    "a Slack token": "xoxb-" + "123456789012-abc",
    "a Google API key": "AIza" + "B" * 35,
    "a Stripe key": "sk_live_" + "4e" * 12,
    "a package registry's token": "npm_" + "Z" * 36,
    "a signed token (JWT)": "eyJ" + "hbGciOiJIUzI1" + ".eyJ" + "zdWIiOiIxMjM0" + "." + "s" * 20,
    "an address with a password in it": "postgres://hay:" + "hunter22" + "@db/feed",
    "a bearer token": "Authorization: Bearer " + "a1b2c3d4" * 4,
    "a password or a key": 'password = "' + "Tr0ub4dor" + '"',
}
HARMLESS = [
    "The password is kept in the vault: ask Ann.",
    "password: see 1Password",
    "token = os.environ['API_TOKEN']",
    "api_key: ${API_KEY_2024}",
    "https://example.org/a:b@c",
    "sk-learn is used for the clusters",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "The header is `Authorization: Bearer <token>`",
]


@try_each(("name", "text"), list(SECRETS.items()))
def test_a_secret_is_found_by_name(name: str, text: str) -> None:
    assert find_secret(f"Keep this in mind: {text} and the rest.") == name


@try_each("text", HARMLESS)
def test_who_speaks_of_secrets_may_go_on(text: str) -> None:
    assert find_secret(text) is None


def test_only_notes_of_a_project_are_shared() -> None:
    secret = SECRETS["an AWS access key"]
    assert is_project_note("/p/.ostler/memory/MEMORY.md")
    assert not is_project_note("/p/.ostler/memory/deep/x.md")
    assert not is_project_note("/p/.ostler/memory/x.txt")
    assert refuse_secret("/home/memory/MEMORY.md", secret) is None
    refused = refuse_secret("/p/.ostler/memory/keys.md", secret)
    assert refused is not None
    assert "an AWS access key" in refused
