"""Reads one settings file: what it says, and the problems in it.

A mistake never widens a permission. A file that is no JSON, or that has a key twice, says nothing at all. A rule that
cannot be read allows nothing, and a person is asked where it was to forbid. Where a part of `permissions` makes no
sense, rules may be missing that were to forbid: the file then allows nothing.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from ostler.protocol.session import Mode
from ostler.server.settings.entries import parse_hook_entries, parse_server_entries, parse_variables
from ostler.server.settings.json_positions import BadJson, Positions, parse
from ostler.server.settings.locations import Candidate
from ostler.server.settings.rule_lists import (
    BEHAVIORS,
    Origin,
    check_rooted_path,
    check_tool_name,
    compile_rule,
    parse_expiry,
    replace_bad_rule,
)
from ostler.server.settings.safe_read import Unreadable, read_bytes
from ostler.server.settings.types import (
    STRICT_MODES,
    Behavior,
    HookEntry,
    McpEntry,
    PolicyLimits,
    Problem,
    SourcedRule,
)
from ostler.tools.permissions import BadRule, parse_rule
from ostler.tools.spelling import suggest_spelling

_TOP_KEYS: Final = ("permissions", "hooks", "env", "mcp_servers", "$schema")
_PERMISSION_KEYS: Final = (*BEHAVIORS, "mode", "expires")
_POLICY_TOP_KEYS: Final = ("sandbox", "forbid_modes", "forbid_tools", "forbid_remote")
_POLICY_KEYS: Final = ("frozen_mode", "forbid_other_allow_rules")
_MODES: Final = get_args(Mode)
_MAX_RULES: Final = 2_000
"""Of one file: each of them is looked at for every call, also those of a project that nobody trusts."""
_MAX_PROBLEMS: Final = 50


@dataclass(slots=True)
class Document:
    """What one file says."""

    candidate: Candidate
    rules: list[SourcedRule] = field(default_factory=list)
    mode: Mode | None = None
    frozen_mode: Mode | None = None
    forbid_other_allow_rules: bool = False
    limits: PolicyLimits = field(default_factory=PolicyLimits)
    bypass_disabled: bool = False
    directories: list[str] = field(default_factory=list)
    hooks: list[HookEntry] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    mcp_servers: list[McpEntry] = field(default_factory=list)
    errors: list[Problem] = field(default_factory=list)
    """What makes a policy file unusable."""
    warnings: list[Problem] = field(default_factory=list)
    """What is used as it is written, and is probably a mistake."""

    @property
    def problems(self) -> list[Problem]:
        """As many as a person reads."""
        every = [*self.errors, *self.warnings]
        more = len(every) - _MAX_PROBLEMS
        if more <= 0:
            return every
        last = Problem(self.candidate.file, 1, 1, f"There are {more} more problems in this file.")
        return [*every[:_MAX_PROBLEMS], last]


def read_document(candidate: Candidate, origin: Origin, known_tools: Collection[str] | None) -> Document:
    """The file as far as it can be understood; empty where there is none."""
    document = Document(candidate)
    try:
        data = read_bytes(candidate.file)
        if data is None:
            return document
        text, value = parse(data)
    except Unreadable as error:
        document.errors.append(Problem(candidate.file, 1, 1, str(error)))
        return document
    except BadJson as error:
        document.errors.append(Problem(candidate.file, error.line, error.column, error.message))
        return document
    _DocumentReader(document, text, origin, known_tools).read(value)
    return document


class _DocumentReader:
    def __init__(self, document: Document, text: str, origin: Origin, known_tools: Collection[str] | None) -> None:
        self._document = document
        self._ours = document.candidate.format == "ours"
        self._policy = document.candidate.source == "policy"
        self._text = text
        self._positions: Positions | None = None
        self._origin = origin
        self._known_tools = known_tools
        self._may_allow = True
        self._expires: dict[str, str | None] = {}

    def read(self, value: Any) -> None:
        if not isinstance(value, dict):
            self.report_error("Settings are an object: { … }.")
            return
        if self._document.candidate.format == "mcp":
            self._read_servers(value, "mcpServers")
            return
        if self._ours:
            self._check_keys(value, (*_TOP_KEYS, *(_POLICY_TOP_KEYS if self._policy else ())))
        permissions = value.get("permissions", {})
        if isinstance(permissions, dict):
            self._read_permissions(permissions)
        else:
            self.report_error("permissions is an object: { … }.", "permissions")
        if self._policy:
            self._read_limits(value)
        document, candidate = self._document, self._document.candidate
        document.hooks = parse_hook_entries(value.get("hooks"), candidate, self.report_error)
        document.env = parse_variables(value.get("env"), self.report_error)
        if self._ours:
            self._read_servers(value, "mcp_servers")
            self._report_ignored_settings(value)

    def _read_servers(self, value: dict[str, Any], key: str) -> None:
        document = self._document
        document.mcp_servers = parse_server_entries(value.get(key), key, document.candidate, self.report_error)

    def report_error(self, message: str, *path: str | int, within: int = 0) -> None:
        self._document.errors.append(
            self._build_problem(message, self._find_positions().find_value(*path, within=within))
        )

    def _report_warning(self, message: str, *path: str | int) -> None:
        self._document.warnings.append(self._build_problem(message, self._find_positions().find_value(*path)))

    def _build_problem(self, message: str, position: tuple[int, int]) -> Problem:
        return Problem(self._document.candidate.file, *position, message)

    def _find_positions(self) -> Positions:
        """Computed only when something is wrong: most files are fine."""
        self._positions = self._positions or Positions(self._text)
        return self._positions

    def _check_keys(self, given: Mapping[str, Any], known: Collection[str], *path: str) -> bool:
        unknown = [key for key in given if key not in known]
        for key in unknown:
            position = self._find_positions().find_key(*path, key)
            self._document.errors.append(
                self._build_problem(
                    f"There is no setting {'.'.join((*path, key))!r}{suggest_spelling(key, known)}", position
                )
            )
        return not unknown

    def _read_permissions(self, given: dict[str, Any]) -> None:
        known = (*_PERMISSION_KEYS, *(_POLICY_KEYS if self._policy else ()))
        if self._ours and not self._check_keys(given, known, "permissions"):
            self._may_allow = False
        if sum(len(_as_list(given.get(behavior))) for behavior in BEHAVIORS) > _MAX_RULES:
            self.report_error(f"These are more than {_MAX_RULES} rules; none of them counts.", "permissions")
            return
        self._read_expiries(given.get("expires", {}) if self._ours else {}, given)
        for behavior in BEHAVIORS:
            self._read_rules(given.get(behavior, []), behavior)
        if not self._may_allow:
            self._document.rules = [rule for rule in self._document.rules if rule.behavior != "allow"]
        self._document.mode = self._read_mode(given, "mode" if self._ours else "defaultMode")
        if self._policy:
            self._document.frozen_mode = self._read_mode(given, "frozen_mode")
            self._document.forbid_other_allow_rules = self._read_switch(given, "forbid_other_allow_rules")
        if not self._ours:
            self._document.bypass_disabled = given.get("disableBypassPermissionsMode", False) is not False
            folders = _as_list(given.get("additionalDirectories"))
            self._document.directories = [each for each in folders if isinstance(each, str)]

    def _read_expiries(self, given: Any, permissions: dict[str, Any]) -> None:
        if not isinstance(given, dict):
            self.report_error("expires is an object: rule and time.", "permissions", "expires")
            self._may_allow = False
            return
        every = [text for kind in BEHAVIORS for text in _as_list(permissions.get(kind))] if given else []
        listed = {text.strip() for text in every if isinstance(text, str)}
        for key, when in given.items():
            until = self._expires[key.strip()] = parse_expiry(when)
            if until is None:
                message = "This is no time with a zone, as in 2026-12-31T18:00:00Z: the rule allows nothing."
                self.report_error(message, "permissions", "expires", key)
            if key.strip() not in listed:
                message = f"There is no rule {key!r} in this file that could expire."
                self._report_warning(message, "permissions", "expires", key)

    def _read_rules(self, given: Any, behavior: Behavior) -> None:
        if not isinstance(given, list):
            self.report_error(f"{behavior} is a list of rules.", "permissions", behavior)
            self._may_allow = False
            return
        for index, text in enumerate(given):
            if isinstance(text, str):
                self._read_rule(text, behavior, index)
                continue
            self.report_error('A rule is a text, as in "Bash(npm test)".', "permissions", behavior, index)
            self._may_allow = self._may_allow and behavior == "allow"

    def _read_rule(self, text: str, behavior: Behavior, index: int) -> None:
        try:
            rule = parse_rule(text)
        except BadRule as error:
            self.report_error(error.message, "permissions", behavior, index, within=error.position)
            instead = replace_bad_rule(text, error, behavior, self._origin)
            self._document.rules += [instead] if instead else []
            # Nobody can say what it was to forbid.
            self._may_allow = self._may_allow and (behavior == "allow" or instead is not None)
            return
        wrong = check_tool_name(rule, self._known_tools) or check_rooted_path(rule, self._origin.root)
        if wrong:
            self._report_warning(wrong, "permissions", behavior, index)
        expires_at = self._expires.get(rule.text)
        if rule.text in self._expires and expires_at is None and behavior == "allow":
            return
        self._document.rules.append(compile_rule(rule, behavior, self._origin, expires_at))

    def _read_mode(self, given: dict[str, Any], key: str) -> Mode | None:
        found = given.get(key)
        for mode in _MODES:
            if found == mode:
                return mode  # type: ignore[no-any-return]  # one of the words of Mode
        if found is not None:
            self.report_error(f"There is no mode {found!r}{suggest_spelling(str(found), _MODES)}", "permissions", key)
        return None

    def _read_limits(self, value: dict[str, Any]) -> None:
        """What only a policy may say."""
        sandbox, remote = value.get("sandbox"), value.get("forbid_remote", False)
        if sandbox not in {None, "required"}:
            self.report_error('sandbox is "required", or is not there.', "sandbox")
        if not isinstance(remote, bool):
            self.report_error("forbid_remote is true or false.", "forbid_remote")
        modes = self._read_names(value, "forbid_modes", "modes")
        for place, mode in enumerate(modes):
            if mode not in _MODES:
                self.report_error(f"There is no mode {mode!r}{suggest_spelling(mode, _MODES)}", "forbid_modes", place)
        document = self._document
        forbidden = frozenset(mode for mode in _MODES if mode in modes)
        if forbidden.issuperset(STRICT_MODES):
            self.report_error(f"One of the modes {', '.join(STRICT_MODES)} has to be left.", "forbid_modes")
        for wanted in (document.mode, document.frozen_mode):
            if wanted in forbidden:
                self.report_error(f"The mode {wanted} is forbidden, and wanted by the same file.", "forbid_modes")
        document.limits = PolicyLimits(sandbox is not None, forbidden, remote is not False)
        for place, name in enumerate(self._read_names(value, "forbid_tools", "tools")):
            self._forbid_tool(name, place)

    def _read_names(self, value: dict[str, Any], key: str, what: str) -> list[str]:
        found = value.get(key, [])
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            self.report_error(f"{key} is a list of {what}.", key)
            return []
        return found

    def _forbid_tool(self, name: str, place: int) -> None:
        """A deny rule for the whole tool: the model is not told of it, and no call of it runs."""
        try:
            rule = parse_rule(name)
        except BadRule as error:
            self.report_error(error.message, "forbid_tools", place)
            return
        if rule.content is not None:
            self.report_error(
                f"This is a rule: write {name} into permissions.deny, or {rule.tool} here.", "forbid_tools", place
            )
            return
        if wrong := check_tool_name(rule, self._known_tools):
            self._report_warning(wrong, "forbid_tools", place)
        self._document.rules.append(compile_rule(rule, "deny", self._origin))

    def _read_switch(self, given: dict[str, Any], key: str) -> bool:
        found = given.get(key, False)
        if not isinstance(found, bool):
            self.report_error(f"{key} is true or false.", "permissions", key)
        return found is not False

    def _report_ignored_settings(self, value: dict[str, Any]) -> None:
        """Warns of settings without effect, in our own files only: other products' files were not written for us."""
        if self._document.candidate.source not in {"project", "local"}:
            return
        if value.get("env"):
            self._report_warning("A project's environment never counts: write it into your own settings.", "env")
        if self._document.mode and self._document.candidate.source == "project":
            self._report_warning(
                "A project's mode never counts: write it into your own settings.", "permissions", "mode"
            )


def _as_list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []
