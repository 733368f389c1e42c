"""Which provider searches for a session, and why none does."""

from typing import Final

from ostler.protocol.credentials import PROVIDERS
from ostler.tools.context import SessionView

API: Final = "api"
"""The API of the session's model."""


def choose_provider(session: SessionView) -> str | None:
    """The provider of a session's searches; one that is named wins over the API's own. None: nobody searches."""
    named = session.config.web.search
    if named == "auto":
        return API if session.api_searches else None
    return None if explain_absence(session) else named


def explain_absence(session: SessionView) -> str:
    """Why there are no searches, and what would help; empty where there are."""
    config = session.config
    match config.web.search:
        case "off":
            return "`[web] search` is off"
        case "auto" if not session.api_searches:
            return (
                "nobody searches: the API of the model is not known to, and `[web] search` in config.toml names no "
                f"other: searxng, brave, tavily or exa{_name_keys(config.search_keys)}"
            )
        case "searxng" if config.web.searxng.url is None:
            return "`[web.searxng] url` in config.toml does not say where your server is"
        case "brave" | "tavily" | "exa" as name if name not in config.search_keys:
            (variable,) = PROVIDERS[name].variables
            return (
                f"there is no key for {name}: `ostler auth login {name}` keeps one, or start the daemon with {variable}"
            )
        case _:
            return ""


def _name_keys(keys: frozenset[str]) -> str:
    return f" (there is a key for {' and '.join(sorted(keys))})" if keys else ""
