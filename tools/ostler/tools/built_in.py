"""The tools that come with the house."""

from typing import Final

from ostler.tools.bash import Bash
from ostler.tools.edit import Edit
from ostler.tools.glob import Glob
from ostler.tools.grep import Grep
from ostler.tools.monitor import Monitor
from ostler.tools.notebook_edit import NotebookEdit
from ostler.tools.powershell import PowerShell
from ostler.tools.read import Read
from ostler.tools.registry import Registry, collect, from_entry_points
from ostler.tools.sleep import Sleep
from ostler.tools.task_output import TaskOutput
from ostler.tools.task_stop import TaskStop
from ostler.tools.testing_permission import TestingPermission
from ostler.tools.tool import AnyTool
from ostler.tools.write import Write

BUILT_IN: Final[tuple[AnyTool, ...]] = (
    Bash(),
    Edit(),
    Glob(),
    Grep(),
    Monitor(),
    NotebookEdit(),
    PowerShell(),
    Read(),
    Sleep(),
    TaskOutput(),
    TaskStop(),
    TestingPermission(),
    Write(),
)


def load_registry() -> Registry:
    """All tools that there are: ours, and those of installed plug-ins."""
    return collect(BUILT_IN, from_entry_points())
