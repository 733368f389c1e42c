"""All settings files of one folder, read and merged."""

import os
from collections.abc import Collection, Iterable

from ostler.protocol.session import Mode
from ostler.server.settings.document import Document, read_document
from ostler.server.settings.locations import SettingsPlaces, candidates, settled, signature
from ostler.server.settings.rule_lists import Origin
from ostler.server.settings.trust import project_acts
from ostler.server.settings.types import BadPolicy, Settings, Source
from ostler.tools.permissions import RealPaths


def load_settings(folder: str, places: SettingsPlaces, *, known_tools: Collection[str] | None = None) -> Settings:
    """What the files say now. Blocks, for some milliseconds; `BadPolicy` where the policy cannot be used.

    `known_tools`: all names and aliases of tools, for rules that name another; None does not check.
    """
    taken = signature(folder, places)
    real = RealPaths()
    documents = [
        read_document(each, Origin(each.source, each.file, each.root, folder, places.user_home, real), known_tools)
        for each in candidates(folder, places)
    ]
    policy = documents[0]
    if policy.faults:
        raise BadPolicy(tuple(policy.problems))
    rules = tuple(rule for document in documents for rule in document.rules)
    hooks = tuple(hook for document in documents for hook in document.hooks)
    servers = tuple(server for document in documents for server in document.mcp_servers)
    local_mode = _first_mode(documents, "local")
    return Settings(
        folder=folder,
        home=places.user_home,
        rules=rules,
        mode=policy.mode or _first_mode(documents, "user"),
        local_mode=local_mode,
        frozen_mode=policy.frozen_mode,
        forbid_other_allow_rules=policy.forbid_other_allow_rules,
        bypass_disabled=any(document.bypass_disabled for document in documents),
        hooks=hooks,
        env=_environment(documents),
        mcp_servers=servers,
        additional_directories=tuple(_directories(documents)),
        problems=tuple(problem for document in documents for problem in document.problems),
        project_acts=project_acts(rules, hooks, servers, local_mode),
        signature=settled(taken),
    )


def check_policy(places: SettingsPlaces) -> None:
    """Raises BadPolicy where the policy file cannot be used: nothing may start without knowing what it forbids."""
    if os.path.lexists(places.policy):
        load_settings("/", places)


def is_stale(settings: Settings, places: SettingsPlaces) -> bool:
    """Whether a file came, went or changed since; a few calls to the file system."""
    return signature(settings.folder, places) != settings.signature


def _first_mode(documents: Iterable[Document], source: Source) -> Mode | None:
    return next((each.mode for each in documents if each.candidate.source == source and each.mode), None)


def _environment(documents: Iterable[Document]) -> dict[str, str]:
    """Those that count most come first among the documents, and so have the last word here."""
    found: dict[str, str] = {}
    for document in documents:
        if document.candidate.source in {"policy", "user"}:
            found = document.env | found
    return found


def _directories(documents: Iterable[Document]) -> Iterable[str]:
    for document in documents:
        if document.candidate.source in {"policy", "user"}:
            yield from document.directories
