"""The environment variables that children get: never the daemon's secrets, and in the sandbox nobody's."""

import re
from collections.abc import Mapping
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools.process.environment import MARKER

_OWN_VARIABLES: Final = compile_later(
    r"(?:ANTHROPIC|OSTLER)_|CLAUDE_CODE_OAUTH_TOKEN\Z|CLAUDE_API_KEY\Z|AWS_BEARER_TOKEN_BEDROCK\Z"
)
_SECRETS: Final = compile_later(
    r"(?:\A|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PAT|CREDENTIALS?|COOKIE|APIKEY|(?:API|ACCESS|PRIVATE|SECRET|"
    r"SIGNING|ENCRYPTION|MASTER|DEPLOY|AUTH|ACCOUNT|SERVICE|LICENSE)_?KEY(?:_ID)?|AUTH|JWT|DSN|DATABASE_URL|"
    r"REDIS_URL|MONGODB_URI|AMQP_URL|WEBHOOK_URL|CONNECTION_STRING)(?:\Z|_)|\A(?:PGPASSWORD|MYSQL_PWD|NPM_CONFIG__)|"
    r"\A(?:AWS|AZURE|ARM|GOOGLE|GCP|GCLOUD|CLOUDSDK|VAULT|DIGITALOCEAN|HEROKU)_|TOKEN\Z|SECRET\Z|PASSWORD\Z|APIKEY\Z|_KEY\Z",
    re.IGNORECASE,
)
# What leads to programs outside: agents, buses, displays, other daemons. And folders that the sandbox does not have.
_OUTSIDE_VARIABLES: Final = compile_later(
    r"SSH_|GPG_|DBUS_|DOCKER_|KUBE|CONTAINER_HOST\Z|DISPLAY\Z|WAYLAND_|XAUTHORITY\Z|XDG_RUNTIME_DIR\Z|TMUX|STY\Z|"
    r"VSCODE_|GIT_ASKPASS\Z|SUDO_|TMPDIR\Z|TMP\Z|TEMP\Z|"
    r"(?:HTTPS?|FTP|ALL|NO)_PROXY\Z",
    re.IGNORECASE,
)
# What makes a program load code or change its behaviour before it begins: bwrap itself is one, and runs outside.
_LOADER_VARIABLES: Final = compile_later(
    r"LD_|DYLD_|GLIBC_TUNABLES\Z|GCONV_PATH\Z|LOCPATH\Z|NLSPATH\Z|MALLOC_|HOSTALIASES\Z|RES_OPTIONS\Z|RESOLV_|"
    r"LOCALDOMAIN\Z|GETCONF_DIR\Z|NIS_PATH\Z|TZDIR\Z|BASH_ENV\Z|ENV\Z|BASH_FUNC_|SHELLOPTS\Z|BASHOPTS\Z|"
    r"PYTHON(?!UNBUFFERED|DONTWRITEBYTECODE|IOENCODING|UTF8)|NODE_OPTIONS\Z|NODE_PATH\Z|PERL5|PERLLIB\Z|RUBY(?:OPT|LIB)\Z|"
    r"JAVA_TOOL_OPTIONS\Z|_JAVA_OPTIONS\Z|JDK_JAVA_OPTIONS\Z"
)
_PASSWORD_IN_ADDRESS: Final = compile_later(r"://[^/\s@]*:[^/\s@]+@")


def scrub_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """For every child: without the daemon's token, the keys to the model and the daemon's own settings."""
    return {name: value for name, value in environment.items() if name == MARKER or not _OWN_VARIABLES.match(name)}


def confine_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """For bwrap and what runs in it: without secrets, addresses of programs outside and code to load, whosever."""
    return {
        name: value
        for name, value in scrub_environment(environment).items()
        if name == MARKER or not (_is_withheld(name) or _PASSWORD_IN_ADDRESS.search(value))
    }


def _is_withheld(name: str) -> bool:
    return bool(_SECRETS.search(name) or _OUTSIDE_VARIABLES.match(name) or _LOADER_VARIABLES.match(name))
