"""Edit: replaces one passage of a file by another."""

from ostler.tools.context import ToolContext
from ostler.tools.files.editing import mutation, read_state
from ostler.tools.files.editing.edit_plan import EditInput, EditPlanner
from ostler.tools.files.editing.mutation import ChangeOutput
from ostler.tools.fs import paths
from ostler.tools.permissions import EDIT
from ostler.tools.tool import Activity, Block, Check, Failure, Tool, ToolResult
from ostler.tools.traits import PermissionTraits


class EditOutput(ChangeOutput):
    """What was changed."""

    old_string: str
    """As it stood in the file."""
    new_string: str
    """As it was written."""
    replace_all: bool


class Edit(Tool[EditInput, EditOutput]):
    """Replaces a passage of a file that was read before."""

    name = "Edit"
    Input = EditInput
    Output = EditOutput
    title = "Replaces a passage of a file"
    given_to_agents = "all"
    search_hint = "replace change modify text passage file"
    strict = True
    in_minimal = True
    max_result_chars = 100_000
    interrupt = "block"
    permissions = PermissionTraits(path="file_path", rule_family=EDIT, denied_code=read_state.DENIED)

    def __init__(self) -> None:
        self._approved = paths.ApprovedPaths()

    def activity(self, given: EditInput) -> Activity:
        return "edit"

    def summary(self, given: EditInput) -> str:
        return f"Edit {paths.shorten_path(given.file_path)}"

    def classifier_text(self, given: EditInput) -> str:
        return f"{given.file_path}\n- {given.old_string}\n+ {given.new_string}"

    async def validate(self, given: EditInput, context: ToolContext) -> Failure | None:
        failure = mutation.check_path(given.file_path)
        if failure is not None:
            return failure
        if given.old_string == given.new_string:
            return Failure("old_string and new_string are the same: there is nothing to change.", read_state.SAME)
        return await mutation.validate_change(given.file_path, EditPlanner(given, context.session), context)

    async def check_permission(self, given: EditInput, context: ToolContext) -> Check:
        return await mutation.check_permission(
            given.file_path, EditPlanner(given, context.session), context, self._approved
        )

    async def run(self, given: EditInput, context: ToolContext) -> ToolResult[EditOutput] | Failure:
        written = await mutation.write(given.file_path, EditPlanner(given, context.session), context, self._approved)
        if isinstance(written, Failure):
            return written
        output = EditOutput(
            old_string=written.plan.old_string,
            new_string=written.plan.new_string,
            replace_all=given.replace_all,
            **await mutation.build_output_fields(given.file_path, written, context),
        )
        return ToolResult(output, changes=[mutation.describe_change(given.file_path, written)])

    def render(self, output: EditOutput) -> list[Block]:
        return mutation.render_output(output)
