"""NotebookEdit: replaces, inserts or deletes one cell of a notebook."""

from pydantic import Field

from ostler.tools.context import SessionView, ToolContext
from ostler.tools.files.editing import diagnostics, mutation, notebook_cells, read_state
from ostler.tools.files.editing.mutation import ChangeOutput, Plan
from ostler.tools.files.editing.notebook_cells import CellEdit, CellType, EditMode
from ostler.tools.formats.notebook import load_notebook
from ostler.tools.fs import paths
from ostler.tools.fs.similar_paths import build_path_filter, describe_missing
from ostler.tools.permissions import EDIT
from ostler.tools.services import FileRead
from ostler.tools.tool import Activity, Block, Check, Failure, Tool, ToolInput, ToolResult, text_block
from ostler.tools.traits import PermissionTraits


class NotebookEditInput(ToolInput):
    """Which cell of which notebook, and what becomes of it."""

    notebook_path: str = Field(description="Absolute path of the notebook.")
    cell_id: str | None = Field(None, description="The cell, by the id that Read shows; with insert, the one before.")
    new_source: str = Field(description="The whole source of the cell; with delete it is ignored.")
    cell_type: CellType | None = Field(None, description="Needed with insert; with replace, another type for the cell.")
    edit_mode: EditMode = Field("replace", description="What to do.")


class NotebookEditOutput(ChangeOutput):
    """What became of a cell."""

    notebook_path: str
    edit_mode: EditMode
    cell_id: str
    cell_type: str
    language: str
    new_source: str
    updated: str | None
    """The notebook's content afterwards; null where it is too long to show."""
    numbered: bool
    """Its cells have no ids of their own, and are counted."""


class NotebookEdit(Tool[NotebookEditInput, NotebookEditOutput]):
    """Replaces, inserts or deletes a cell of a notebook that was read before."""

    name = "NotebookEdit"
    Input = NotebookEditInput
    Output = NotebookEditOutput
    title = "Changes a cell of a Jupyter notebook"
    given_to_agents = "all"
    search_hint = "jupyter ipynb cell replace insert delete"
    deferred = True
    max_result_chars = 100_000
    interrupt = "block"
    permissions = PermissionTraits(path="notebook_path", rule_family=EDIT, denied_code=read_state.DENIED)

    def __init__(self) -> None:
        self._approved = paths.ApprovedPaths()

    def activity(self, given: NotebookEditInput) -> Activity:
        return "edit"

    def is_destructive(self, given: NotebookEditInput) -> bool:
        return given.edit_mode == "delete"

    def summary(self, given: NotebookEditInput) -> str:
        cell = f" {given.cell_id[:100]}" if given.cell_id and given.edit_mode != "insert" else ""
        return f"{given.edit_mode.capitalize()} cell{cell} in {paths.shorten_path(given.notebook_path)}"

    def classifier_text(self, given: NotebookEditInput) -> str:
        return f"{given.notebook_path}\n{given.edit_mode} {given.cell_id or ''}\n{given.new_source}"

    async def validate(self, given: NotebookEditInput, context: ToolContext) -> Failure | None:
        failure = _check_path(given) or notebook_cells.check_edit(_build_cell_edit(given))
        return failure or await mutation.validate_change(
            given.notebook_path, _CellPlanner(given, context.session), context
        )

    async def check_permission(self, given: NotebookEditInput, context: ToolContext) -> Check:
        return await mutation.check_permission(
            given.notebook_path, _CellPlanner(given, context.session), context, self._approved
        )

    async def run(self, given: NotebookEditInput, context: ToolContext) -> ToolResult[NotebookEditOutput] | Failure:
        planner = _CellPlanner(given, context.session)
        written = await mutation.write(given.notebook_path, planner, context, self._approved)
        if isinstance(written, Failure):
            return written
        text = written.plan.text
        output = NotebookEditOutput(
            notebook_path=given.notebook_path,
            edit_mode=given.edit_mode,
            cell_id=planner.cell_id,
            cell_type=planner.cell_type,
            language=planner.language,
            new_source=given.new_source,
            updated=text if len(text) <= mutation.MAX_ORIGINAL_CHARS else None,
            numbered=planner.numbered,
            **await mutation.build_output_fields(given.notebook_path, written, context),
        )
        return ToolResult(output, changes=[mutation.describe_change(given.notebook_path, written)])

    def render(self, output: NotebookEditOutput) -> list[Block]:
        done = {"replace": "Cell replaced", "insert": "Cell inserted", "delete": "Cell deleted"}[output.edit_mode]
        text = f"{done}: {output.cell_id} ({output.cell_type}) in {output.notebook_path}"
        if output.numbered and output.edit_mode != "replace":
            text += "\n(The cells have no ids, and those after it are counted anew.)"
        if output.user_modified:
            text += "\n(The person changed the text before it was written.)"
        return [text_block(text + diagnostics.render_diagnostics(output.diagnostics))]


class _CellPlanner:
    """Plans the new text of the notebook; afterwards its fields say which cell was changed."""

    def __init__(self, given: NotebookEditInput, session: SessionView) -> None:
        self._given = given
        self._session = session
        self.cell_id = ""
        self.cell_type = ""
        self.language = ""
        self.numbered = False

    def __call__(self, place: str, read: FileRead | None) -> Plan | Failure:
        path = self._given.notebook_path
        try:
            notebook = load_notebook(place)
        except FileNotFoundError:
            return Failure(describe_missing(path, build_path_filter(self._session, allowed=False)), read_state.MISSING)
        if read is None:
            return read_state.fail_not_read(path)
        stale = read_state.check_unchanged(path, read, notebook.file)
        changed = stale or notebook_cells.apply_edit(path, notebook, _build_cell_edit(self._given))
        if isinstance(changed, Failure):
            return changed
        self.cell_id, self.cell_type = changed.cell_id, changed.cell_type
        self.language, self.numbered = notebook.language, not notebook.has_ids
        # From the first line on: what Read showed was not the lines of the file.
        return Plan(place, notebook.file, changed.text, first_line=1)


def _check_path(given: NotebookEditInput) -> Failure | None:
    problem = paths.check_form(given.notebook_path)
    if problem is None and not given.notebook_path.lower().endswith(".ipynb"):
        return Failure(
            f"{given.notebook_path[-500:]} is no notebook (.ipynb): change it with Edit.", read_state.NOTEBOOK
        )
    problem = problem or paths.check_length(given.notebook_path)
    return Failure(problem, read_state.RELATIVE) if problem is not None else None


def _build_cell_edit(given: NotebookEditInput) -> CellEdit:
    return CellEdit(given.edit_mode, given.cell_id, given.new_source, given.cell_type)
