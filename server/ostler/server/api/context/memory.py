"""The handlers of the memory methods: people add notes for later sessions, and list them."""

from dataclasses import dataclass

from ostler.protocol.errors import Conflict, InvalidParams
from ostler.protocol.memory import MemoryAdd, MemoryList, MemoryNote, MemoryPage
from ostler.protocol.methods import MEMORY_LIST
from ostler.server.engine.actor import SessionActor
from ostler.server.engine.session.live import LiveSession
from ostler.server.prompt.memory import MemoryFolder, NoteFile, NoteRefused, add_note, find_folders, list_notes
from ostler.server.rpc.paging import paginate_list
from ostler.server.settings.locations import list_project_folders
from ostler.tools.permissions.secrets import find_secret
from ostler.tools.threads import change_in_thread, read_in_thread


@dataclass(frozen=True, slots=True)
class MemoryMethods:
    async def add(self, params: MemoryAdd, actor: SessionActor) -> MemoryNote:
        found = find_secret(params.text) if params.scope == "project" else None
        if found is not None:
            raise InvalidParams.of(
                "text", f"holds what looks like {found}, and others read the project's notes: leave it out"
            )
        folders = await read_in_thread(_find_folders, actor.live)
        folder = next((each for each in folders if each.scope == params.scope), None)
        if folder is None:
            raise Conflict("This daemon has no folder of its own for notes.")
        try:
            path = await change_in_thread(add_note, folder, params.text)
        except NoteRefused as refused:
            raise Conflict(str(refused)) from None
        except OSError as error:
            raise Conflict(f"{error.filename or folder.path} cannot be written: {error.strerror}.") from None
        notes = await read_in_thread(lambda: list(list_notes([folder])))
        return next(_build_note(note) for note in notes if note.path == path)

    async def list(self, params: MemoryList, actor: SessionActor) -> MemoryPage:
        folders = await read_in_thread(_find_folders, actor.live)
        notes = await read_in_thread(lambda: [_build_note(note) for note in list_notes(folders)])
        page, token = paginate_list(MEMORY_LIST.name, params, notes)
        return MemoryPage(notes=page, next=token)


def _find_folders(live: LiveSession) -> list[MemoryFolder]:
    return find_folders(list_project_folders(live.settings_folder)[-1], live.shared.home)


def _build_note(note: NoteFile) -> MemoryNote:
    return MemoryNote(scope=note.scope, path=note.path, size=note.size, in_prompt=note.in_prompt)
