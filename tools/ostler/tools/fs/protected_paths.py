"""Protected paths: files that decide what runs. Writing one needs a person's approval, in any mode.

Names are compared by component and without regard to case, whether they exist or not. A `*` matches anything within
one component; a pattern of several components matches them in a row, anywhere in the path.
"""

import re
import unicodedata
from functools import cache
from typing import Final

_GIT: Final = (".git", ".gitmodules", ".gitattributes", ".gitconfig", ".config/git", ".hg/hgrc*", ".hgrc")
_HOOKS: Final = (
    ".husky", ".pre-commit-config.yaml", ".pre-commit-config.yml", ".overcommit.yml",
    *(f"{name}.{ending}" for name in ("lefthook", ".lefthook", "lefthook-local", ".lefthook-local")
      for ending in ("yml", "yaml", "toml", "json", "jsonc")),
    ".simple-git-hooks.*", "simple-git-hooks.*",
)  # fmt: skip
_SHELLS: Final = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login",
    ".config/fish", ".config/nushell", ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".pam_environment",
    "etc/profile", "etc/profile.d", "etc/bash.bashrc", "etc/bashrc", "etc/zsh", "etc/environment", "etc/ld.so.preload",
)  # fmt: skip
_EDITORS: Final = (
    ".vscode", ".idea", ".zed", ".fleet", ".helix", ".config/helix", "*.code-workspace", ".exrc", ".nexrc", ".vim",
    ".vimrc", ".gvimrc", ".lvimrc", ".nvimrc", ".nvim.lua", ".config/nvim", ".ycm_extra_conf.py", ".emacs", ".emacs.d",
    ".config/emacs", ".dir-locals.el", ".dir-locals-2.el", ".gdbinit", ".config/gdb", ".gdbearlyinit", ".lldbinit*",
)  # fmt: skip
_PIPELINES: Final = (
    ".github/workflows", ".github/actions", ".gitea/workflows", ".forgejo/workflows", ".gitlab-ci.yml", ".circleci",
    "azure-pipelines.yml", "azure-pipelines.yaml", ".azure-pipelines*", "jenkinsfile", "bitbucket-pipelines.yml",
    ".travis.yml", ".drone.yml", ".woodpecker", ".woodpecker.y*ml", "appveyor.yml", ".appveyor.yml", ".cirrus.yml",
    ".buildkite", ".semaphore", ".teamcity", "cloudbuild.yaml", "cloudbuild.yml", "buildspec.yml",
)  # fmt: skip
_PROGRAMS: Final = (
    ".envrc", "mise.toml", ".mise.toml", "mise.*.toml", ".mise.*.toml", ".mise", ".config/mise", ".rtx.toml",
    ".tool-versions", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pypirc", ".pip", ".config/pip",
    ".ripgreprc", ".mcp.json", ".cargo/config", ".cargo/config.toml", ".cargo/credentials*", ".gemrc", ".bundle",
    ".m2/settings.xml", ".gradle/init.gradle", ".condarc", ".devcontainer", ".devcontainer.json",
)  # fmt: skip
_CREDENTIALS: Final = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".config/glab-cli",
    ".config/hub", ".netrc", ".git-credentials", ".pgpass", ".my.cnf", ".terraform.d", ".terraformrc", ".vault-token",
    ".boto", ".s3cfg", ".oci", ".config/doctl", ".config/rclone", ".password-store", "etc/ssh", "etc/sudoers",
    "etc/sudoers.d", "etc/pam.d", "etc/shadow", "etc/passwd",
)  # fmt: skip
_TIMERS: Final = (
    "etc/crontab", "etc/cron*", "etc/anacrontab", "var/spool/cron", "etc/systemd", "lib/systemd", "run/systemd",
    ".config/systemd", ".local/share/systemd", "etc/init.d", "etc/rc.local", ".config/autostart", "etc/xdg/autostart",
    "library/launchagents", "library/launchdaemons",
)  # fmt: skip
_AGENTS: Final = (
    ".ostler/settings*.json", ".ostler/agents", ".ostler/skills", ".ostler/rules", ".ostler/hooks",
    ".config/ostler", "etc/ostler",
    ".claude/settings*.json", ".claude/agents", ".claude/skills", ".claude/commands", ".claude/rules", ".claude/hooks",
    ".claude/plugins", ".claude.json", ".codex", ".cursor", ".cursorrules", ".windsurf", ".windsurfrules", ".gemini",
    ".opencode", "opencode.json", ".config/opencode", ".config/crush", ".amazonq", ".kiro", ".junie", ".continue",
    ".aider.conf.yml", ".clinerules", ".roo", ".crush.json",
    ".github/copilot-instructions.md",
)  # fmt: skip

_REASONS: Final = (
    ("it belongs to git, which runs what stands there", _GIT),
    ("it says what runs when somebody commits", _HOOKS),
    ("editors and debuggers run what it names when they open the folder", _EDITORS),
    ("it says what a build server runs, with credentials of its own", _PIPELINES),
    ("shells and desktops run it when they start", _SHELLS),
    ("programs take settings from it, and run what it names", _PROGRAMS),
    ("it holds or guards credentials", _CREDENTIALS),
    ("it says what the machine runs by itself", _TIMERS),
    ("it says what agents may do", _AGENTS),
)

PROJECT_NAMES: Final = (*_GIT, *_HOOKS, *_EDITORS, *_PIPELINES, *_PROGRAMS, *_AGENTS)
"""Those that lie in projects, as patterns: what protects names by itself takes them from here."""


def find_protection_reason(*paths: str) -> str | None:
    """Why a person has to allow the writing of one of these paths; None where none is protected."""
    for path in dict.fromkeys(paths):
        folded = fold_case(path)
        # Nearly all paths are none of them: one search instead of one for each reason.
        if _compile_any().search(folded) is not None:
            return next(reason for reason, pattern in _compile_patterns() if pattern.search(folded))
    return None


def fold_case(path: str) -> str:
    """Some file systems take names as equal that differ in case, in width, or in invisible characters."""
    if path.isascii():
        return path.lower()
    seen = "".join(character for character in path if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFKC", seen).casefold()


@cache
def _compile_any() -> re.Pattern[str]:
    return _compile_names(tuple(name for _, names in _REASONS for name in names))


@cache
def _compile_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((reason, _compile_names(names)) for reason, names in _REASONS)


def _compile_names(names: tuple[str, ...]) -> re.Pattern[str]:
    alternatives = "|".join(re.escape(name).replace(r"\*", "[^/]*") for name in names)
    return re.compile(rf"/(?:{alternatives})(?:/|\Z)")


def list_protected_patterns() -> tuple[str, ...]:
    """All patterns as they are written above: for whoever has to know them before there is a path."""
    return tuple(name for _, names in _REASONS for name in names)
