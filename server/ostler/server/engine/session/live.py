"""The state of a session in memory: what its turns, calls and permission decisions read."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from ostler.protocol.events import PullRequest
from ostler.protocol.session import Mode, OnAsk
from ostler.protocol.shapes import Call, Denial
from ostler.server.classifier import SessionClassifier, SmallModel
from ostler.server.engine.context.state import ContextState
from ostler.server.engine.journal.journal import Journal, add_pull_link
from ostler.server.engine.permissions.decide import PermissionContext
from ostler.server.engine.permissions.rule_match import list_opened_addresses, make_read_filter
from ostler.server.engine.session.agent_facts import (
    REFUSED_TOOLS,
    AgentFacts,
    find_agent_facts,
    find_settings_folder,
    narrow_mode,
)
from ostler.server.engine.session.agent_slots import AgentSlot
from ostler.server.engine.session.effective_settings import (
    GRANTS,
    SKILL_LIST,
    SKILLS_OPTION,
    build_rule_set,
    collect_servers,
    enter_mode,
    leave_plan_mode,
    resolve_mode,
)
from ostler.server.engine.session.file_reads import SessionFileReads
from ostler.server.engine.session.history import History
from ostler.server.engine.session.processes import StoredProcesses
from ostler.server.engine.session.shared import SharedServices
from ostler.server.engine.session.usage import UsageMeter
from ostler.server.engine.tasks.registry import TaskRegistry
from ostler.server.hooks import HookRunner
from ostler.server.mcp.session_servers import SessionServers, WantedServer, read_call_options
from ostler.server.settings import McpEntry, Problem, RuleSet, Settings, SkillEntry, resolve_skills
from ostler.server.worktrees.worktree import Worktree
from ostler.storage import Tx
from ostler.storage.repositories.sessions import WORKTREE, SessionRecord
from ostler.tools.context import SessionView, WakeSignal
from ostler.tools.discovery.deferral import Deferral, select_deferred
from ostler.tools.fs import paths
from ostler.tools.permissions.plan_file import build_plan_path
from ostler.tools.permissions.subject import list_server_rules
from ostler.tools.registry import ToolSet
from ostler.tools.services import AgentKind, Agents
from ostler.tools.tool import AnyTool, Change, FolderChanged, GitChanged, PlanApproved, PlanBegun
from ostler.tools.tool_config import SandboxSettings, ToolConfig


@dataclass(frozen=True, slots=True)
class _CachedRules:
    """The rule set, and the values that it was built from."""

    settings: Settings
    trusted: bool
    rules: Any
    expires: Any
    worktree: Worktree | None
    skills: tuple[str, ...]
    rule_set: RuleSet


@dataclass(frozen=True, slots=True)
class _CachedView:
    """The view of the session for tools, and the values that it was built from."""

    record: SessionRecord
    state: dict[str, Any]
    rules: RuleSet
    config: ToolConfig
    turn_on_ask: OnAsk | None
    of_servers: tuple[AnyTool, ...]
    view: SessionView


class AgentSource(Protocol):
    """Starts agents for the calls of sessions."""

    def list_kinds(self, session: "LiveSession") -> tuple[AgentKind, ...]:
        """The kinds that a session may start; none where it is too deep down."""
        ...

    def for_call(self, parent: "LiveSession", call: Call, *, goes_on: bool) -> Agents:
        """`goes_on`: the call ran when the daemon was killed, and waits for what it has started."""
        ...

    def choose_model(self, session: "LiveSession", wanted: str) -> str:
        """The model of a full id, or of a name as `haiku`. Raises AgentRefused."""
        ...


@dataclass(slots=True, weakref_slot=True)
class LiveSession:
    """One session in memory; its actor owns it."""

    record: SessionRecord
    journal: Journal
    shared: SharedServices
    history: History
    reads: SessionFileReads
    processes: StoredProcesses
    state: dict[str, Any]
    """What is kept between requests: the frozen prompt prefix, the shell's folder, the facts last sent to the model."""
    settings: Settings
    trusted: bool
    """Whether hooks, servers and allow rules of the folder are in effect."""
    hooks: HookRunner
    classifier: SessionClassifier
    small_model: SmallModel
    tasks: TaskRegistry
    usage_meter: UsageMeter
    agents: AgentSource
    servers: SessionServers
    """Its MCP servers, which its agents use, too."""
    parent: "LiveSession | None" = None
    """Of an agent: the session that it works for."""
    slot: AgentSlot | None = None
    """While it works: of an agent its place among those of its tree, else that of its turn in the daemon."""
    asked_trust: str | None = None
    """The digest of what a person was last asked to trust."""
    settings_loaded: bool = False
    """Its settings, trust and hooks have been loaded."""
    refused_settings: Settings | None = None
    """Changed settings that a ConfigChange hook has refused."""
    reported_problems: set[str] = field(default_factory=set)
    """Problems of the settings that clients were sent a notice of."""
    start_hooks_fired: bool = False
    """The SessionStart hooks have run."""
    wake_signal: WakeSignal = field(default_factory=WakeSignal)
    """Wakes a call that sleeps."""
    context: ContextState = field(default_factory=ContextState)
    """What fills the model's window."""
    requests_without_todos: int = 0
    """How many requests the model was sent since it last used a tool of the work list."""
    turn_on_ask: OnAsk | None = None
    """The `on_ask` of a headless turn, which overrides the session's."""
    nested_folders: set[str] = field(default_factory=set)
    """Folders below its own that were looked into for instruction files and skills."""
    nested_skills: tuple[SkillEntry, ...] = ()
    """Of such folders; in effect where the session's folder is trusted."""
    nested_skill_problems: tuple[Problem, ...] = ()
    turn_skills: tuple[str, ...] = ()
    """The skills that the turn has used: what they allow is allowed until its end."""
    turn_waits: bool = False
    """The turn waits for its agents in the background: none goes there by itself."""
    waited_agents: list[Callable[[], bool]] = field(default_factory=list)
    """Of each agent that a call of its waits for: whether that waits for people."""
    _real_paths: dict[str, str] = field(default_factory=dict)
    _cached_rules: "_CachedRules | None" = None
    _cached_view: "_CachedView | None" = None
    _cached_skills: tuple[tuple[Settings, bool, tuple[SkillEntry, ...]], Mapping[str, SkillEntry]] | None = None

    @property
    def agent(self) -> AgentFacts | None:
        """What makes it an agent; None for a session of a person's."""
        return find_agent_facts(self.record)

    @property
    def forked_messages(self) -> int:
        """How many messages a fork began with: its input is a part of the last one."""
        return int(self.state.get("forked_messages", 0))

    @property
    def settings_folder(self) -> str:
        """The folder whose settings hold: of an agent that of the session at the top."""
        return find_settings_folder(self.record)

    @property
    def parents(self) -> "Iterator[LiveSession]":
        """The sessions above an agent, nearest first."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    @property
    def root(self) -> "LiveSession":
        """The session at the top of its tree: what people decide holds for the whole of it."""
        return next((above for above in self.parents if above.parent is None), self)

    @property
    def on_ask(self) -> OnAsk:
        """What becomes of asks: an agent never asks where its parent does not."""
        own = self.turn_on_ask or self.record.on_ask
        return own if self.parent is None or own == "deny" or not self.parent.asks_nobody else "deny"

    def waits_for_agents_ask(self) -> bool:
        """Whether an agent that a call of its waits for has an open ask."""
        return any(waits() for waits in self.waited_agents)

    def refresh_above(self) -> list[Callable[[Tx], None]]:
        """An ask of an agent was opened or settled: writes which of the turns above it wait for people now."""
        return [write for above in self.parents if (write := above.refresh_waiting()) is not None]

    def refresh_waiting(self) -> Callable[[Tx], None] | None:
        """What is to be written where its turn waits for people now, or does not any more; else None."""
        state = self.usage_meter.state
        if state is None or state.end is not None:
            return None
        status = "waiting" if state.has_open_asks() or state.waits_for_agents_ask() else "running"
        if state.turn.status not in {"waiting", "running"} or state.turn.status == status:
            return None
        return partial(self.journal.asks.set_turn, turn=state.change(status=status))

    @asynccontextmanager
    async def lend_slot(self) -> AsyncIterator[None]:
        """The body waits for an ask or for an agent: until then, another agent may work."""
        if self.slot is None:
            yield
            return
        async with self.slot.lend():
            yield

    @property
    def asks_nobody(self) -> bool:
        return self.on_ask == "deny" or self.mode == "dontAsk"

    @property
    def rules(self) -> RuleSet:
        """Cached: built again only when a file, the trust or the session's own rules have changed."""
        options = self.root.record.options
        cached = self._cached_rules
        if (
            cached is None
            or cached.settings is not self.settings
            or cached.trusted is not self.trusted
            or cached.rules is not options.get("rules")
            or cached.expires is not options.get("rule_expires")
            or cached.worktree != self.worktree_above
            or cached.skills != self.skills_in_use
        ):
            cached = self._cached_rules = _CachedRules(
                self.settings,
                self.trusted,
                options.get("rules"),
                options.get("rule_expires"),
                self.worktree_above,
                self.skills_in_use,
                build_rule_set(
                    self.settings,
                    self.trusted,
                    options,
                    self.shared.aliases,
                    self.worktree_above,
                    [skill for name in self.skills_in_use if (skill := self.skills.get(name)) is not None],
                ),
            )
        return cached.rule_set

    @property
    def skills(self) -> Mapping[str, SkillEntry]:
        """The skills in effect, by name. Cached until a file or the trust changes."""
        cached, made_of = self._cached_skills, (self.settings, self.trusted, self.nested_skills)
        if cached is None or any(one is not other for one, other in zip(cached[0], made_of, strict=True)):
            cached = self._cached_skills = (made_of, resolve_skills(*made_of))
        return cached[1]

    @property
    def skills_in_use(self) -> tuple[str, ...]:
        """Those whose rules hold now: of the turn, and of an agent that works on one."""
        return (*self.record.options.get(SKILLS_OPTION, ()), *self.turn_skills)

    @property
    def worktree(self) -> Worktree | None:
        """The git worktree that the session is in; null where it is in the folder that it was created in."""
        stored = self.record.options.get(WORKTREE)
        return Worktree.from_json(stored) if stored else None

    @property
    def worktree_above(self) -> Worktree | None:
        """The same of an agent whose parent is in one: what rules forbid in the main work tree, they forbid there."""
        if self.worktree is not None or self.parent is None:
            return self.worktree
        return self.parent.worktree_above

    @property
    def directories(self) -> tuple[str, ...]:
        """Further folders that a person has let the session work in; none in a worktree."""
        return () if self.worktree is not None else self.record.directories

    @property
    def permission(self) -> PermissionContext:
        view = self.view
        sandbox = self.shared.sandbox()
        return PermissionContext(
            view.mode,
            self.on_ask,
            self.rules,
            view,
            bash_classifier=self.shared.permissions().bash_classifier,
            skips_ask_rules=_skips_ask_rules(sandbox),
            only_policy_allows=self.settings.forbid_other_allow_rules,
            grants=tuple(self.record.options.get(GRANTS, ())),
        )

    @property
    def mode(self) -> Mode:
        """The session's mode, unless the managed policy sets another, or the daemon does not allow it any more."""
        if self.parent is not None and (agent := self.agent) is not None:
            return narrow_mode(self.parent.mode, agent.mode)
        return self.resolve_mode(self.record.mode)

    def resolve_mode(self, wanted: Mode) -> Mode:
        """What a mode comes to here."""
        return resolve_mode(self.settings, wanted, allow_bypass=self.shared.permissions().allow_bypass)

    @property
    def view(self) -> SessionView:
        """What tools see of the session. Cached: every call reads it several times."""
        cached, rules, config = self._cached_view, self.rules, self.shared.config()
        if (
            cached is None
            or cached.record is not self.record
            or cached.state is not self.state
            or cached.rules is not rules
            or cached.config is not config
            or cached.turn_on_ask != self.turn_on_ask
            or cached.of_servers is not self.servers.tools
            or cached.view.resource_servers != self.servers.with_resources
            or (self.parent is not None and cached.view.mode != self.mode)
        ):
            view = self._add_tools(self._build_view(config))
            cached = self._cached_view = _CachedView(
                self.record, self.state, rules, config, self.turn_on_ask, self.servers.tools, view
            )
        return cached.view

    def _build_view(self, config: ToolConfig) -> SessionView:
        agent, worktree = self.agent, self.worktree
        folder = worktree.path if worktree is not None else self.record.cwd
        # In a worktree the session has no other root: the main work tree is outside.
        further = self.settings.additional_directories if worktree is None else ()
        roots = (folder, *((*self.directories, *further) if agent is None or not agent.one_folder else ()))
        return SessionView(
            session_id=self.record.id,
            folder=folder,
            shell_folder=self.state.get("shell_folder") or folder,
            roots=roots,
            real_roots=tuple(map(self._resolve_folder, roots)),
            mode=self.mode,
            config=config,
            environment={**self.settings.env, **(self.record.options.get("env") or {})},
            home=self.shared.home,
            real_home=self._resolve_folder(self.shared.home),
            git_folder=self.worktree_above.common_dir if self.worktree_above is not None else None,
            main_checkout=self.worktree_above.main if self.worktree_above is not None else None,
            background=config.tools.background,
            resource_servers=self.servers.with_resources,
            servers={name: entry.digest for name, entry in self.server_entries.items()},
            # Assistant mode is for root sessions: an agent works for its parent, which waits for it.
            is_agent=self.record.parent_id is not None,
            plan_file=self._plan_file,
            asks_nobody=self.on_ask == "deny",
            assistant=config.assistant if self.record.parent_id is None else None,
            may_read=make_read_filter(self.rules),
            opened_addresses=list_opened_addresses(self.rules),
            api_searches=self.small_model.searches(self.record.model),
            agent_kinds=self.agents.list_kinds(self),
            skill_list=self.state.get(SKILL_LIST, ""),
            skill_folders=tuple(skill.folder for skill in self.skills.values() if skill.folder is not None),
            trusted_files=(
                *self.settings.own_scripts,
                *(self.settings.project_effects.guarded if self.trusted else ()),
            ),
        )

    @property
    def _plan_file(self) -> str | None:
        """Where the plan is written; none for agents, whose work is part of one, and where nobody could ever approve.

        That nobody is asked in one turn changes nothing here: the tools would change with it, and the prompt cache.
        """
        if self.record.parent_id is not None or self.record.on_ask == "deny":
            return None
        return build_plan_path(self.shared.home, self.record.id) if self.shared.home else None

    def _add_tools(self, view: SessionView) -> SessionView:
        tools = self._select_tools(view)
        if view.background and not any(tool.reads_tasks for tool in tools.tools):
            # The model could not read the output of background tasks: there are none, nor tools that start them.
            view = replace(view, background=False)
            tools = self._select_tools(view)
        return replace(view, tools=frozenset(tool.name for tool in tools.tools))

    @property
    def owns_servers(self) -> bool:
        """Whether the MCP servers are its own, and not those of the session that it works for."""
        return self.servers.session_id == self.record.id

    @property
    def wanted_servers(self) -> dict[str, WantedServer]:
        """The MCP servers that a turn of it may use."""
        entries, wanted = self.server_entries, self.record.options.get("tools")
        if not entries or wanted == "minimal":
            return {}
        denied = self.rules.list_denied_tools()
        return {
            name: WantedServer(entry.digest, *read_call_options(entry.entry))
            for name, entry in entries.items()
            if not denied.intersection(names := list_server_rules(name))
            and (wanted is None or isinstance(wanted, str) or any(each.startswith(names) for each in wanted))
        }

    @property
    def server_entries(self) -> Mapping[str, McpEntry]:
        """The entries of the MCP servers that are in effect."""
        return collect_servers(self.settings, self.trusted, self.record.options)

    def _resolve_folder(self, folder: str) -> str:
        """The real path, resolved once. Its settings were just read, so that this does not wait for a slow disk."""
        if (known := self._real_paths.get(folder)) is None:
            known = self._real_paths[folder] = paths.resolve_path(folder)
        return known

    def move_to(self, record: SessionRecord, state: dict[str, Any]) -> None:
        """Another folder, as it is stored already; what was resolved of folders is resolved again."""
        self.record, self.state = record, state
        self._real_paths.clear()

    def build_toolset(self, *of_the_turn: AnyTool) -> ToolSet:
        """The tools of the session, and those that only this turn has."""
        found = self._select_tools(self.view)
        return found.extend(of_the_turn) if of_the_turn else found

    def _select_tools(self, view: SessionView) -> ToolSet:
        wanted = self.record.options.get("tools")
        wanted = "full" if wanted is None else wanted  # an empty list is no preset
        found = self.shared.registry.for_session(wanted, self.rules.list_denied_tools(), view, self.servers.tools)
        refused = self.record.options.get(REFUSED_TOOLS)
        found = replace(found, refused=frozenset(refused)) if refused else found
        return select_deferred(found, self.state, view.config.tools.defer)[0]

    @property
    def deferral(self) -> Deferral:
        """Which of the tools are left out of the prompt until the model looks for them."""
        return select_deferred(self.build_toolset(), self.state, self.shared.config().tools.defer)[1]

    def apply_change(self, change: Change) -> None:
        """Apply what a call has changed for the calls and the clients that come after it."""
        if isinstance(change, FolderChanged):
            self.remember(shell_folder=change.path)
        elif isinstance(change, GitChanged) and (pull := change.facts.get("pr")) and pull["action"] == "created":
            self.link_pull(PullRequest.model_validate(pull))
        elif (change_record := find_record_change(change)) is not None:
            # It is stored with the end of its call.
            self.record = change_record(self.record)

    def use_skills(self, names: Sequence[str]) -> None:
        """What these skills allow is allowed until the turn ends, also where the daemon is started again before."""
        state = self.usage_meter.state
        new = [name for name in names if name not in self.turn_skills]
        if state is not None and new:
            self.turn_skills = (*self.turn_skills, *new)
            self.remember(turn_skills={"turn": state.turn.id, "names": list(self.turn_skills)})

    def begin_turn_skills(self, turn_id: str, names: Sequence[str]) -> None:
        """The skills of a turn that begins, or goes on after a restart."""
        stored = self.state.get("turn_skills") or {}
        used = stored["names"] if stored.get("turn") == turn_id else ()
        self.turn_skills = tuple(dict.fromkeys((*names, *used)))

    def add_denial(self, denial: Denial) -> None:
        """Note a refused call of an agent in the turns above it, with the agent's name."""
        if (agent := self.agent) is None:
            return
        for above in self.parents:
            if above.usage_meter.state is not None:
                above.usage_meter.state.add_denial(denial.changed(agent=denial.agent or agent.shown))

    def link_pull(self, pull: PullRequest) -> None:
        """Add a pull request that the session has opened to its metadata."""
        self.record = replace(self.record, metadata=add_pull_link(self.record.metadata, pull))
        self.journal.link_pull(pull)

    def remember(self, **facts: Any) -> None:
        """Change what is kept between requests, in memory and on disk."""
        self.state = {**self.state, **facts}
        self.journal.store_state(self.state)


def find_record_change(change: Change) -> Callable[[SessionRecord], SessionRecord] | None:
    """What a call's change means for the stored session; None where it means nothing. Doing it twice is once."""
    match change:
        case PlanBegun():
            return partial(enter_mode, mode="plan")
        case PlanApproved(mode=mode, granted=granted):
            return partial(leave_plan_mode, mode=mode, granted=granted)
        case _:
            return None


def _skips_ask_rules(sandbox: SandboxSettings) -> bool:
    """Whether rules that ask are skipped: only where commands really run in the sandbox."""
    if not sandbox.skips_ask_rules or sandbox.mode not in {"on", "required"}:
        return False
    return sandbox.support().works
