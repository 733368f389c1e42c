"""Makes Markdown of pages in HTML, in a worker process that starts while the page is still on its way."""

import asyncio
from dataclasses import dataclass
from typing import Final

from ostler.tools.formats.worker import TIME_LIMIT, WarmWorker, WorkerDied, WorkerStopped
from ostler.tools.threads import read_in_thread
from ostler.tools.web import html_worker
from ostler.tools.web.page import PageUnavailable

MAX_MARKDOWN_CHARS: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class Markdown:
    """What a page says."""

    title: str
    text: str
    cut: bool
    """There is more of it."""


class HtmlConverter:
    """Converts one page. Entered before the page is asked for, so that nobody waits for the start of the worker."""

    def __init__(self) -> None:
        self._worker = WarmWorker(html_worker, {"most": MAX_MARKDOWN_CHARS})
        self._starting: asyncio.Future[None] | None = None

    async def __aenter__(self) -> "HtmlConverter":
        self._starting = asyncio.ensure_future(read_in_thread(self._worker.start))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._worker.stop()
        if self._starting is not None:
            await asyncio.wait([self._starting])
            if not self._starting.cancelled():
                self._starting.exception()
        await asyncio.shield(read_in_thread(self._worker.close))

    async def convert(self, html: str) -> Markdown:
        """Raises PageUnavailable."""
        assert self._starting is not None
        late = asyncio.get_running_loop().call_later(TIME_LIMIT, self._worker.stop_on_timeout)
        try:
            await self._starting
            answer = await read_in_thread(self._worker.ask, html.encode("utf-8", "replace"))
        except WorkerDied as died:
            why = "takes too long" if died.took_too_long else "is made so that it takes too much memory, or is damaged"
            raise PageUnavailable(f"The page {why} to be converted.") from None
        except WorkerStopped:
            raise PageUnavailable("The page was not converted: the call was stopped.") from None
        finally:
            late.cancel()
        if (trouble := answer.get("trouble")) is not None:
            words = "it takes too much memory" if trouble == "memory" else str(trouble)
            raise PageUnavailable(f"The page cannot be converted: {words}.")
        return Markdown(answer["title"], answer["text"], answer["chars"] > MAX_MARKDOWN_CHARS)
