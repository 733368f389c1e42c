"""The names that the sandbox covers or protects: data, and nothing else."""

from typing import Final

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

PROJECT_NAMES: Final = (
    ".git", ".gitmodules", ".gitattributes", ".envrc", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pypirc",
    ".ripgreprc", ".mcp.json", ".vscode", ".idea", ".bundle", ".pre-commit-config.yaml", ".husky", ".devcontainer",
    ".claude.json", ".codex", ".cursor", ".cursorrules", ".windsurf", ".windsurfrules", ".gemini", ".opencode",
    "opencode.json", ".continue", ".aider.conf.yml", ".clinerules", ".roo", ".crush.json",
)  # fmt: skip
"""Protected in each root, there or not."""

PARTLY_PROTECTED: Final = {
    ".ostler": ("settings.json", "settings.local.json", "agents", "skills", "rules", "hooks"),
    ".claude": (
        "settings.json", "settings.local.json", "agents", "skills", "commands", "rules", "hooks", "plugins",
    ),
    ".cargo": ("config", "config.toml"),
    ".github": ("copilot-instructions.md",),
}  # fmt: skip
"""Folders of a root in which only some names are protected. Where the folder is missing, it is protected whole."""

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
