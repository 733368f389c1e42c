"""A work list as a value: every change gives a new list, or says why it cannot be made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from ostler.protocol.ids import TodoId
from ostler.protocol.todo import Todo
from ostler.tools.services import TodoEdit, TodoRefused

MAIN: Final = "main"
"""The owner's name of the agent that talks with the person."""
MAX_ITEMS: Final = 500
MAX_BYTES: Final = 512 * 1024
"""Of all items as JSON: every change tells the whole list to every client."""
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class TodoList:
    """Items in order, and the number of the next one. What waits for what is stored on both sides, and agrees."""

    next_number: int = 1
    todos: tuple[Todo, ...] = ()

    def find(self, todo_id: TodoId) -> Todo | None:
        return next((todo for todo in self.todos if todo.id == todo_id), None)

    def add(self, edit: TodoEdit) -> "tuple[TodoList, Todo]":
        """With a new item at the end."""
        number = self.next_number
        while self.find(TodoId(str(number))) is not None:  # a model that replaced the list may have taken the number
            number += 1
        todo_id = TodoId(str(number))
        longer = replace(self, next_number=number + 1, todos=(*self.todos, Todo(id=todo_id, subject="")))
        after = longer.change(todo_id, edit)
        return after, after.get(todo_id)

    def change(self, todo_id: TodoId, edit: TodoEdit, claimant: str = MAIN) -> "TodoList":
        """With other fields of one item; `claimant` is who does it, where the change says so and nobody does yet."""
        before = self.get(todo_id)
        todo = before.changed(**edit.fields, metadata=_merge_metadata(before.metadata, edit.metadata))
        if edit.claims:
            todo = todo.changed(owner=todo.owner or claimant)
        waits_for = {each.id: list(each.blocked_by) for each in self.todos}
        if edit.blocked_by is not None:
            waits_for[todo_id] = _keep_order(edit.blocked_by)
        waits_for[todo_id] = _keep_order((*waits_for[todo_id], *edit.add_blocked_by))
        if edit.blocks is not None:
            waits_for = {each: [one for one in ids if one != todo_id] for each, ids in waits_for.items()}
        for blocked in (*(edit.blocks or ()), *edit.add_blocks):
            self.get(blocked)
            waits_for[blocked] = _keep_order((*waits_for[blocked], todo_id))
        for blocker in waits_for[todo_id]:
            self.get(blocker)
        _refuse_cycles(waits_for)
        changed = tuple(todo if each.id == todo_id else each for each in self.todos)
        return replace(self, todos=_connect(changed, waits_for))._check_size()

    def remove(self, todo_id: TodoId) -> "TodoList":
        """Without one item; what waited for it waits no longer."""
        self.get(todo_id)
        kept = tuple(todo for todo in self.todos if todo.id != todo_id)
        waits_for = {todo.id: [each for each in todo.blocked_by if each != todo_id] for todo in kept}
        return replace(self, todos=_connect(kept, waits_for))

    def replace_all(self, todos: Sequence[Todo]) -> "TodoList":
        """With other items: one without an id keeps that of the item with its subject, or gets the next number."""
        taken = {todo.id for todo in todos if todo.id}
        if len(taken) < sum(1 for todo in todos if todo.id):
            raise TodoRefused("Two items have the same id.")
        known = {todo.subject: todo.id for todo in self.todos if todo.id not in taken}
        number = self.next_number
        named: list[Todo] = []
        for todo in todos:
            todo_id = todo.id or known.pop(todo.subject, TodoId(""))
            while not todo_id or (todo_id != todo.id and todo_id in taken):
                todo_id, number = TodoId(str(number)), number + 1
            taken.add(todo_id)
            named.append(todo.changed(id=todo_id))
        return TodoList(number, tuple(named))._check_size()

    def get(self, todo_id: TodoId) -> Todo:
        """Raises TodoRefused where there is none."""
        todo = self.find(todo_id)
        if todo is None:
            raise TodoRefused(f"There is no todo {todo_id[:100]!r}. {self._name_items()}", missing=todo_id)
        return todo

    def _name_items(self) -> str:
        if not self.todos:
            return "The list is empty."
        more = ", …" if len(self.todos) > _SHOWN else ""
        return f"The list has {', '.join(todo.id for todo in self.todos[:_SHOWN])}{more}."

    def _check_size(self) -> "TodoList":
        if len(self.todos) > MAX_ITEMS:
            raise TodoRefused(f"The list is full: it takes {MAX_ITEMS} items. Delete some that are completed.")
        if sum(len(todo.encoded()) for todo in self.todos) > MAX_BYTES:
            raise TodoRefused(f"The list would be longer than {MAX_BYTES // 1024} KB. Say it shorter.")
        return self


def _merge_metadata(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**before, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def _keep_order(ids: Sequence[TodoId]) -> list[TodoId]:
    """Each once, in the order of their first mention."""
    return list(dict.fromkeys(ids))


def _connect(todos: Sequence[Todo], waits_for: Mapping[TodoId, Sequence[TodoId]]) -> tuple[Todo, ...]:
    """The items with both sides of what waits for what."""
    blocks: dict[TodoId, list[TodoId]] = {todo.id: [] for todo in todos}
    for todo in todos:
        for blocker in waits_for[todo.id]:
            blocks[blocker].append(todo.id)
    return tuple(
        todo.changed(blocked_by=list(waits_for[todo.id]), blocks=blocks[todo.id])
        if todo.blocked_by != waits_for[todo.id] or todo.blocks != blocks[todo.id]
        else todo
        for todo in todos
    )


def _refuse_cycles(waits_for: Mapping[TodoId, Sequence[TodoId]]) -> None:
    """Raises TodoRefused where an item waits for itself, directly or through others."""
    try:
        TopologicalSorter(waits_for).prepare()
    except CycleError as error:
        circle = " → ".join(error.args[1])
        raise TodoRefused(f"These would wait for each other for ever: {circle}.") from None
