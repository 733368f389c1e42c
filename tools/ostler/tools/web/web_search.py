"""WebSearch: searches the web, with whichever provider the session has."""

import re
import time
from typing import Final

from pydantic import Field

from ostler.tools.context import SessionView, ToolContext
from ostler.tools.services import SearchFailed
from ostler.tools.text import one_line
from ostler.tools.tool import Activity, Block, Failure, Tool, ToolInput, ToolOutput, ToolResult, text_block
from ostler.tools.web.search.choice import choose_provider, explain_absence
from ostler.tools.web.untrusted import wrap_untrusted

MAX_HITS: Final = 10
_MAX_DOMAINS: Final = 50
_SHOWN_QUERY: Final = 100
_DOMAIN: Final = re.compile(
    r"(?:\*\.)?([a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*)\.?"
)


class WebSearchInput(ToolInput):
    """What to look for, and where."""

    query: str = Field(min_length=2, max_length=2_000, description="What to search for.")
    allowed_domains: list[str] | None = Field(None, max_length=_MAX_DOMAINS, description="Only pages of these hosts.")
    blocked_domains: list[str] | None = Field(None, max_length=_MAX_DOMAINS, description="No pages of these hosts.")


class FoundPage(ToolOutput):
    """A page that was found."""

    title: str
    url: str
    snippet: str = ""


class WebSearchOutput(ToolOutput):
    """What was found."""

    query: str
    results: list[FoundPage]
    commentary: str = ""
    """What the provider itself says to it."""
    duration_s: float
    provider: str
    """Who searched: `api` for that of the model."""


class WebSearch(Tool[WebSearchInput, WebSearchOutput]):
    """Searches the web."""

    name = "WebSearch"
    Input = WebSearchInput
    Output = WebSearchOutput
    title = "Searches the web"
    given_to_agents = "all"
    search_hint = "internet online lookup google find pages news current information"
    deferred = True
    max_result_chars = 100_000
    only_reads = True

    def is_enabled(self, session: SessionView) -> bool:
        return choose_provider(session) is not None

    def explain_absence(self, session: SessionView) -> str:
        return explain_absence(session)

    def activity(self, given: WebSearchInput) -> Activity:
        return "search"

    def is_concurrency_safe(self, given: WebSearchInput) -> bool:
        return True

    def summary(self, given: WebSearchInput) -> str:
        return f"Search the web for {one_line(given.query, _SHOWN_QUERY)}"

    def classifier_text(self, given: WebSearchInput) -> str:
        return f"Search the web for {given.query}"

    async def validate(self, given: WebSearchInput, context: ToolContext) -> Failure | None:
        if len(given.query.strip()) < 2:
            return Failure("The query needs at least 2 characters that are no blanks.")
        if given.allowed_domains and given.blocked_domains:
            return Failure("Give allowed_domains or blocked_domains, not both.")
        for domain in (*(given.allowed_domains or ()), *(given.blocked_domains or ())):
            if _read_domain(domain) is None:
                return Failure(
                    f"{domain[:200]!r} is no host name: write it like example.org, without https:// and path."
                )
        return None

    async def run(self, given: WebSearchInput, context: ToolContext) -> ToolResult[WebSearchOutput] | Failure:
        started = time.monotonic()
        query = " ".join(given.query.split())
        try:
            found = await context.services.web.search(
                query, _read_domains(given.allowed_domains), _read_domains(given.blocked_domains), MAX_HITS
            )
        except SearchFailed as error:
            return Failure(str(error))
        pages = [FoundPage(title=hit.title, url=hit.url, snippet=hit.snippet) for hit in found.hits]
        return ToolResult(
            WebSearchOutput(
                query=query,
                results=pages,
                commentary=found.commentary,
                duration_s=round(time.monotonic() - started, 3),
                provider=found.provider,
            )
        )

    def render(self, output: WebSearchOutput) -> list[Block]:
        if not output.results and not output.commentary:
            return [text_block(f"Nothing was found for: {output.query}")]
        count = f"{len(output.results)} page{'' if len(output.results) == 1 else 's'}"
        pages = [
            "\n".join(line for line in (f"{at}. {page.title}", f"   {page.url}", f"   {page.snippet}") if line.strip())
            for at, page in enumerate(output.results, 1)
        ]
        parts = [*pages, *([output.commentary] if output.commentary else [])]
        body = wrap_untrusted("search-results", output.provider, "\n\n".join(parts))
        return [text_block(f"{count} found for: {output.query}\n{body}")]


def _read_domain(text: str) -> str | None:
    """A host as results are compared with it; null where it is none."""
    try:
        plain = text.strip().lower() if text.isascii() else text.strip().encode("idna").decode("ascii").lower()
    except UnicodeError:
        return None
    found = _DOMAIN.fullmatch(plain) if len(plain) <= 255 else None
    return found[1] if found else None


def _read_domains(texts: list[str] | None) -> list[str]:
    return [domain for text in texts or () if (domain := _read_domain(text)) is not None]
