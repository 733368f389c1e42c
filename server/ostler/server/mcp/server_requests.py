"""What an MCP server asks of us: the session's folders, words of people, the model; and what it tells besides."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostler.server.mcp.connection import Connection, SamplingRefused
from ostler.server.observability import logs

if TYPE_CHECKING:
    from mcp.client.session import ClientRequestContext
    from mcp_types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
        ListRootsResult,
        LoggingMessageNotificationParams,
    )

    from ostler.server.mcp.connect import ResolvedServer


@dataclass(slots=True)
class ServerRequests:
    """Those of one server."""

    resolved: "ResolvedServer"
    problems: list[str] = field(default_factory=list)
    connection: Connection | None = None
    """Null until the server has greeted."""

    async def note_message(self, message: object) -> None:
        """Wakes who waits for changes."""
        from mcp_types import ToolListChangedNotification  # noqa: PLC0415 - see the package

        if self.connection is None:
            return
        if isinstance(getattr(message, "root", message), ToolListChangedNotification):
            self.connection.notify_listing_change()
        # Also for garbage and other messages: whoever waits reads the resource again, and finds nothing new.
        self.connection.notify_change()

    async def note_log(self, params: "LoggingMessageNotificationParams") -> None:
        logs.log.debug("mcp_server_log", level=params.level, words=str(params.data)[:500])

    async def list_roots(self, context: "ClientRequestContext") -> "ListRootsResult":
        from mcp_types import ListRootsResult  # noqa: PLC0415 - see the package

        folders = self.resolved.roots or (self.resolved.folder,)
        roots = [{"uri": Path(each).as_uri(), "name": Path(each).name} for each in folders]
        return ListRootsResult.model_validate({"roots": roots})

    async def elicit(self, context: "ClientRequestContext", params: "ElicitRequestParams") -> "ElicitResult":
        from mcp_types import ElicitResult  # noqa: PLC0415 - see the package

        cancelled = ElicitResult(action="cancel")
        if self.connection is None:
            return cancelled
        with self.connection.find_handlers() as handlers:
            if handlers is None:
                return cancelled
            given: dict[str, Any] = params.model_dump(by_alias=True, mode="json", exclude_none=True)
            return ElicitResult.model_validate(await handlers.elicit(given))

    async def sample(
        self, context: "ClientRequestContext", params: "CreateMessageRequestParams"
    ) -> "CreateMessageResult | ErrorData":
        from mcp_types import INVALID_REQUEST, CreateMessageResult, ErrorData  # noqa: PLC0415 - see the package

        nobody = ErrorData(code=INVALID_REQUEST, message="The model is there for a server only while a call runs.")
        if self.connection is None:
            return nobody
        with self.connection.find_handlers() as handlers:
            if handlers is None:
                return nobody
            try:
                answer = await handlers.sample(params.model_dump(by_alias=True, mode="json", exclude_none=True))
            except SamplingRefused as refused:
                return ErrorData(code=-1, message=str(refused))
            return CreateMessageResult.model_validate(answer)
