"""The provider that searches for a session: one over HTTP, or the API of its model."""

from ostler.protocol.credentials import BadCredentials
from ostler.server.config.credentials import KeyringFailed
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.web.api_search import ApiSearch
from ostler.tools.services import SearchFailed, WebSearcher
from ostler.tools.threads import read_in_thread
from ostler.tools.web.search.choice import API, choose_provider, explain_absence


async def find_searcher(session: LiveSession) -> WebSearcher:
    """Raises SearchFailed."""
    view = session.view
    name = choose_provider(view)
    if name is None:
        raise SearchFailed(f"The web is not searched: {explain_absence(view)}.")
    if name == API:
        return ApiSearch(session)
    # Imported here: most sessions never search, and the HTTP client takes long to load.
    from ostler.tools.web.search.http_search import HttpSearch  # noqa: PLC0415
    from ostler.tools.web.search.sites import SITES  # noqa: PLC0415

    site = SITES[name]
    web = view.config.web
    url = {"searxng": web.searxng, "brave": web.brave, "tavily": web.tavily, "exa": web.exa}[name].url or site.url
    assert url is not None, "choose_provider leaves out a provider without an address"
    return HttpSearch(site, url, await _fetch_key(session, name) if name != "searxng" else "")


async def _fetch_key(session: LiveSession, name: str) -> str:
    try:
        key = await read_in_thread(session.shared.search_key, name)
    except (BadCredentials, KeyringFailed) as error:
        raise SearchFailed(f"The key of {name} cannot be used. {error}") from None
    if key is None:
        raise SearchFailed(f"There is no key for {name} any more: `ostler auth login {name}` keeps one.")
    return key
