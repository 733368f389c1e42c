"""What survives a summary word for word, whatever the model wrote: requests, mode, plan, list, tasks, agents, files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ostler.protocol.shapes import Task
from ostler.protocol.todo import Todo
from ostler.server.engine.context.clearing import SKILL_TOOL
from ostler.server.engine.context.rows import Row
from ostler.server.engine.context.transcript import cut_middle
from ostler.server.engine.session.live import LiveSession
from ostler.server.prompt.bounded_read import Unreadable, read_beginning
from ostler.server.prompt.environment import EnvironmentFacts, to_printable
from ostler.server.prompt.reminders import describe_mode, is_ours
from ostler.storage import Snapshot
from ostler.tools.permissions.plan_file import build_plan_path
from ostler.tools.text import one_line
from ostler.tools.threads import read_in_thread
from ostler.tools.token_estimate import BYTES_PER_TOKEN

_REQUEST_CHARS: Final = 12_000
_FIRST_REQUEST_CHARS: Final = 4_000
_PLAN_CHARS: Final = 12_000
_TODOS: Final = 100
_TASKS: Final = 50
_DEFERRAL: Final = "deferral"
"""Where the session's state names the tools that were loaded."""
_FILES: Final = 5
_FILE_TOKENS: Final = 5_000
"""Of one file."""
_ALL_FILE_TOKENS: Final = 12_000
_FILES_SHARE: Final = 10
"""All files take no more than this part of the window."""


@dataclass(frozen=True, slots=True)
class StoredSurvivors:
    """What is read of the database, in one snapshot."""

    first_request: str | None
    todos: Sequence[Todo]
    tasks: Sequence[Task]
    agents: Sequence[str]
    """Of those that have ended: a line each."""


def read_survivors(snapshot: Snapshot, live: LiveSession) -> StoredSurvivors:
    session_id = live.record.id
    beginning = snapshot.messages.list_page(session_id, 0, 1).messages
    texts = [getattr(block, "text", "") for message in beginning for block in message.content if block.type == "text"]
    tasks = [record.task for record in snapshot.tasks.list_by_sessions([session_id])]
    return StoredSurvivors(
        first_request="\n".join(text for text in texts if not is_ours(text)) or None,
        todos=snapshot.todos.get(session_id).todos,
        tasks=[task for task in tasks if task.status in {"pending", "running"}][:_TASKS],
        agents=[_format_ended(task) for task in tasks if task.type == "local_agent" and task.ended_at][-_TASKS:],
    )


def find_last_request(rows: Sequence[Row]) -> str | None:
    """The words of the person's that came last."""
    for row in reversed(rows):
        if row.role != "user":
            continue
        texts = [str(block["text"]) for block in row.blocks if block["type"] == "text" and not is_ours(block["text"])]
        if texts:
            return "\n".join(texts)
    return None


async def render_survivors(
    live: LiveSession,
    stored: StoredSurvivors,
    rows: Sequence[Row],
    last_request: str | None,
    facts: EnvironmentFacts | None,
    window: int,
) -> str:
    """The part of a summary that no model writes."""
    most = window * BYTES_PER_TOKEN // 8
    parts = [*_render_requests(stored.first_request, last_request, most)]
    parts.append("# As it is now\n\n" + "\n".join(_list_facts(live, facts)))
    parts += await read_in_thread(_render_plan, live, most)
    parts += _render_list("Tools that you loaded; where you miss one, load it again", list_loaded_tools(live), _TODOS)
    parts += _render_list("Skills that you used; call Skill again to read one", list_skills(rows), _TASKS)
    parts += _render_list("Your work list", [_format_todo(todo) for todo in stored.todos], _TODOS)
    parts += _render_list("What runs in the background", [_format_task(task) for task in stored.tasks], _TASKS)
    parts += _render_list("Agents that have ended; TaskOutput shows their reports", list(stored.agents), _TASKS)
    parts += await read_in_thread(_render_files, live, min(_ALL_FILE_TOKENS, window // _FILES_SHARE))
    return "\n\n".join(parts)


def list_loaded_tools(live: LiveSession) -> list[str]:
    """By name: what they are stands in the tools of the next turn, or is found again."""
    loaded = (live.state.get(_DEFERRAL) or {}).get("loaded") or ()
    return [f"- {to_printable(name)}" for name in loaded]


def list_skills(rows: Sequence[Row]) -> list[str]:
    """Those that the conversation has called, each once, the last ones last."""
    used = [
        (str(block["input"].get("skill") or block["input"].get("command") or ""), str(block["input"].get("args") or ""))
        for row in rows
        for block in row.blocks
        if block["type"] == "tool_use" and block["name"] == SKILL_TOOL
    ]
    return [f"- {_quote(one_line(f'{name} {args}', 200), 300)}" for name, args in dict.fromkeys(used) if name]


def _render_requests(first: str | None, last: str | None, most: int) -> Iterator[str]:
    if first is not None and first != last:
        yield f"# The first request, in the person's words\n\n{_quote(first, min(most, _FIRST_REQUEST_CHARS))}"
    if last is not None:
        yield f"# The last request, in the person's words\n\n{_quote(last, min(most, _REQUEST_CHARS))}"


def _list_facts(live: LiveSession, facts: EnvironmentFacts | None) -> Iterator[str]:
    view = live.view
    yield f"- Working directory: {to_printable(view.shell_folder)}"
    for folder in live.directories:
        yield f"- Further folder: {to_printable(folder)}"
    if facts is None:
        yield f"- Permission mode: {live.mode}"
        return
    yield f"- Permission mode: {describe_mode(facts)}"
    yield f"- Date: {facts.date}"
    if facts.git_root is not None:
        yield f"- Git: repository {to_printable(facts.git_root)}, {facts.branch_words}"


def _render_plan(live: LiveSession, most: int) -> list[str]:
    home = live.shared.home
    if not home:
        return []
    path = build_plan_path(home, live.record.id)
    try:
        found = read_beginning(path, (home,), min(most, _PLAN_CHARS))
    except Unreadable:
        return []
    return [f"# Your plan ({to_printable(path)})\n\n{_quote(found.text, _PLAN_CHARS)}"] if found.text.strip() else []


def _render_list(title: str, lines: Sequence[str], most: int) -> list[str]:
    if not lines:
        return []
    more = [f"- and {len(lines) - most} more"] if len(lines) > most else []
    return ["\n".join([f"# {title}", "", *lines[:most], *more])]


def _format_todo(todo: Todo) -> str:
    waits = f", waits for {', '.join(todo.blocked_by)}" if todo.blocked_by else ""
    owner = f", {todo.owner}" if todo.owner else ""
    return f"- {todo.id}. {_quote(one_line(todo.subject, 200), 300)} ({todo.status}{owner}{waits})"


def _format_task(task: Task) -> str:
    what = _quote(one_line(task.command or task.description, 300), 400)
    agent = f", agent {task.agent_id}" if task.agent_id else ""
    read = f"; you have read {task.output_offset:,} bytes of what it printed" if task.output_offset else ""
    return f"- {task.id} ({task.type}, {task.status}{agent}, since {task.started_at}): {what}{read}"


def _format_ended(task: Task) -> str:
    return f"- {task.id}, agent {task.agent_id} ({task.status}): {_quote(one_line(task.description, 200), 300)}"


def _render_files(live: LiveSession, tokens: int) -> list[str]:
    """The files that were read last, as they are now; each once, and only what may still be read."""
    left, blocks = tokens * BYTES_PER_TOKEN, list[str]()
    for path, read in live.reads.list_latest(_FILES * 4):
        if len(blocks) == _FILES or left < 200 or not read.total_lines:
            break
        if live.view.may_read is not None and not live.view.may_read(path):
            continue
        try:
            found = read_beginning(path, live.view.roots, min(left, _FILE_TOKENS * BYTES_PER_TOKEN))
        except (Unreadable, OSError):
            continue
        text = found.text if found.whole else found.text.rpartition("\n")[0]
        if not text.strip():
            continue
        cut = "" if found.whole else f' shown="the first {text.count(chr(10)) + 1} lines"'
        left -= len(text.encode())
        blocks.append(f'<ostler-file path="{to_printable(path)}"{cut}>\n{_quote(text, len(text))}\n</ostler-file>')
    if not blocks:
        return []
    return ["# Files that you read last, as they are now; Read shows more of them", *blocks]


def _quote(text: str, most: int) -> str:
    """Text that cannot pass for a tag of ours."""
    return cut_middle(text, most).replace("<ostler-", "< ostler-").replace("</ostler-", "< /ostler-")
