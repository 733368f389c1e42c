"""Programs are found outside the roots, and children get nobody's secrets."""

from pathlib import Path

import pytest

from ostler.tools.sandbox import clean_path, confine_environment, resolve_program, scrub_environment
from tests.support.tables import try_each


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """With programs of its own, and a folder beside it that has one too."""
    for folder in ("project/node_modules/.bin", "beside"):
        (tmp_path / folder).mkdir(parents=True)
        program = tmp_path / folder / "ls"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    return tmp_path / "project"


def test_a_search_path_loses_what_the_command_could_have_planted(project: Path) -> None:
    planted, beside = project / "node_modules/.bin", project.parent / "beside"
    link = project.parent / "link"
    link.symlink_to(planted)
    path = f"{planted}:.:./node_modules/.bin::{link}:{project}/../project/node_modules/.bin:{beside}:/usr/bin:"
    assert clean_path(path, [str(project)]) == f"{beside}:/usr/bin"
    assert clean_path(path, [f"{project.parent}/beside/../project"]) == f"{beside}:/usr/bin"


def test_a_folder_whose_name_only_begins_like_the_root_stays(project: Path) -> None:
    assert clean_path(f"{project}2/bin", [str(project)]) == f"{project}2/bin"


def test_an_empty_search_path_never_means_the_current_folder(project: Path) -> None:
    for path in ("", ":", ".", str(project)):
        assert clean_path(path, [str(project)]) == "/usr/local/bin:/usr/bin:/bin"


def test_argv_0_is_resolved_outside_the_roots(project: Path) -> None:
    planted, beside = project / "node_modules/.bin", project.parent / "beside"
    path = f"{planted}:{beside}:/usr/bin"
    assert resolve_program("ls", path, [str(project)]) == f"{beside}/ls"
    assert resolve_program("ls", path, []) == f"{planted}/ls"
    assert resolve_program(f"{planted}/ls", path, [str(project)]) is None
    assert resolve_program(f"{beside}/ls", path, [str(project)]) == f"{beside}/ls"
    for name in ("", "./ls", "../beside/ls", "node_modules/.bin/ls", "no-such-program"):
        assert resolve_program(name, path, [str(project)]) is None


def test_a_link_outside_that_leads_to_a_program_inside_is_passed_over(project: Path) -> None:
    place = project.parent / "links"
    place.mkdir()
    (place / "ls").symlink_to(project / "node_modules/.bin/ls")
    found = resolve_program("ls", f"{place}:{project.parent}/beside", [str(project)])
    assert found == f"{project.parent}/beside/ls"


def test_what_cannot_be_run_is_not_found(project: Path) -> None:
    place = project.parent / "texts"
    (place / "ls").mkdir(parents=True)
    (place / "cat").write_text("")
    assert resolve_program("ls", str(place), []) is None
    assert resolve_program("cat", str(place), []) is None


OURS = (
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "OSTLER_TOKEN", "OSTLER_HOME",
    "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_API_KEY", "AWS_BEARER_TOKEN_BEDROCK",
)  # fmt: skip
SECRETS = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "GITHUB_TOKEN", "GH_TOKEN",
    "GITHUB_PAT", "NPM_TOKEN", "npm_config__auth", "OPENAI_API_KEY", "OPENAIAPIKEY", "STRIPE_SECRET", "DB_PASSWORD",
    "PGPASSWORD", "MYSQL_PWD", "DATABASE_URL", "SENTRY_DSN", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_CLIENT_ID",
    "HF_TOKEN", "SIGNING_KEY", "SSH_PRIVATE_KEY", "my_api_key", "VAULT_ADDR", "SLACK_WEBHOOK_URL", "SESSION_COOKIE",
)  # fmt: skip
WAYS_OUT = (
    "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "KUBECONFIG", "DISPLAY",
    "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "TMUX", "VSCODE_IPC_HOOK_CLI", "GIT_ASKPASS", "TMPDIR",
    "https_proxy", "ALL_PROXY", "no_proxy",
)  # fmt: skip
LOADING = (
    "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GLIBC_TUNABLES", "GCONV_PATH", "BASH_ENV",
    "ENV", "BASH_FUNC_ls%%", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS",
)  # fmt: skip
HARMLESS = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "SHELL", "EDITOR", "PAGER", "GIT_PAGER", "GIT_OPTIONAL_LOCKS",
    "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0", "CARGO_HOME", "GOPATH", "JAVA_HOME", "VIRTUAL_ENV",
    "PYTHONUNBUFFERED", "KEYBOARD", "PATHEXT", "AUTHOR", "CI", "NO_COLOR", "OSTLER_CALL",
)  # fmt: skip


@try_each("name", OURS)
def test_our_token_and_the_api_key_are_never_in_a_childs_environment(name: str) -> None:
    assert (
        scrub_environment({name: "x", "HOME": "/h"}) == confine_environment({name: "x", "HOME": "/h"}) == {"HOME": "/h"}
    )


@try_each("name", [*SECRETS, *WAYS_OUT, *LOADING])
def test_a_sandboxed_command_gets_no_secret_no_way_out_and_nothing_to_load(name: str) -> None:
    assert confine_environment({name: "x", "HOME": "/h"}) == {"HOME": "/h"}
    # Outside, these are the person's own.
    assert name in scrub_environment({name: "x"})


def test_an_address_with_a_password_is_a_secret_whatever_its_name() -> None:
    given = {
        "A": "https://me:sesame@x.y/",
        "B": "postgres://u:p@h:5/db",
        "C": "https://x.y:8080/a@b",
        "D": "git://me@x/y",
    }
    assert confine_environment(given).keys() == {"C", "D"}
    assert scrub_environment(given) == given


@try_each("name", HARMLESS)
def test_what_is_harmless_is_left(name: str) -> None:
    assert scrub_environment({name: "x"}) == confine_environment({name: "x"}) == {name: "x"}
