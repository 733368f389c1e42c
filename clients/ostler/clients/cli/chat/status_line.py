"""The status line below the typed one: model, mode, folder, how full the window is, cost, and what else goes on."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from ostler.clients.cli.output import fit, format_count
from ostler.clients.cli.render.ask_line import abbreviate_home
from ostler.clients.cli.render.blocks.rows import Row, Run, clean, fit_row, make_row, measure_row
from ostler.clients.sdk.errors import ClientError
from ostler.protocol.client import ClientList
from ostler.protocol.errors import ProtocolError
from ostler.protocol.methods import CLIENT_LIST, SESSION_CONTEXT, TASK_LIST
from ostler.protocol.session import Session, SessionRef
from ostler.protocol.shapes import Usage
from ostler.protocol.task import TaskList

if TYPE_CHECKING:
    from ostler.clients import Ostler

_BAR_CELLS: Final = 8
_FULL: Final = 0.8
"""A window that is fuller is shown in a warning's colour."""
_BRANCH_WIDTH: Final = 30
_FOLDER_WIDTH: Final = 40


class StatusLine:
    """What stands below the line; what costs a question to the daemon is asked for when something has changed."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.agents = 0
        self.vi_mode = ""
        self._cost = session.usage.cost_usd
        self._turn_cost: str | None = None
        self._branch: str | None = None
        self._used: float | None = None
        self._tasks = 0
        self._others = 0

    def apply_usage(self, turn: Usage, session: Usage) -> None:
        self._turn_cost, self._cost = turn.cost_usd, session.cost_usd

    async def refresh(self, ostler: "Ostler") -> None:
        """Ask for what no event tells."""
        session_id = self.session.id
        self._branch = await anyio.to_thread.run_sync(find_branch, Path(self.session.cwd))
        try:
            tasks = await ostler.call(TASK_LIST, TaskList(session_id=session_id, status="running"))
            clients = await ostler.call(CLIENT_LIST, ClientList(session_id=session_id))
            window = await ostler.call(SESSION_CONTEXT, SessionRef(session_id=session_id))
        except (ClientError, ProtocolError):
            return  # what is known stays
        self._tasks = len(tasks.tasks)
        self._others = sum(client.id != ostler.daemon.client_id for client in clients.clients)
        self._used = window.used / window.window if window.window else None

    def render(self, columns: int) -> list[Row]:
        """One row; what there is no room for is left out from its end."""
        parts = [*self._list_parts()]
        row: list[Run] = list(make_row(("  ", "")))
        for at, part in enumerate(parts):
            further = [*(make_row((" · ", "dim")) if at else ()), *part]
            if measure_row([*row, *further]) > columns:
                break
            row += further
        return [fit_row(row, columns)]

    def _list_parts(self) -> list[Row]:
        session = self.session
        folder = abbreviate_home(session.cwd)
        shown = folder if len(folder) <= _FOLDER_WIDTH else f"…{folder[-_FOLDER_WIDTH:]}"
        branch = f" ({fit(clean(self._branch), _BRANCH_WIDTH)})" if self._branch else ""
        cost = self._format_cost()
        facts = [
            (self.vi_mode, "dim"),
            (clean(session.model), "dim"),
            (session.mode, "dim" if session.mode == "default" else "yellow"),
            (f"{clean(shown)}{branch}", "dim"),
        ]
        more = [
            (cost, "dim"),
            (format_count(self._tasks, "task") if self._tasks else "", "cyan"),
            (format_count(self.agents, "agent") if self.agents else "", "cyan"),
            (f"{format_count(self._others, 'other')} here" if self._others else "", "cyan"),
        ]
        rows = [make_row(fact) for fact in facts if fact[0]]
        if self._used is not None:
            rows.append(_render_bar(self._used))
        return [*rows, *(make_row(fact) for fact in more if fact[0])]

    def _format_cost(self) -> str:
        if self._cost is None or float(self._cost) == 0:
            return ""
        turn = f" (+{float(self._turn_cost):.2f})" if self._turn_cost and float(self._turn_cost) >= 0.01 else ""
        return f"${float(self._cost):.2f}{turn}"


def _render_bar(used: float) -> Row:
    cells = min(_BAR_CELLS, round(used * _BAR_CELLS))
    return make_row(
        ("█" * cells, "yellow" if used >= _FULL else "bar"),
        ("░" * (_BAR_CELLS - cells), "dim"),
        (f" {used:.0%}", "yellow" if used >= _FULL else "dim"),
    )


def find_branch(folder: Path) -> str | None:
    """The branch that is checked out in a folder, or the beginning of its commit; None outside of git."""
    for parent in (folder, *folder.parents):
        try:
            git = parent / ".git"
            if git.is_file():
                git = parent / git.read_text("utf-8").partition("gitdir: ")[2].strip()
            head = (git / "HEAD").read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:8]
    return None
