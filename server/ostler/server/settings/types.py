"""What settings files say, as immutable objects."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ostler.protocol.session import Mode
from ostler.tools.permissions import PathPattern, Rule, matches_both, matches_either
from ostler.tools.services import AgentKind

Source = Literal["policy", "flag", "session", "local", "project", "user"]
Behavior = Literal["allow", "ask", "deny"]
NEED_TRUST: Final[frozenset[Source]] = frozenset({"project", "local"})
"""What they bring has no effect before a person trusted the folder."""

Signature = tuple[tuple[str, tuple[int, ...] | None], ...]
"""What the file system says of each candidate file; None where there is none."""


STRICT_MODES: Final[tuple[Mode, ...]] = ("default", "dontAsk", "plan")
"""What takes the place of a forbidden mode; a policy leaves one of them."""


class BadPolicy(Exception):
    """The policy file cannot be used, and nothing may start without knowing what it forbids."""

    def __init__(self, problems: tuple["Problem", ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a file: what, where, and perhaps what was meant."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


@dataclass(frozen=True, slots=True)
class SourcedRule:
    rule: Rule
    behavior: Behavior
    source: Source
    file: str | None
    root: str
    """The folder that `/x` in its content starts from."""
    expires_at: str | None = None
    pattern: PathPattern | None = field(default=None, compare=False)
    """Its content, where that is a pattern of paths."""

    def matches_path(self, written: str, real: str) -> bool:
        """A rule that forbids matches the path as written or the real one; a rule that allows must match both."""
        if self.pattern is None:
            return True
        matches = matches_both if self.behavior == "allow" else matches_either
        return matches(self.pattern, written, real)


@dataclass(frozen=True, slots=True)
class HookEntry:
    """One hook as it stands in a file; who runs hooks reads the rest."""

    event: str
    matcher: str | None
    hook: Mapping[str, Any]
    source: Source
    file: str


@dataclass(frozen=True, slots=True)
class McpEntry:
    """One MCP server as it stands in a file."""

    name: str
    entry: Mapping[str, Any]
    source: Source
    file: str

    @property
    def digest(self) -> str:
        """Identifies the entry: consent is for this server, and not for another one under its name."""
        return hashlib.sha256(to_canonical_json(self.entry).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """A kind of agent from a file."""

    kind: AgentKind
    source: Source
    file: str
    digest: str
    """SHA-256 of the file."""


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """A skill or command from a file. Its text is read when it is used."""

    name: str
    description: str
    source: Source
    file: str
    digest: str
    """SHA-256 of the file."""
    root: str
    """The folder that the paths of its rules start from."""
    folder: str | None = None
    """The folder whose files belong to it; null for a command, which is a file alone."""
    allowed: tuple[str, ...] = ()
    """Rules that allow while it is used, for the rest of the turn."""
    model: str | None = None
    context: Literal["inline", "fork"] = "inline"
    """`inline`: its text becomes part of the conversation. `fork`: an agent works on it."""
    agent: str | None = None
    """The kind of that agent."""
    hint: str = ""
    """What its arguments are, for people."""
    by_model: bool = True
    """The model may use it by itself."""
    by_person: bool = True
    """A person may use it as `/NAME`."""


def to_canonical_json(value: Any) -> str:
    """JSON in one spelling: equal values have equal texts."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ProjectEffects:
    """What of a project would take effect: nothing of it does before a person trusted the folder."""

    lines: tuple[str, ...]
    """For people, one thing each; empty where there is nothing to trust."""
    digest: str
    """SHA-256 of it all: when it changes, trust is asked for again."""
    files: tuple[tuple[str, str], ...] = ()
    """The scripts that hooks and MCP entries name, each with a digest of its content; empty where there is none."""
    guarded: tuple[str, ...] = ()
    """The same files, as they are named and by their real paths: while the folder is trusted, writing one asks."""
    watched: tuple[str, ...] = ()
    """Where such a file was looked for: what comes or goes there is a change."""


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """What the machine's policy forbids to the whole daemon; the tools that it forbids are deny rules."""

    requires_sandbox: bool = False
    forbidden_modes: frozenset[Mode] = frozenset()
    forbids_remote: bool = False
    """It may listen on nothing that other machines reach."""

    def limit_mode(self, mode: Mode) -> Mode:
        """The mode, or the first of those that allow little which is not forbidden."""
        if mode not in self.forbidden_modes:
            return mode
        left: list[Mode] = [each for each in STRICT_MODES if each not in self.forbidden_modes]
        return left[0] if left else "plan"


@dataclass(frozen=True, slots=True)
class Settings:
    """All that the files say about one folder. Replaced as a whole when one of them changes."""

    folder: str
    home: str
    """The person's own folder, where `~/` leads."""
    rules: tuple[SourcedRule, ...]
    """Of policy, local, project and user; which of them are in effect, `resolve_rules` says."""
    mode: Mode | None
    """What sessions start with: the user's own files say it. A project's never does."""
    local_mode: Mode | None
    """What the local files say about it, which counts after trust."""
    frozen_mode: Mode | None
    """By policy: no session has another mode."""
    forbid_other_allow_rules: bool
    """By policy: only its own allow rules count."""
    limits: PolicyLimits
    bypass_disabled: bool
    """Some file says so, and anybody may tighten."""
    hooks: tuple[HookEntry, ...]
    env: Mapping[str, str]
    """Of policy and user. A project's environment never counts, trusted or not."""
    mcp_servers: tuple[McpEntry, ...]
    agents: tuple[AgentEntry, ...]
    """Kinds of agents, in the order of the files."""
    skills: tuple[SkillEntry, ...]
    """In the order of the files; which of them are in effect, `resolve_skills` says."""
    skill_problems: tuple[Problem, ...]
    """What is wrong with their files; `problems` has these, too."""
    additional_directories: tuple[str, ...]
    """Of the user's own files: a project does not choose roots."""
    problems: tuple[Problem, ...]
    project_effects: ProjectEffects
    own_scripts: tuple[str, ...]
    """The files that hooks and MCP servers of the user and the policy name, as paths of the project's are guarded."""
    signature: Signature
    """Taken before the files were read."""
