"""Checks what is in the parentheses of a rule, tool by tool, and matches it."""

import re
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.tools.permissions.gitignore import BadPattern
from ostler.tools.permissions.path_pattern import check_pattern, covers_everything
from ostler.tools.permissions.rule_families import find_content_kind

_ANYTHING: Final = frozenset({"*", ":*", "**"})
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST: Final = compile_later(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\]")
_NAME: Final = compile_later(r"[^\s*()]+")
_SKILL: Final = compile_later(r"[^\s*()]+?(?::\*)?")
_KEY: Final = compile_later(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*")


def may_be_path(tool: str) -> bool:
    """Whether the content of a rule about it may be a pattern of paths: of a plug-in's tool that is not known."""
    return find_content_kind(tool) in {"path", None} and not tool.startswith("mcp__")


class BadContent(ValueError):
    """A content that its tool cannot have, and the position of the mistake in it."""

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


def check_content(tool: str, content: str) -> str | None:
    """The normalised content; None where it means the same as the tool alone."""
    if not content.strip():
        raise BadContent(f"The parentheses are empty: write {tool} alone for all of its calls.")
    kind = find_content_kind(tool)
    if kind == "command":
        return None if content.strip() in _ANYTHING else content
    if content[0].isspace() or (content[-1].isspace() and content[-2] != "\\"):
        raise BadContent("The content begins or ends with a space.", 0 if content[0].isspace() else len(content) - 1)
    if kind == "path":
        return _check_path(content)
    if content in _ANYTHING:
        return None
    if tool.startswith("mcp__"):
        raise BadContent(f"A rule about an MCP server or tool has no content: write {tool}.")
    match kind:
        case "host":
            return _check_domain(content)
        case "agent":
            return _check_format(_NAME, content, "the kind of an agent, as in Agent(Explore)")
        case "skill":
            return _check_format(_SKILL, content, "the name of a skill, as in Skill(deploy) or Skill(deploy:*)")
        case "key":
            return _check_format(_KEY, content, "the name of a setting, as in Config(model.name)")
        case _:
            return content


def is_whole(tool: str, content: str | None) -> bool:
    """Whether a rule covers all that the tool can do, or all below a folder, in whatever spelling."""
    if content is None:
        return True
    if find_content_kind(tool) == "path":
        return covers_everything(content)
    # A plug-in's tool may take a path, and `/**` is all of the folder then.
    if may_be_path(tool) and covers_everything(content):
        return True
    return not content.strip("*: \t\n")


def matches_text(tool: str, content: str | None, text: str) -> bool:
    """Whether a content that is neither command nor path matches this host, kind, skill with arguments, or key."""
    if content is None:
        return True
    match find_content_kind(tool):
        case "host":
            return _is_host(content.removeprefix("domain:"), text.lower().removesuffix("."))
        case "skill":
            name = content.removesuffix(":*")
            return text == name or (name != content and text.startswith((f"{name} ", f"{name}:")))
        case "key":
            return text == content or text.startswith(f"{content}.")
        case _:
            return text == content


def forbids_text(tool: str, content: str | None, text: str) -> bool:
    """The same for a rule that forbids: one about a skill forbids it whatever its arguments are."""
    if find_content_kind(tool) == "skill" and text.split(" ", 1)[0] == content:
        return True
    return matches_text(tool, content, text)


def build_content(tool: str, text: str) -> str:
    """The content of a rule that matches just this host, kind, skill or key."""
    return f"domain:{text}" if find_content_kind(tool) == "host" else text


def _check_path(content: str) -> str:
    try:
        check_pattern(content)
    except BadPattern as error:
        raise BadContent(str(error), error.position) from None
    return content


def _check_domain(content: str) -> str | None:
    kind, colon, host = content.partition(":")
    if kind != "domain" or not colon:
        bare = re.sub(r"^[a-z]+://", "", content.lower()).split("/")[0]
        meant = f": perhaps WebFetch(domain:{bare})" if _HOST.fullmatch(bare) else ""
        raise BadContent(f"WebFetch is allowed by host{meant or ', as in WebFetch(domain:example.com)'}.")
    host = host.lower().removesuffix(".")
    if host == "*":
        return None
    if not host.isascii():
        raise BadContent("Write the host in ASCII, as in xn--bcher-kva.example.", len("domain:"))
    if len(host) > 253 or not _HOST.fullmatch(host):
        message = f"{host[:80]!r} is no host: no scheme, port or path, and a * only at the start, as in *.example.com."
        raise BadContent(message, len("domain:"))
    return f"domain:{host}"


def _is_host(wanted: str, host: str) -> bool:
    """`*.` matches any sub-domain, and not the domain itself."""
    if wanted.startswith("*."):
        return host.endswith(wanted[1:]) and len(host) > len(wanted) - 1
    return host == wanted


def _check_format(expression: re.Pattern[str], content: str, what: str) -> str:
    if not expression.fullmatch(content):
        raise BadContent(f"{content[:80]!r} is not {what}.")
    return content
