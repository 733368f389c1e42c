"""Write: creates a file, or replaces its whole content."""

import os

from pydantic import Field

from ostler.tools.context import ToolContext
from ostler.tools.files.editing import mutation, notebook_create, read_state
from ostler.tools.files.editing.mutation import ChangeOutput, Plan
from ostler.tools.fs import paths
from ostler.tools.fs.text_file import TextFile
from ostler.tools.permissions import EDIT
from ostler.tools.services import FileRead
from ostler.tools.tool import Activity, Block, Check, Failure, Tool, ToolInput, ToolResult
from ostler.tools.traits import PermissionTraits


class WriteInput(ToolInput):
    """Which file, and all that it shall hold."""

    file_path: str = Field(description="Absolute path of the file.")
    content: str = Field(description="The whole content.")


class WriteOutput(ChangeOutput):
    """What was written."""


class Write(Tool[WriteInput, WriteOutput]):
    """Creates a file, or replaces one that was read before."""

    name = "Write"
    Input = WriteInput
    Output = WriteOutput
    title = "Creates a file, or replaces all of it"
    given_to_agents = "all"
    search_hint = "create save new file overwrite content"
    strict = True
    max_result_chars = 100_000
    interrupt = "block"
    permissions = PermissionTraits(path="file_path", rule_family=EDIT, denied_code=read_state.DENIED)

    def __init__(self) -> None:
        self._approved = paths.ApprovedPaths()

    def activity(self, given: WriteInput) -> Activity:
        return "edit"

    def is_destructive(self, given: WriteInput) -> bool:
        if mutation.is_unc(given.file_path):
            return True
        return os.path.lexists(given.file_path) if "\0" not in given.file_path else False

    def summary(self, given: WriteInput) -> str:
        return f"Write {paths.shorten_path(given.file_path)}"

    def classifier_text(self, given: WriteInput) -> str:
        return f"{given.file_path}\n{given.content}"

    async def validate(self, given: WriteInput, context: ToolContext) -> Failure | None:
        failure = mutation.check_path(given.file_path)
        return failure or await mutation.validate_change(given.file_path, _build_planner(given), context)

    async def check_permission(self, given: WriteInput, context: ToolContext) -> Check:
        return await mutation.check_permission(given.file_path, _build_planner(given), context, self._approved)

    async def run(self, given: WriteInput, context: ToolContext) -> ToolResult[WriteOutput] | Failure:
        written = await mutation.write(given.file_path, _build_planner(given), context, self._approved)
        if isinstance(written, Failure):
            return written
        output = WriteOutput(**await mutation.build_output_fields(given.file_path, written, context))
        return ToolResult(output, changes=[mutation.describe_change(given.file_path, written)])

    def render(self, output: WriteOutput) -> list[Block]:
        return mutation.render_output(output)


def _build_planner(given: WriteInput) -> mutation.Planner:
    def plan(place: str, read: FileRead | None) -> Plan | Failure:
        before = mutation.load_if_there(place)
        refused = notebook_create.check_write(given.file_path, place, before, given.content)
        if refused is not None:
            return refused
        if before is None:
            return Plan(place, None, given.content)
        if notebook_create.is_notebook(given.file_path, place):  # and empty: Read cannot show it, and nothing is lost
            return Plan(place, before, _strip_second_bom(given.content, before))
        if read is None:
            return read_state.fail_not_read(given.file_path)
        failure = read_state.check_unchanged(given.file_path, read, before) or read_state.check_fully_read(
            given.file_path, read
        )
        return failure or Plan(place, before, _strip_second_bom(given.content, before))

    return plan


def _strip_second_bom(content: str, before: TextFile) -> str:
    """The file keeps its byte order mark, so one at the start of the new content is dropped: it would be a second."""
    return content.removeprefix("\ufeff") if before.encoding.bom else content
