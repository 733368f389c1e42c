"""Plans an edit: the new text of the file, or why the edit is not possible."""

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from ostler.tools.context import SessionView
from ostler.tools.files.editing import mutation, notebook_create, read_state, text_match
from ostler.tools.files.editing.mutation import Plan
from ostler.tools.files.editing.nearest_passage import find_closest_passage
from ostler.tools.files.editing.text_match import Replacement
from ostler.tools.fs.similar_paths import build_path_filter, describe_missing
from ostler.tools.fs.text_file import TextFile
from ostler.tools.services import FileRead
from ostler.tools.tool import Failure, ToolInput


class EditInput(ToolInput):
    """Which passage of which file, and what comes in its place."""

    file_path: str = Field(description="Absolute path of the file.")
    old_string: str = Field(description="The text to replace, exactly as it stands in the file.")
    new_string: str = Field(description="The text that comes in its place.")
    replace_all: bool = Field(False, description="Replace every occurrence instead of the only one.")


@dataclass(frozen=True, slots=True)
class EditPlanner:
    """Reads the file as it is now, and plans its new text."""

    given: EditInput
    session: SessionView

    @property
    def edit_input(self) -> dict[str, Any]:
        return self.given.model_dump()

    def __call__(self, place: str, read: FileRead | None, /) -> Plan | Failure:
        given = self.given
        if given.old_string and notebook_create.is_notebook(given.file_path, place):
            return notebook_create.refuse_edit(given.file_path, place)
        before = mutation.load_if_there(place)
        if given.old_string == "":
            return notebook_create.check_write(given.file_path, place, before, given.new_string) or _plan_fill(
                given, place, before
            )
        if before is None:
            known = build_path_filter(self.session, allowed=False)
            return Failure(describe_missing(given.file_path, known), read_state.MISSING)
        if read is None:
            return read_state.fail_not_read(given.file_path)
        stale = read_state.check_unchanged(given.file_path, read, before)
        return stale or _plan_replacement(given, place, before)


def _plan_fill(given: EditInput, place: str, before: TextFile | None) -> Plan | Failure:
    if before is not None and before.text:
        return Failure(
            f"old_string is empty, but {given.file_path} is not: give the text that is to be replaced.",
            read_state.NOT_FOUND,
        )
    return Plan(place, before, given.new_string, None, "", given.new_string)


def _plan_replacement(given: EditInput, place: str, before: TextFile) -> Plan | Failure:
    try:
        places = text_match.find_replacements(before.text, given.old_string, given.new_string)
    except text_match.TooManyMatches:
        words = (
            f"old_string occurs more than {text_match.MAX_REPLACEMENTS} times in {given.file_path}, which is the most."
        )
        return Failure(f"{words} Replace a longer text, or do it with a command, as `sed -i`.", read_state.AMBIGUOUS)
    if not places:
        return _fail_not_found(given, before)
    if len(places) > 1 and not given.replace_all:
        return _fail_ambiguous(given, before, places)
    first, text = places[0], text_match.apply_replacements(before.text, places)
    if text == before.text:
        return _fail_unchanged(given)
    return Plan(
        place,
        before,
        text,
        text_match.get_line_number(before.text, first.start),
        before.text[first.start : first.end],
        first.new,
    )


def _fail_unchanged(given: EditInput) -> Failure:
    return Failure(
        f"Nothing would change in {given.file_path}: it keeps the line ends and the style of quotes that it has. "
        "Line ends are changed with a command, as `sed -i 's/\\r$//'`, "
        "and quotes where old_string has them as the file does.",
        read_state.SAME,
    )


def _fail_not_found(given: EditInput, before: TextFile) -> Failure:
    passage = find_closest_passage(before.text, given.old_string)
    hint = f" The closest passage is:\n{passage}" if passage else " Nothing in it comes close."
    return Failure(f"old_string does not occur in {given.file_path}.{hint}", read_state.NOT_FOUND)


def _fail_ambiguous(given: EditInput, before: TextFile, places: list[Replacement]) -> Failure:
    lines = ", ".join(str(text_match.get_line_number(before.text, place.start)) for place in places[:10])
    more = ", …" if len(places) > 10 else ""
    return Failure(
        f"old_string occurs {len(places)} times in {given.file_path} (lines {lines}{more}). "
        "Give more of the text around the one that you mean, or set replace_all.",
        read_state.AMBIGUOUS,
    )
