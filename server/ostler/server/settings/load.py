"""Loads all settings files of one folder, and merges them."""

import os
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from ostler.protocol.session import Mode
from ostler.server.settings.agent_kinds.files import load_agent_files
from ostler.server.settings.document import Document, read_document
from ostler.server.settings.locations import (
    SettingsPlaces,
    compute_file_signature,
    compute_signature,
    list_candidates,
    mask_recent_changes,
)
from ostler.server.settings.rule_lists import Origin
from ostler.server.settings.skills.files import load_skill_files
from ostler.server.settings.trust import collect_project_effects
from ostler.server.settings.trusted_files import find_trusted_files, list_guarded_paths
from ostler.server.settings.types import BadPolicy, PolicyLimits, Settings, Source
from ostler.tools.permissions import RealPathCache

_OWN_SOURCES: Final[frozenset[Source]] = frozenset({"policy", "user"})


def load_settings(folder: str, places: SettingsPlaces, *, known_tools: Collection[str] | None = None) -> Settings:
    """What the files say now. Blocks, for some milliseconds; `BadPolicy` where the policy cannot be used.

    `known_tools`: all names and aliases of tools, for rules that name another; None does not check.
    """
    taken = compute_signature(folder, places)
    real = RealPathCache()
    documents = [
        read_document(each, Origin(each.source, each.file, each.root, folder, places.user_home, real), known_tools)
        for each in list_candidates(folder, places)
    ]
    policy = documents[0]
    if policy.errors:
        raise BadPolicy(tuple(policy.problems))
    rules = tuple(rule for document in documents for rule in document.rules)
    hooks = tuple(hook for document in documents for hook in document.hooks)
    servers = tuple(server for document in documents for server in document.mcp_servers)
    local_mode = _find_mode(documents, "local")
    agents = load_agent_files(folder, places)
    skills = load_skill_files(folder, places, known_tools)
    effects = collect_project_effects(
        rules, hooks, servers, agents.entries, skills.entries, local_mode, folder, places.user_home
    )
    watched = (*effects.watched, *agents.watched, *skills.watched)
    return Settings(
        folder=folder,
        home=places.user_home,
        rules=rules,
        mode=policy.mode or _find_mode(documents, "user"),
        local_mode=local_mode,
        frozen_mode=policy.frozen_mode,
        forbid_other_allow_rules=policy.forbid_other_allow_rules,
        limits=policy.limits,
        bypass_disabled=any(document.bypass_disabled for document in documents),
        hooks=hooks,
        env=_merge_environment(documents),
        mcp_servers=servers,
        agents=agents.entries,
        skills=skills.entries,
        skill_problems=skills.problems,
        additional_directories=tuple(_list_directories(documents)),
        problems=(
            *(problem for document in documents for problem in document.problems),
            *agents.problems,
            *skills.problems,
        ),
        project_effects=replace(effects, watched=watched),
        own_scripts=list_guarded_paths(find_trusted_files(hooks, servers, folder, places.user_home, _OWN_SOURCES)),
        signature=mask_recent_changes((*taken, *compute_file_signature(watched))),
    )


def check_policy(places: SettingsPlaces) -> PolicyLimits:
    """What the policy forbids; BadPolicy where its file cannot be used: nothing may start without knowing that."""
    return load_settings("/", places).limits if os.path.lexists(places.policy) else PolicyLimits()


def is_stale(settings: Settings, places: SettingsPlaces) -> bool:
    """Whether a file came, went or changed since; a few calls to the file system."""
    watched = compute_file_signature(settings.project_effects.watched)
    return (*compute_signature(settings.folder, places), *watched) != settings.signature


def _find_mode(documents: Iterable[Document], source: Source) -> Mode | None:
    return next((each.mode for each in documents if each.candidate.source == source and each.mode), None)


def _merge_environment(documents: Iterable[Document]) -> dict[str, str]:
    """The documents are in order of precedence: a variable of an earlier one overrides that of a later one."""
    found: dict[str, str] = {}
    for document in documents:
        if document.candidate.source in {"policy", "user"}:
            found = document.env | found
    return found


def _list_directories(documents: Iterable[Document]) -> Iterable[str]:
    for document in documents:
        if document.candidate.source in {"policy", "user"}:
            yield from document.directories
