"""Transport to an MCP server that is a child process: a JSON-RPC message is a line, in both directions."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ostler.tools.process.stdio import StdioProcess

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""A server that sends a longer line is not read any more."""
_DRAIN_SECONDS: Final = 0.5
"""For what is still in the pipe of a server that has ended; a child of its may hold it open for ever."""
_EXIT_SECONDS: Final = 1.0
"""For a server to exit by itself, when its input was closed."""
_MAX_DIAGNOSTIC_BYTES: Final = 2_000


class Diagnostics:
    """The end of a server's stderr, or its HTTP error statuses: they may tell why it does not work."""

    def __init__(self) -> None:
        self._last = b""

    def add(self, data: bytes) -> None:
        self._last = (self._last + data)[-_MAX_DIAGNOSTIC_BYTES:]

    def __str__(self) -> str:
        return " ".join(self._last.decode("utf-8", "replace").split())


@asynccontextmanager
async def open_stdio(
    process: StdioProcess, diagnostics: Diagnostics, on_end: Callable[[], None]
) -> "AsyncIterator[TransportStreams]":
    """The streams that the library wants; `on_end` is called when the server's output ends."""
    incoming_sender, incoming = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    outgoing, outgoing_receiver = anyio.create_memory_object_stream["SessionMessage"](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read_messages, process, incoming_sender, on_end)
            group.start_soon(_write_messages, process, outgoing_receiver)
            group.start_soon(_read_stderr, process, diagnostics)
            group.start_soon(_await_end, process, on_end)
            try:
                yield incoming, outgoing
            finally:
                group.cancel_scope.cancel()
    finally:
        for stream in (incoming_sender, incoming, outgoing, outgoing_receiver):
            stream.close()
        with anyio.CancelScope(shield=True):
            await _shut_down(process)


async def _shut_down(process: StdioProcess) -> None:
    """Closes its input, which tells it to exit; one that stays is ended."""
    process.close("stdin")
    with anyio.move_on_after(_EXIT_SECONDS):
        await process.child.wait()
    await process.end()
    process.close("stdout", "stderr")


async def _read_messages(
    process: StdioProcess, incoming: "MemoryObjectSendStream[SessionMessage | Exception]", on_end: Callable[[], None]
) -> None:
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - see the package
    from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415 - as above

    buffer = bytearray()
    try:
        async with incoming:
            while (data := await process.read("stdout")) and len(buffer) <= MAX_LINE_BYTES:
                buffer += data
                if b"\n" not in data:
                    continue
                *lines, rest = bytes(buffer).split(b"\n")
                buffer = bytearray(rest)
                for line in lines:
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        continue  # many a server prints other things, too
                    await incoming.send(SessionMessage(message))
    except anyio.BrokenResourceError:
        pass  # nobody reads the messages any more
    finally:
        on_end()


async def _write_messages(process: StdioProcess, outgoing: "MemoryObjectReceiveStream[SessionMessage]") -> None:
    async with outgoing:
        async for each in outgoing:
            line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await process.write(line.encode() + b"\n")
            except BrokenPipeError:
                return


async def _await_end(process: StdioProcess, on_end: Callable[[], None]) -> None:
    await process.child.wait()
    await anyio.sleep(_DRAIN_SECONDS)
    on_end()


async def _read_stderr(process: StdioProcess, diagnostics: Diagnostics) -> None:
    """Reads stderr to its end, so that the server never waits for us."""
    while data := await process.read("stderr"):
        diagnostics.add(data)
