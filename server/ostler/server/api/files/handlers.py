"""The handlers of the file methods: search, read."""

import os
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import anyio.to_thread

from ostler.protocol.errors import Conflict, InvalidParams
from ostler.protocol.file import FileContent, FileRead, FileSearch, FoundFile, FoundFiles
from ostler.server.api.files.file_index import FileIndexes
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.engine import Engine
from ostler.server.prompt.bounded_read import Unreadable, read_beginning
from ostler.tools.fs.similar_paths import build_path_filter
from ostler.tools.search.ripgrep import RipgrepError, RipgrepMissing

_MAX_BYTES: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class FileMethods:
    engine: Engine
    indexes: FileIndexes = field(default_factory=FileIndexes)

    async def search(self, params: FileSearch, actor: SessionActor) -> FoundFiles:
        """The files whose paths fit; only those that the session may read."""
        await self.engine.settings_loader.load(actor.live)
        view = actor.live.view
        try:
            index = await self.indexes.load(view.folder, view.roots)
        except (RipgrepError, RipgrepMissing) as error:
            raise Conflict(str(error)) from None
        may_name = build_path_filter(view, allowed=False)
        work = partial(
            index.find, params.query, lambda path: may_name(os.path.join(view.folder, path.rstrip("/"))), params.limit
        )
        found = await anyio.to_thread.run_sync(work)
        return FoundFiles(files=[FoundFile(path=one.path, kind=one.kind, score=one.score) for one in found])

    async def read(self, params: FileRead, actor: SessionActor) -> FileContent:
        """Lines of a text file that the session may read."""
        await self.engine.settings_loader.load(actor.live)
        view = actor.live.view
        path = os.path.join(view.folder, params.path)
        may_name = build_path_filter(view, allowed=False)
        if not await anyio.to_thread.run_sync(may_name, path):
            raise InvalidParams.of("path", f"{params.path!r} is not a file that this session may read")
        try:
            head = await anyio.to_thread.run_sync(read_beginning, path, view.roots, _MAX_BYTES)
        except Unreadable as problem:
            raise InvalidParams.of("path", f"{params.path!r} {problem}") from None
        lines = head.text.splitlines(keepends=True)
        shown = lines[params.offset : params.offset + params.limit]
        end = params.offset + len(shown)
        return FileContent(
            path=head.path,
            content="".join(shown),
            total_lines=len(lines),
            next_offset=end if end < len(lines) else None,
            whole=head.whole,
        )
