"""A server that is a program here: a JSON-RPC message is a line, in both directions."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ostler.tools.process.stdio import Talker

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""A server that says more at once is not listened to any more."""
_LAST_WORDS: Final = 0.5
"""For what is still in the pipe of a server that has ended; a child of its may hold it open for ever."""
_LEAVE_SECONDS: Final = 1.0
"""For a server that is to go and has been told so."""
_REMARK_BYTES: Final = 2_000


class Remarks:
    """The last that a server said to people: it may tell why it does not work."""

    def __init__(self) -> None:
        self._last = b""

    def add(self, data: bytes) -> None:
        self._last = (self._last + data)[-_REMARK_BYTES:]

    def __str__(self) -> str:
        return " ".join(self._last.decode("utf-8", "replace").split())


@asynccontextmanager
async def talking(talker: Talker, remarks: Remarks, on_end: Callable[[], None]) -> "AsyncIterator[TransportStreams]":
    """The streams that the library wants; `on_end` is called when the server says nothing any more."""
    heard_in, heard = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    said, said_out = anyio.create_memory_object_stream["SessionMessage"](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_hear, talker, heard_in, on_end)
            group.start_soon(_say, talker, said_out)
            group.start_soon(_note, talker, remarks)
            group.start_soon(_await_end, talker, on_end)
            try:
                yield heard, said
            finally:
                group.cancel_scope.cancel()
    finally:
        for stream in (heard_in, heard, said, said_out):
            stream.close()
        with anyio.CancelScope(shield=True):
            await _dismiss(talker)


async def _dismiss(talker: Talker) -> None:
    """The end of its input tells it to leave; whoever stays is ended."""
    talker.close("stdin")
    with anyio.move_on_after(_LEAVE_SECONDS):
        await talker.child.wait()
    await talker.end()
    talker.close("stdout", "stderr")


async def _hear(
    talker: Talker, heard: "MemoryObjectSendStream[SessionMessage | Exception]", on_end: Callable[[], None]
) -> None:
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - see the package
    from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415 - as above

    buffer = bytearray()
    try:
        async with heard:
            while (data := await talker.read("stdout")) and len(buffer) <= MAX_LINE_BYTES:
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
                    await heard.send(SessionMessage(message))
    except anyio.BrokenResourceError:
        pass  # nobody listens any more
    finally:
        on_end()


async def _say(talker: Talker, said: "MemoryObjectReceiveStream[SessionMessage]") -> None:
    async with said:
        async for each in said:
            line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await talker.write(line.encode() + b"\n")
            except BrokenPipeError:
                return


async def _await_end(talker: Talker, on_end: Callable[[], None]) -> None:
    await talker.child.wait()
    await anyio.sleep(_LAST_WORDS)
    on_end()


async def _note(talker: Talker, remarks: Remarks) -> None:
    """Read to the end, whatever it says, so that it does not wait for us."""
    while data := await talker.read("stderr"):
        remarks.add(data)
