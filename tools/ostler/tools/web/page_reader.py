"""Reads one page of the web: downloads it, and makes of it what a model can read."""

from dataclasses import replace

from ostler.tools.web.connections import Resolve, resolve_host
from ostler.tools.web.download import download
from ostler.tools.web.html import HtmlConverter
from ostler.tools.web.page import Content, ReadPage
from ostler.tools.web.page_content import read_content
from ostler.tools.web.url_policy import AllowedAddresses, Url


async def read_page(url: Url, allowed: AllowedAddresses, resolve: Resolve = resolve_host) -> ReadPage:
    """Raises PageUnavailable."""
    async with HtmlConverter() as converter:
        page = await download(url, allowed, resolve=resolve)
        content = Content("") if page.redirect is not None else await read_content(page, converter)
    return ReadPage(replace(page, data=b""), len(page.data), content)
