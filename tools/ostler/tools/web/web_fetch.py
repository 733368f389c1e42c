"""WebFetch: reads a page of the web by its address."""

import time
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import Field

from ostler.tools.context import SessionView, ToolContext
from ostler.tools.files.reading.output import PictureOutput
from ostler.tools.fs.text_file import format_size
from ostler.tools.text import one_line
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import (
    Activity,
    Allow,
    Block,
    Check,
    Failure,
    Pass,
    Refuse,
    Tool,
    ToolInput,
    ToolOutput,
    ToolResult,
    text_block,
)
from ostler.tools.traits import PermissionTraits
from ostler.tools.web.page import PageUnavailable
from ostler.tools.web.page_cache import PageCache
from ostler.tools.web.untrusted import wrap_untrusted
from ostler.tools.web.url_policy import AllowedAddresses, BadUrl, parse_networks, parse_url

_SHOWN_URL: Final = 200
_ERROR: Final = 400
"""Codes from here on say that there is no such page."""


class WebFetchInput(ToolInput):
    """Which page, and what is wanted of it."""

    url: str = Field(description="The whole address, with https://.")
    prompt: str = Field(min_length=1, max_length=10_000, description="What you want to know of the page.")


class WebFetchOutput(ToolOutput):
    """What a page says."""

    url: str
    """Where it was found, after redirects."""
    code: int
    code_text: str
    bytes: int
    duration_ms: int
    media_type: str = ""
    title: str = ""
    result: str
    """Its text, or the answer to the prompt."""
    answered: bool = False
    """The small model read the page and answered the prompt: the page is long."""
    cached: bool = False
    """It was read a moment ago, and not fetched again."""
    redirect_url: str | None = None
    """Another host that it redirects to, which was not followed."""
    pictures: list[PictureOutput] = Field(default_factory=list)


@cache
def load_documentation_hosts() -> frozenset[str]:
    """Hosts that need no question."""
    text = Path(__file__).with_name("documentation_hosts.toml").read_text("utf-8")
    return frozenset(tomllib.loads(text)["hosts"])


def _find_host(given: WebFetchInput) -> str:
    """What rules are compared with."""
    try:
        return parse_url(given.url).rule_host
    except BadUrl:
        return ""


class WebFetch(Tool[WebFetchInput, WebFetchOutput]):
    """Reads a page of the web."""

    name = "WebFetch"
    Input = WebFetchInput
    Output = WebFetchOutput
    title = "Reads a page of the web"
    given_to_agents = "all"
    search_hint = "download url page http website documentation browse link"
    deferred = True
    max_result_chars = 100_000
    only_reads = True
    permissions = PermissionTraits(text=_find_host)

    def __init__(self) -> None:
        self._cache = PageCache()

    def activity(self, given: WebFetchInput) -> Activity:
        return "read"

    def is_concurrency_safe(self, given: WebFetchInput) -> bool:
        return True

    def summary(self, given: WebFetchInput) -> str:
        return f"Fetch {one_line(given.url, _SHOWN_URL)}"

    def classifier_text(self, given: WebFetchInput) -> str:
        return f"Fetch {given.url}"

    async def validate(self, given: WebFetchInput, context: ToolContext) -> Failure | None:
        try:
            parse_url(given.url)
        except BadUrl as error:
            return Failure(str(error))
        return None

    async def check_permission(self, given: WebFetchInput, context: ToolContext) -> Check:
        url, allowed = parse_url(given.url), _list_allowed(context.session)
        if url.literal is not None and not allowed.may_dial(url.literal, url):
            return Refuse(allowed.explain(url.literal, url))
        if url.port is None and url.host in await read_in_thread(load_documentation_hosts):
            return Allow()
        return Pass()

    async def run(self, given: WebFetchInput, context: ToolContext) -> ToolResult[WebFetchOutput] | Failure:
        started = time.monotonic()
        url, allowed = parse_url(given.url), _list_allowed(context.session)
        found = self._cache.get(str(url), allowed)
        cached = found is not None
        if found is None:
            # Imported here: most sessions never read the web, and the HTTP client takes long to load.
            from ostler.tools.web.page_reader import read_page  # noqa: PLC0415

            try:
                found = await read_page(url, allowed)
            except PageUnavailable as error:
                return Failure(str(error))
            if found.page.code < _ERROR:
                self._cache.put(str(url), allowed, found)
        text, answer = found.content.text, None
        if len(text) > context.session.config.web.summarise_over:
            answer = await context.services.web.answer(given.prompt, text)
        page = found.page
        output = WebFetchOutput(
            url=str(page.url),
            code=page.code,
            code_text=page.reason,
            bytes=found.size,
            duration_ms=round((time.monotonic() - started) * 1000),
            media_type=page.media_type,
            title=one_line(found.content.title, 300),
            result=text if answer is None else answer,
            answered=answer is not None,
            cached=cached,
            redirect_url=str(page.redirect) if page.redirect is not None else None,
            pictures=[PictureOutput.of(each) for each in found.content.pictures],
        )
        return ToolResult(output, is_error=page.code >= _ERROR)

    def render(self, output: WebFetchOutput) -> list[Block]:
        if output.redirect_url is not None:
            words = f"{output.url} redirects to another host, which was not followed: {output.redirect_url}"
            return [text_block(f"{words}\nFetch that address, if it is what you are looking for.")]
        shown = " answered from the page by a small model" if output.answered else ""
        status = f"{output.code} {output.code_text}".strip()
        head = f"{output.url}: {status}, {format_size(output.bytes)}{shown}"
        if not output.result.strip() and not output.pictures:
            return [text_block(f"{head}\n(The page has no text.)")]
        title = f"# {output.title}\n\n" if output.title and not output.answered else ""
        body = wrap_untrusted("web-page", output.url, f"{title}{output.result}")
        return [text_block(f"{head}\n{body}"), *(picture.block for picture in output.pictures)]


def _list_allowed(session: SessionView) -> AllowedAddresses:
    return AllowedAddresses(parse_networks(session.config.web.allow_private), session.opened_addresses)
