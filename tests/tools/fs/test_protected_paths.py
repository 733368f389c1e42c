"""Protected paths: never written without a person's yes, name by name as the security page lists them."""

from ostler.tools.fs.protected_paths import find_protection_reason
from tests.support.tables import try_each


@try_each(
    "path",
    [
        "/p/.ostler/settings.json", "/p/.ostler/settings.local.json", "/p/.ostler/agents/a.md",
        "/p/.ostler/skills/x/SKILL.md", "/p/.ostler/rules/r.md", "/p/.ostler/hooks/h.sh", "/etc/ostler/policy.json",
        "/h/.config/ostler/config.toml",
        "/p/.claude/settings.json", "/p/.claude/settings.local.json", "/p/.cursor/rules/x", "/p/.codex/config.toml",
        "/p/.git/config", "/p/.git/hooks/pre-commit", "/p/.gitmodules", "/p/.gitattributes", "/p/.git/info/attributes",
        "/h/.bashrc", "/h/.zshenv", "/h/.profile", "/h/.config/fish/config.fish", "/etc/profile.d/x.sh",
        "/p/.envrc", "/p/.npmrc", "/h/.pypirc", "/h/.ripgreprc", "/p/.mcp.json", "/p/.vscode/tasks.json",
        "/p/.idea/x.xml", "/p/app.code-workspace", "/p/.zed/tasks.json", "/p/.helix/languages.toml", "/p/.exrc",
        "/p/.vimrc", "/p/.nvimrc", "/p/.nvim.lua", "/p/.dir-locals.el", "/p/.dir-locals-2.el", "/p/.gdbinit",
        "/p/.lldbinit", "/p/.hg/hgrc", "/p/.husky/pre-commit", "/p/.pre-commit-config.yaml", "/p/lefthook.yml",
        "/p/lefthook.yaml", "/p/.lefthook.toml", "/p/lefthook-local.yml", "/p/lefthook.json", "/p/.lefthook-local.yml",
        "/p/.config/lefthook.yml", "/p/mise.toml", "/p/.mise.toml", "/p/.mise.local.toml", "/p/.mise/config.toml",
        "/p/.config/mise/config.toml", "/p/.tool-versions", "/p/.github/workflows/ci.yml", "/p/.gitlab-ci.yml",
        "/p/.circleci/config.yml", "/p/azure-pipelines.yml", "/p/.azure-pipelines.yml", "/p/Jenkinsfile",
        "/p/bitbucket-pipelines.yml", "/p/.devcontainer.json",
        "/h/.ssh/authorized_keys", "/h/.aws/credentials", "/h/.config/gcloud/x", "/h/.azure/x",
        "/h/.kube/config", "/h/.oci/config",
        "/etc/crontab", "/etc/cron.d/x", "/var/spool/cron/crontabs/me", "/etc/systemd/system/x.service",
        "/usr/lib/systemd/system/x.service", "/run/systemd/system/x.service", "/h/.config/systemd/user/x.service",
    ],
)  # fmt: skip
def test_always_ask_before_writing(path: str) -> None:
    assert find_protection_reason(path)
    assert find_protection_reason(path.upper())
    assert find_protection_reason(path.replace("/p/", "/p/deeper/"))


def test_worktrees_in_our_own_folder_are_not_protected_but_their_own_settings_are() -> None:
    assert find_protection_reason("/p/.ostler/worktrees/one/src/a.py") is None
    assert find_protection_reason("/p/.ostler/worktrees/one/.ostler/settings.json")


def test_names_are_compared_by_component_and_never_by_prefix() -> None:
    assert find_protection_reason("/p/.gitignore") is None
    assert find_protection_reason("/p/.ssh-notes.md") is None
    assert find_protection_reason("/p/my.envrc") is None
    for name in ("code-workspace.md", "src/lefthook.go", "promise.toml", "my.gdbinit", ".github/README.md", "exrc"):
        assert find_protection_reason(f"/p/{name}") is None
