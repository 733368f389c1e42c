"""A session in memory: what its turns, calls and decisions read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ostler.protocol.events import PullRequest
from ostler.protocol.session import Mode, OnAsk
from ostler.server.classifier import ClassifierDesk
from ostler.server.engine.journal.journal import Journal, linked
from ostler.server.engine.permissions.decide import PermissionContext
from ostler.server.engine.permissions.rule_match import may_read
from ostler.server.engine.session.effective_settings import mode_in_force, rule_set, servers_of_session
from ostler.server.engine.session.file_reads import StoredReads
from ostler.server.engine.session.history import History
from ostler.server.engine.session.processes import StoredProcesses
from ostler.server.engine.session.shared import Rooms
from ostler.server.engine.session.usage import Purse
from ostler.server.engine.tasks.registry import TaskDesk
from ostler.server.hooks import HookRunner
from ostler.server.settings import McpEntry, RuleSet, Settings
from ostler.storage.repositories.sessions import SessionRecord
from ostler.tools.context import Assistant, Stir, Surroundings
from ostler.tools.fs import paths
from ostler.tools.registry import ToolSet
from ostler.tools.sandbox.policy import Sandboxing
from ostler.tools.tool import AnyTool


@dataclass(frozen=True, slots=True)
class _MadeRules:
    """Rules, and what they were made of."""

    settings: Settings
    trusted: bool
    rules: Any
    expires: Any
    rule_set: RuleSet


@dataclass(frozen=True, slots=True)
class _MadeSurroundings:
    """What tools see of a session, and what it was made of."""

    record: SessionRecord
    state: dict[str, Any]
    rules: RuleSet
    background: bool
    seen: Surroundings


@dataclass(slots=True, weakref_slot=True)
class LiveSession:
    record: SessionRecord
    journal: Journal
    rooms: Rooms
    history: History
    reads: StoredReads
    processes: StoredProcesses
    state: dict[str, Any]
    """What is remembered between requests: the frozen prefix, the shell's folder, what the model was last told."""
    settings: Settings
    trusted: bool
    """Whether what the folder brings may act."""
    hooks: HookRunner
    classifier: ClassifierDesk
    tasks: TaskDesk
    purse: Purse
    asked_trust: str | None = None
    """The digest of what a person was last asked to trust."""
    arranged: bool = False
    """Its settings, trust and hooks have been looked at."""
    refused: Settings | None = None
    """Settings that a hook did not let in."""
    told_problems: set[str] = field(default_factory=set)
    """What its watchers were told about wrong settings."""
    began: bool = False
    """Its hooks know that it has begun."""
    stir: Stir = field(default_factory=Stir)
    """Wakes a call that sleeps."""
    turn_on_ask: OnAsk | None = None
    """What a headless turn says about asks, above what the session says."""
    _places: dict[str, str] = field(default_factory=dict)
    _rules: "_MadeRules | None" = None
    _surroundings: "_MadeSurroundings | None" = None

    @property
    def rules(self) -> RuleSet:
        """Made anew only when a file, the trust or the session's own rules have changed."""
        options = self.record.options
        made = self._rules
        if (
            made is None
            or made.settings is not self.settings
            or made.trusted is not self.trusted
            or made.rules is not options.get("rules")
            or made.expires is not options.get("rule_expires")
        ):
            made = self._rules = _MadeRules(
                self.settings,
                self.trusted,
                options.get("rules"),
                options.get("rule_expires"),
                rule_set(self.settings, self.trusted, options, self.rooms.aliases),
            )
        return made.rule_set

    @property
    def permission(self) -> PermissionContext:
        surroundings = self.surroundings
        sandboxing = self.rooms.sandbox()
        return PermissionContext(
            surroundings.mode,
            self.turn_on_ask or self.record.on_ask,
            self.rules,
            surroundings,
            bash_classifier=self.rooms.bash_classifier(),
            skips_ask_rules=_skips_ask_rules(sandboxing),
            only_policy_allows=self.settings.forbid_other_allow_rules,
        )

    @property
    def mode(self) -> Mode:
        """The session's, unless policy says another, or the daemon does not allow it any more."""
        return mode_in_force(self.settings, self.record.mode, allow_bypass=self.rooms.allow_bypass())

    @property
    def surroundings(self) -> Surroundings:
        """Made anew only when something of it has changed: every call looks at it several times."""
        made, rules = self._surroundings, self.rules
        if (
            made is None
            or made.record is not self.record
            or made.state is not self.state
            or made.rules is not rules
            or made.seen.sandboxing is not self.rooms.sandbox()
            or made.seen.mode != self.mode
            or made.background is not self.rooms.background()
            or made.seen.profile is not self.rooms.profile()
            or made.seen.switched_off != self.rooms.switched_off()
            or made.seen.most_files != self.rooms.most_files()
            or made.seen.read_tokens != self.rooms.read_tokens()
            or made.seen.assistant != self._assistant
        ):
            made = self._surroundings = _MadeSurroundings(
                self.record, self.state, rules, self.rooms.background(), self._with_tools(self._look_around())
            )
        return made.seen

    def _look_around(self) -> Surroundings:
        roots = (self.record.cwd, *self.record.directories, *self.settings.additional_directories)
        return Surroundings(
            session_id=self.record.id,
            folder=self.record.cwd,
            shell_folder=self.state.get("shell_folder") or self.record.cwd,
            roots=roots,
            real_roots=tuple(map(self._real, roots)),
            mode=self.mode,
            environment={**self.settings.env, **(self.record.options.get("env") or {})},
            home=self.rooms.home,
            real_home=self._real(self.rooms.home),
            umask=self.rooms.umask,
            testing=self.rooms.testing,
            sandboxing=self.rooms.sandbox(),
            background=self.rooms.background(),
            profile=self.rooms.profile(),
            switched_off=self.rooms.switched_off(),
            most_files=self.rooms.most_files(),
            read_tokens=self.rooms.read_tokens(),
            servers={name: entry.digest for name, entry in self._servers.items()},
            assistant=self._assistant,
            may_read=may_read(self.rules),
        )

    def _with_tools(self, seen: Surroundings) -> Surroundings:
        tools = self._tools_in(seen)
        if seen.background and "TaskOutput" not in tools.by_name:
            # What the model cannot look at does not go on behind its calls, and nothing is there that would.
            seen = replace(seen, background=False)
            tools = self._tools_in(seen)
        return replace(seen, tools=frozenset(tool.name for tool in tools.tools))

    @property
    def _servers(self) -> Mapping[str, McpEntry]:
        return servers_of_session(self.settings, self.trusted, self.record.options)

    @property
    def _assistant(self) -> Assistant | None:
        """An agent works for somebody who waits for it: it is no assistant itself."""
        return self.rooms.assistant() if self.record.parent_id is None else None

    def _real(self, folder: str) -> str:
        """Asked once: each call would ask again. It was just looked at for settings, so this waits for nobody."""
        if (known := self._places.get(folder)) is None:
            known = self._places[folder] = paths.real(folder)
        return known

    def toolset(self, *of_the_turn: AnyTool) -> ToolSet:
        """The tools of the session, and those that only this turn has."""
        found = self._tools_in(self.surroundings)
        return found.extended(of_the_turn) if of_the_turn else found

    def _tools_in(self, surroundings: Surroundings) -> ToolSet:
        wanted = self.record.options.get("tools") or "full"
        return self.rooms.registry.for_session(wanted, self.rules.denied_tools(), surroundings)

    def link_pull(self, pull: PullRequest) -> None:
        """A pull request that the session has opened is noted in its metadata."""
        self.record = replace(self.record, metadata=linked(self.record.metadata, pull))
        self.journal.pull_linked(pull)

    def remember(self, **facts: Any) -> None:
        """Change what is remembered between requests."""
        self.state = {**self.state, **facts}
        self.journal.state_changed(self.state)


def _skips_ask_rules(sandboxing: Sandboxing) -> bool:
    """Only where commands really are in the sandbox."""
    if not sandboxing.skips_ask_rules or sandboxing.mode not in {"on", "required"}:
        return False
    return sandboxing.support().works
