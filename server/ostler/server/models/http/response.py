"""One answer, from its first byte to its last: httptools calls it with what it has parsed."""

import asyncio
from collections.abc import Callable
from typing import Final

import httptools

from ostler.server.models.http.decompression import Decompressor, find_decompressor
from ostler.server.models.http.errors import BadEncoding, ConnectionBroken, NotHttp, SilenceTimeout

_MAX_OVERHEAD_BYTES: Final = 256 * 1024
"""How much may come that is no body: headers, trailers and what stands beside chunks."""
_MAX_WAITING_BYTES: Final = 256 * 1024
"""How much may wait for its reader before no more is taken from the connection."""


class Response:
    """What is known of an answer by now. Its body is read in pieces, as it comes."""

    def __init__(self, pause: Callable[[bool], None], release: Callable[[bool], None], silence: float | None) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """In small letters; what came several times is joined."""
        self.has_begun = False
        """The headers are there."""
        self.complete = False
        """All of it came, whether it was read or not."""
        self.can_continue = True
        """The connection can be used again by who has sent and read everything."""
        self._parser = httptools.HttpResponseParser(self)
        self._pause_reading = pause
        self._release: Callable[[bool], None] | None = release
        self._silence_seconds = silence
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waiting_since = 0.0
        self._chunks: list[bytes] = []
        self._waiting_bytes = 0
        self._is_paused = False
        self._overhead_bytes = 0
        self._is_informational = False
        self._error: Exception | None = None
        self._decompressor: Decompressor | None = None

    # For who asked.

    async def wait_for_head(self) -> None:
        """Wait for status and headers. Raises OSError."""
        while not self.has_begun:
            if self._error is not None:
                raise self._error
            await self._wait()

    async def read(self) -> bytes:
        """What came since the last time, or comes next; nothing at the end. Raises OSError or BadEncoding."""
        while True:
            if piece := self._take():
                return piece
            if self._error is not None:
                raise self._error
            if self.complete:
                if self._decompressor is not None:
                    self._decompressor.check_end()
                return b""
            await self._wait()

    def close(self) -> None:
        """End it, now; its connection is used again where nothing of the answer is on its way any more."""
        self._stop_timer()
        release, self._release = self._release, None
        if release is not None:
            release(self.complete and self.can_continue and self._error is None)

    def _take(self) -> bytes:
        came = b"".join(self._chunks) if len(self._chunks) != 1 else self._chunks[0]
        self._chunks.clear()
        self._waiting_bytes = 0
        if self._is_paused:
            self._is_paused = False
            self._pause_reading(False)
        if self._decompressor is None:
            return came
        if came:
            self._decompressor.feed(came)
        return self._decompressor.take()

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        self._waiting_since = self._loop.time()
        if self._timer is None and self._silence_seconds is not None:
            self._timer = self._loop.call_later(self._silence_seconds, self._check_silence)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _check_silence(self) -> None:
        # One timer for the whole answer, set anew when it is due: most waits end after a moment.
        assert self._silence_seconds is not None
        waited = 0.0 if self._waiter is None else self._loop.time() - self._waiting_since
        if waited < self._silence_seconds:
            self._timer = self._loop.call_later(self._silence_seconds - waited, self._check_silence)
        else:
            self._timer = None
            self.fail(SilenceTimeout())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # For the connection.

    def feed(self, data: bytes) -> None:
        self._overhead_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.fail(NotHttp(f"what came is no HTTP: {error}"))
        if self._overhead_bytes > _MAX_OVERHEAD_BYTES:
            self.fail(NotHttp("the headers have no end"))
        if self._waiting_bytes > _MAX_WAITING_BYTES and not self._is_paused:
            self._is_paused = True
            self._pause_reading(True)
        self._wake()

    def end(self, error: Exception | None) -> None:
        """The connection is gone: the end of an answer without a length, and a broken one else."""
        framed = "content-length" in self.headers or "transfer-encoding" in self.headers
        if error is None and self.has_begun and not framed:
            self.complete, self.can_continue = True, False
        elif not self.complete:
            self.fail(ConnectionBroken(str(error or "the connection was closed")))
        self._wake()

    def fail(self, error: Exception) -> None:
        """What came before can still be read."""
        self._error = self._error or error
        self._wake()

    # For the parser.

    def on_message_begin(self) -> None:
        if self.complete:
            self.can_continue = False  # nobody asked for another answer

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.has_begun:
            return  # a trailer
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        if self.has_begun:
            return
        self.status = self._parser.get_status_code()
        self._is_informational = 100 <= self.status < 200
        if self._is_informational:
            self.headers = {}
            return
        self.has_begun = True
        try:
            self._decompressor = find_decompressor(self.headers)
        except BadEncoding as error:
            self.fail(error)

    def on_body(self, body: bytes) -> None:
        if self.complete:
            return
        self._overhead_bytes = 0
        self._waiting_bytes += len(body)
        self._chunks.append(body)

    def on_message_complete(self) -> None:
        if not self._is_informational:
            self.complete = True
            self.can_continue = self.can_continue and self._parser.should_keep_alive()
