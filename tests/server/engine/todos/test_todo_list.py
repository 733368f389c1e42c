"""A work list as a value: ids, both sides of what waits for what, circles, and its bounds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.protocol.ids import TodoId
from ostler.protocol.todo import Todo
from ostler.server.engine.todos.todo_list import MAX_ITEMS, TodoList
from ostler.tools.services import TodoEdit, TodoRefused

A, B, C = TodoId("1"), TodoId("2"), TodoId("3")


def make_list(*subjects: str) -> TodoList:
    found = TodoList()
    for subject in subjects:
        found, _ = found.add(TodoEdit({"subject": subject}))
    return found


def blockers(todos: TodoList) -> dict[str, list[TodoId]]:
    return {todo.id: todo.blocked_by for todo in todos.todos}


def test_a_number_is_given_once_also_after_its_item_was_deleted() -> None:
    after = make_list("hay", "oats").remove(B)
    after, new = after.add(TodoEdit({"subject": "water"}))
    assert [todo.id for todo in after.todos] == ["1", "3"]
    assert new.subject == "water"


def test_what_waits_for_what_stands_on_both_sides() -> None:
    after = make_list("a", "b", "c").change(C, TodoEdit(add_blocked_by=(A, B, A)))
    assert blockers(after) == {"1": [], "2": [], "3": ["1", "2"]}
    assert [todo.blocks for todo in after.todos] == [["3"], ["3"], []]
    after = after.change(A, TodoEdit(blocks=[B]))
    assert blockers(after) == {"1": [], "2": ["1"], "3": ["2"]}
    after = after.change(C, TodoEdit(blocked_by=[]))
    assert blockers(after) == {"1": [], "2": ["1"], "3": []}
    assert blockers(after.remove(A)) == {"2": [], "3": []}


@pytest.mark.parametrize(
    ("first", "second", "circle"),
    [
        ((A, TodoEdit(add_blocked_by=(A,))), None, "1 → 1"),
        ((A, TodoEdit(add_blocks=(A,))), None, "1 → 1"),
        ((B, TodoEdit(add_blocked_by=(A,))), (A, TodoEdit(add_blocked_by=(B,))), "1 → 2 → 1"),
        ((B, TodoEdit(add_blocked_by=(A,))), (A, TodoEdit(blocked_by=(C,), add_blocks=(C,))), "1 → 3 → 1"),
    ],
)
def test_a_circle_is_refused_and_named(first: Any, second: Any, circle: str) -> None:
    todos = make_list("a", "b", "c")
    if second is not None:
        todos = todos.change(*first)
    with pytest.raises(TodoRefused, match="wait for each other for ever") as refused:
        todos.change(*(second or first))
    named = str(refused.value).rsplit(": ", 1)[1].rstrip(".").split(" → ")
    wanted = circle.split(" → ")
    assert named[0] == named[-1]
    assert set(named) == set(wanted)


def test_items_that_do_not_exist_are_refused_by_name() -> None:
    todos = make_list("a")
    for edit in (TodoEdit(add_blocks=(C,)), TodoEdit(blocked_by=(C,))):
        with pytest.raises(TodoRefused, match=r"no todo '3'\. The list has 1\.") as refused:
            todos.change(A, edit)
        assert refused.value.missing == C
    with pytest.raises(TodoRefused, match="The list is empty"):
        TodoList().remove(A)


def test_metadata_is_joined_and_null_takes_a_key_out() -> None:
    todos = make_list("a").change(A, TodoEdit(metadata={"x": 1, "y": 2})).change(A, TodoEdit(metadata={"x": None}))
    assert todos.get(A).metadata == {"y": 2}


def test_an_owner_is_set_only_where_there_is_none() -> None:
    todos = make_list("a", "b", "c").change(A, TodoEdit({"owner": "bob"}))
    todos = todos.change(A, TodoEdit(claims=True)).change(B, TodoEdit(claims=True))
    todos = todos.change(C, TodoEdit(claims=True), "scout")
    assert [todo.owner for todo in todos.todos] == ["bob", "main", "scout"]


def test_a_list_has_bounds() -> None:
    full = TodoList().replace_all([Todo(id=TodoId(""), subject="x")] * MAX_ITEMS)
    with pytest.raises(TodoRefused, match="takes 500 items"):
        full.add(TodoEdit({"subject": "one more"}))
    with pytest.raises(TodoRefused, match="longer than 512 KB"):
        make_list("a").change(A, TodoEdit({"description": "x" * 600_000}))


def test_a_written_list_keeps_the_ids_that_it_has_and_numbers_the_others() -> None:
    written = [Todo(id=TodoId("2"), subject="b"), Todo(id=TodoId(""), subject="a"), Todo(id=TodoId(""), subject="c")]
    todos = TodoList().replace_all(written)
    assert [(todo.id, todo.subject) for todo in todos.todos] == [("2", "b"), ("1", "a"), ("3", "c")]
    assert todos.add(TodoEdit({"subject": "d"}))[1].id == "4"
    again = todos.replace_all([Todo(id=TodoId(""), subject="c"), Todo(id=TodoId(""), subject="new")])
    assert [(todo.id, todo.subject) for todo in again.todos] == [("3", "c"), ("4", "new")]
    with pytest.raises(TodoRefused, match="same id"):
        todos.replace_all([written[0], written[0]])


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6), st.sampled_from(["blocks", "waits", "remove"]))))
def test_whatever_is_done_both_sides_agree_and_nothing_waits_for_itself(steps: list[tuple[int, int, str]]) -> None:
    todos = make_list(*"abcdef")
    for one, other, kind in steps:
        first, second = TodoId(str(one)), TodoId(str(other))
        try:
            if kind == "remove":
                todos = todos.remove(first)
            elif kind == "blocks":
                todos = todos.change(first, TodoEdit(add_blocks=(second,)))
            else:
                todos = todos.change(first, TodoEdit(add_blocked_by=(second,)))
        except TodoRefused:
            continue
    by_id = {todo.id: todo for todo in todos.todos}
    for todo in todos.todos:
        assert all(todo.id in by_id[each].blocks for each in todo.blocked_by)
        assert all(todo.id in by_id[each].blocked_by for each in todo.blocks)
        reached: set[TodoId] = set()
        left = list(todo.blocked_by)
        while left:
            each = left.pop()
            if each not in reached:
                reached.add(each)
                left += by_id[each].blocked_by
        assert todo.id not in reached
