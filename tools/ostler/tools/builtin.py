"""The list of built-in tools, and the registry of them with those of installed plug-ins."""

from typing import Final

from ostler.tools.agents.agent import Agent
from ostler.tools.discovery.skill import Skill
from ostler.tools.discovery.tool_search import ToolSearch
from ostler.tools.files.edit import Edit
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.write import Write
from ostler.tools.interaction.ask_user_question import AskUserQuestion
from ostler.tools.interaction.send_user_message import SendUserMessage
from ostler.tools.mcp.list_resources import ListMcpResources
from ostler.tools.mcp.read_resource import ReadMcpResource
from ostler.tools.plan.enter_plan_mode import EnterPlanMode
from ostler.tools.plan.exit_plan_mode import ExitPlanMode
from ostler.tools.registry import Registry, collect, from_entry_points
from ostler.tools.search.glob import Glob
from ostler.tools.search.grep import Grep
from ostler.tools.shell.bash import Bash
from ostler.tools.shell.powershell import PowerShell
from ostler.tools.tasks.monitor import Monitor
from ostler.tools.tasks.sleep import Sleep
from ostler.tools.tasks.task_output import TaskOutput
from ostler.tools.tasks.task_stop import TaskStop
from ostler.tools.testing.testing_permission import TestingPermission
from ostler.tools.todos.task_create import TaskCreate
from ostler.tools.todos.task_get import TaskGet
from ostler.tools.todos.task_list import TaskList
from ostler.tools.todos.task_update import TaskUpdate
from ostler.tools.todos.todo_write import TodoWrite
from ostler.tools.tool import AnyTool
from ostler.tools.web.web_fetch import WebFetch
from ostler.tools.web.web_search import WebSearch
from ostler.tools.worktree.enter_worktree import EnterWorktree
from ostler.tools.worktree.exit_worktree import ExitWorktree

BUILT_IN: Final[tuple[AnyTool, ...]] = (
    Agent(),
    AskUserQuestion(),
    Bash(),
    Edit(),
    EnterPlanMode(),
    EnterWorktree(),
    ExitPlanMode(),
    ExitWorktree(),
    Glob(),
    Grep(),
    ListMcpResources(),
    Monitor(),
    NotebookEdit(),
    PowerShell(),
    Read(),
    ReadMcpResource(),
    SendUserMessage(),
    Skill(),
    Sleep(),
    TaskCreate(),
    TaskGet(),
    TaskList(),
    TaskOutput(),
    TaskStop(),
    TaskUpdate(),
    TestingPermission(),
    TodoWrite(),
    ToolSearch(),
    WebFetch(),
    WebSearch(),
    Write(),
)


def load_registry() -> Registry:
    """All tools that there are: ours, and those of installed plug-ins."""
    return collect(BUILT_IN, from_entry_points())
