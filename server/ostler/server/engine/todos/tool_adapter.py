"""The work list of one session, as its tools use it: implements `ostler.tools.services.Todos`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ostler.protocol.events import TodoData
from ostler.protocol.ids import TodoId, TurnId
from ostler.protocol.todo import Todo
from ostler.server.engine.session.hooks import SessionHooks
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.todos.reminders import note_edit
from ostler.server.engine.todos.todo_list import MAIN, TodoList
from ostler.storage import Tx
from ostler.tools.services import TodoEdit, TodoRefused


@dataclass(frozen=True, slots=True)
class SessionTodos:
    """See `ostler.tools.services.Todos`. A turn's calls change the list with hooks, people without."""

    session: LiveSession
    turn_id: TurnId | None

    async def list_todos(self) -> Sequence[Todo]:
        self._note_use()
        session_id = self.session.record.id
        return (await self.session.journal.writes.log.read(lambda snapshot: snapshot.todos.get(session_id))).todos

    async def create(self, edit: TodoEdit) -> Todo:
        made: list[Todo] = []

        def add(before: TodoList) -> TodoList:
            after, todo = before.add(edit)
            made.append(todo)
            return after

        await self._change(add)
        if (why := await self._ask_hooks("TaskCreated", made[-1])) is not None:
            await self._change(lambda before: before.remove(made[-1].id))
            raise TodoRefused(f"A hook refused the todo, and it was deleted again: {why}")
        return made[-1]

    async def update(self, todo_id: TodoId, edit: TodoEdit) -> tuple[Todo, Sequence[Todo]]:
        if edit.fields.get("status") == "completed":
            todo = TodoList(todos=tuple(await self.list_todos())).get(todo_id)
            if todo.status != "completed" and (why := await self._ask_hooks("TaskCompleted", todo)) is not None:
                raise TodoRefused(f"A hook does not let todo {todo_id!r} be completed: {why}")
        was: list[Todo] = []

        def change(before: TodoList) -> TodoList:
            was.append(before.get(todo_id))
            return before.change(todo_id, edit, self._claimant)

        after = await self._change(change)
        return was[-1], after.todos

    async def delete(self, todo_id: TodoId) -> None:
        await self._change(lambda before: before.remove(todo_id))

    async def replace_all(self, todos: Sequence[Todo]) -> tuple[Sequence[Todo], Sequence[Todo]]:
        was: list[TodoList] = []

        def replace(before: TodoList) -> TodoList:
            was.append(before)
            return before.replace_all(todos)

        after = await self._change(replace)
        return was[-1].todos, after.todos

    @property
    def _claimant(self) -> str:
        agent = self.session.agent
        return MAIN if agent is None else agent.name or agent.description

    async def _change(self, work: Callable[[TodoList], TodoList]) -> TodoList:
        """One unit of work: the list is read, changed and written again, so that two changes never undo each other."""
        self._note_use()
        writes = self.session.journal.writes

        def change(tx: Tx) -> tuple[TodoList, bool]:
            before = TodoList(*tx.todos.get(writes.session_id))
            after = work(before)
            if after != before:
                tx.todos.put(writes.session_id, after.next_number, after.todos)
            if differs := after.todos != before.todos:
                tx.append("todo.changed", writes.scope(self.turn_id), data=TodoData(todos=list(after.todos)))
            return after, differs

        after, differs = await writes.write(change)
        if differs and self.turn_id is None:
            note_edit(self.session)
        return after

    def _note_use(self) -> None:
        if self.turn_id is not None:
            self.session.requests_without_todos = 0

    async def _ask_hooks(self, event: str, todo: Todo) -> str | None:
        """Why hooks of the event refuse; None where they do not, or where a person changes the list."""
        if self.turn_id is None:
            return None
        outcome = await SessionHooks(self.session, self.turn_id).fire(
            event, task_id=todo.id, task_subject=todo.subject, task_description=todo.description
        )
        return outcome.block or outcome.stop
