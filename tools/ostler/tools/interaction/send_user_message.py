"""SendUserMessage: a message to the people beside what is said in a turn, with files as they are now."""

import os
from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import Field

from ostler.protocol import times
from ostler.protocol.brief import Attachment, BriefStatus
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.files.reading.access import check_access
from ostler.tools.fs import paths
from ostler.tools.fs.file_type import HEAD_BYTES, is_image
from ostler.tools.fs.regular_file import NotRegular, open_regular_file
from ostler.tools.fs.similar_paths import build_path_filter, describe_missing
from ostler.tools.fs.text_file import format_size, is_stream
from ostler.tools.services import SentFile
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import (
    Allow,
    AskFirst,
    Block,
    BriefSent,
    Check,
    Failure,
    Refuse,
    Tool,
    ToolInput,
    ToolOutput,
    ToolResult,
    text_block,
)
from ostler.tools.traits import PermissionTraits

_MAX_FILES: Final = 20
_MAX_FILE_BYTES: Final = 100 * 1024 * 1024
_MAX_CHARS: Final = 100_000
_CHUNK_BYTES: Final = 64 * 1024


class BriefInput(ToolInput):
    """What is said, and the files that go with it."""

    message: Annotated[str, Field(min_length=1, max_length=_MAX_CHARS, description="The message, as Markdown.")]
    attachments: Annotated[list[str], Field(max_length=_MAX_FILES)] | None = Field(
        None, description="Absolute paths of files that go with it."
    )
    status: BriefStatus = Field("normal", description="`proactive`: the person has not asked for it.")


class BriefOutput(ToolOutput):
    """What was sent."""

    message: str
    attachments: list[Attachment]
    sent_at: str


class SendUserMessage(Tool[BriefInput, BriefOutput]):
    """Sends a message to every client, attached or later."""

    name = "SendUserMessage"
    Input = BriefInput
    Output = BriefOutput
    aliases = ("Brief",)
    title = "Sends the person a message, with files"
    search_hint = "tell notify report inform attachment file person"
    given_to_agents = "none"
    only_reads = True
    permissions = PermissionTraits(paths=lambda given: tuple(given.attachments or ()))

    def __init__(self) -> None:
        self._approved = paths.ApprovedPaths()

    def is_enabled(self, session: SessionView) -> bool:
        # Elsewhere the person reads what the model says: two places to look at are one too many.
        return session.assistant is not None

    def is_concurrency_safe(self, given: BriefInput) -> bool:
        return True

    def summary(self, given: BriefInput) -> str:
        # Not the message: clients show that by itself.
        count = len(given.attachments or ())
        files = f", with {count} file{'s' if count > 1 else ''}" if count else ""
        return f"to the person{files}"

    async def validate(self, given: BriefInput, context: ToolContext) -> Failure | None:
        if not given.message.strip():
            return Failure("The message is blank. Say what the person has to know.")
        for path in given.attachments or ():
            if (problem := paths.check_path(path)) is not None:
                return Failure(problem)
            if is_stream(paths.normalize_path(path)):
                return Failure(f"{path} is a stream without an end, not a file.")
        return None

    async def check_permission(self, given: BriefInput, context: ToolContext) -> Check:
        if not given.attachments:
            return Allow()
        places, check = await read_in_thread(_check_all, given.attachments, context.session)
        self._approved.note(context.call_id, places)
        return check

    async def run(self, given: BriefInput, context: ToolContext) -> ToolResult[BriefOutput] | Failure:
        attachments: list[Attachment] = []
        files: list[SentFile] = []
        given_paths = given.attachments or []
        if given_paths and self._approved.has_moved(
            context.call_id, (await read_in_thread(_check_all, given_paths, context.session))[0]
        ):
            return Failure("An attachment leads to another place than when it was allowed.")
        for path in given_paths:
            try:
                reader = await read_in_thread(_FileReader, path)
            except FileNotFoundError:
                nameable = build_path_filter(context.session, allowed=True)
                return Failure(await read_in_thread(describe_missing, path, nameable))
            except NotRegular as error:
                return Failure(f"{path} is {error.kind}, not a file.")
            except OSError as error:
                return Failure(f"{path} cannot be read: {error.strerror}.")
            if reader.size > _MAX_FILE_BYTES:
                reader.close()
                limit = format_size(_MAX_FILE_BYTES)
                return Failure(f"{path} is too large to be sent: {format_size(reader.size)}, and the limit is {limit}.")
            try:
                sent = await context.services.attachments.keep(os.path.basename(path), reader.read_chunks())
            except OSError as error:
                return Failure(f"{path} cannot be read: {error.strerror}.")
            finally:
                reader.close()
            files.append(sent)
            attachments.append(Attachment(id=sent.id, path=path, size=sent.size, is_image=reader.is_image))
        output = BriefOutput(message=given.message, attachments=attachments, sent_at=times.now())
        change = BriefSent(output.message, tuple(attachments), given.status, output.sent_at, tuple(files))
        return ToolResult(output, changes=[change])

    def render(self, output: BriefOutput) -> list[Block]:
        lines = [f"With {each.path} ({format_size(each.size)}), kept as {each.id}." for each in output.attachments]
        return [text_block("\n".join(["The person has the message.", *lines]))]


class _FileReader:
    """An open file, read piece by piece; never more of it than may be sent. Blocks."""

    def __init__(self, path: str) -> None:
        self._descriptor = open_regular_file(path)
        self.size = os.fstat(self._descriptor).st_size
        self.is_image = is_image(os.pread(self._descriptor, HEAD_BYTES, 0))

    def read_chunks(self) -> Iterator[bytes]:
        offset = 0
        while offset < _MAX_FILE_BYTES and (chunk := os.pread(self._descriptor, _CHUNK_BYTES, offset)):
            offset += len(chunk)
            yield chunk

    def close(self) -> None:
        os.close(self._descriptor)


def _check_all(given: list[str], session: SessionView) -> tuple[str, Check]:
    """Where all of them lead, and the strictest of what is said of each."""
    found = [check_access(path, session) for path in given]
    places = "\0".join(place for place, _ in found)
    checks = [check for _, check in found]
    for kind in (Refuse, AskFirst):
        strict = next((check for check in checks if isinstance(check, kind)), None)
        if strict is not None:
            return places, strict
    return places, Allow()
