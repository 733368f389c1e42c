"""The model of an agent: its parent's, a full id, a short name of a family, or the small model beside its parent's."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ostler.server.classifier.model_choice import choose_small_model
from ostler.server.models.registry import REHEARSAL
from ostler.server.prompt.agent_kinds import FAST_MODEL
from ostler.tools.services import AgentRefused


def choose_agent_model(parent_model: str, wanted: str | None, small: str | None) -> str:
    """`small` is the small model that the configuration names, if any. Raises AgentRefused."""
    short_names = _load_short_names()
    if wanted is None or (parent_model == REHEARSAL and (wanted in short_names or wanted == FAST_MODEL)):
        return parent_model
    if wanted == FAST_MODEL:
        return choose_small_model(parent_model, small)
    if wanted not in short_names:
        return wanted
    if "claude" not in parent_model:
        raise AgentRefused(
            f"What {wanted} means is not known here, where the model is {parent_model}. "
            "Leave `model` out, or give the full id of a model."
        )
    return short_names[wanted]


@cache
def _load_short_names() -> Mapping[str, str]:
    text = Path(__file__).with_name("models.toml").read_text("utf-8")
    names: dict[str, str] = tomllib.loads(text)["short_names"]
    return names
