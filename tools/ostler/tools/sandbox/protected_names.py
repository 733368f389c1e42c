"""The names that the sandbox covers or protects: data, and what follows from the list of guarded names."""

from collections.abc import Iterator
from typing import Final

from ostler.tools.fs.protected_paths import list_protected_patterns

CREDENTIALS: Final = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", "_netrc", ".git-credentials", ".npmrc", ".pypirc",
    ".yarnrc.yml", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml",
    ".m2/settings-security.xml", ".gradle/gradle.properties", ".nuget/NuGet", ".composer/auth.json",
    ".config/composer/auth.json", ".config/gcloud", ".config/gh", ".config/glab-cli", ".config/hub", ".config/git",
    ".config/containers", ".config/doctl", ".config/rclone", ".config/op", ".config/sops", ".config/age",
    ".config/heroku", ".config/configstore", ".config/pypoetry", ".config/pip", ".config/anthropic", ".config/ostler",
    ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge", ".mozilla",
    ".thunderbird", ".local/share/keyrings", ".password-store", ".1password", ".pgpass", ".my.cnf", ".mylogin.cnf",
    ".terraform.d", ".terraformrc", ".vault-token", ".boto", ".s3cfg", ".oci", ".fly", ".databrickscfg", ".kaggle",
    ".huggingface", ".cache/huggingface/token", ".codex", ".gemini", ".claude.json", ".claude/.credentials.json",
    ".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history", ".mysql_history",
    ".local/share/fish/fish_history",
)  # fmt: skip
"""Below the person's home folder."""

MACHINE_SECRETS: Final = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers",
    "/etc/sudoers.d", "/etc/kubernetes", "/etc/rancher", "/etc/wireguard", "/etc/NetworkManager/system-connections",
    "/etc/krb5.keytab", "/var/lib/kubelet", "/var/run", "/var/lib/lxd", "/var/snap/lxd", "/var/lib/incus",
)  # fmt: skip
"""Keys, and places of sockets. Root could read and use them all, whoever belongs to a group some."""

HOME_NAMES: Final = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc", ".zshrc",
    ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".xprofile",
    ".xinitrc", ".xsession", ".xsessionrc", ".pam_environment", ".gitconfig", ".pip", ".gemrc", ".condarc", ".ssh",
    ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".git-credentials", ".pgpass", ".my.cnf", ".terraform.d",
    ".terraformrc", ".vault-token", ".boto", ".s3cfg", ".password-store",
)  # fmt: skip
"""Protected in the person's home folder, where a root holds it, besides the names of a project."""

PARTLY_PROTECTED_IN_HOME: Final = {
    ".config": (
        "git", "fish", "nushell", "pip", "systemd", "autostart", "ostler", "gcloud", "gh", "glab-cli", "hub",
    ),
    ".local/share": ("systemd",),
    ".m2": ("settings.xml",),
    ".gradle": ("init.gradle",),
}  # fmt: skip


def _list_project_names() -> Iterator[str]:
    """Every guarded name of one part, but for those that act only in a home folder."""
    for pattern in list_protected_patterns():
        if not {"/", "*"}.intersection(pattern) and pattern not in HOME_NAMES:
            yield pattern


PROJECT_NAMES: Final = tuple(_list_project_names())
"""Protected in each root, there or not."""


def _collect_partly_protected() -> dict[str, tuple[str, ...]]:
    """Hidden folders that hold guarded names; of a name with a `*` the spellings that are read."""
    found: dict[str, list[str]] = {}
    for pattern in list_protected_patterns():
        folder, _, name = pattern.partition("/")
        if folder.startswith(".") and name and "/" not in name and folder not in PARTLY_PROTECTED_IN_HOME:
            names = _SPELLINGS.get(name, () if "*" in name else (name,))
            found.setdefault(folder, []).extend(names)
    return {folder: tuple(names) for folder, names in found.items()}


_SPELLINGS: Final = {"settings*.json": ("settings.json", "settings.local.json")}
PARTLY_PROTECTED: Final = _collect_partly_protected()
"""Folders of a root in which only some names are protected. Where the folder is missing, it is protected whole."""
