"""What the tools for files and searches declare: names, parameters, outputs, limits, and instructions to the model."""

from typing import Any

import pytest

from ostler.tools.files.edit import Edit
from ostler.tools.files.notebook_edit import NotebookEdit
from ostler.tools.files.read import Read
from ostler.tools.files.reading.output import TextOutput
from ostler.tools.files.write import Write
from ostler.tools.search.glob import Glob
from ostler.tools.search.grep import Grep
from ostler.tools.shell.bash import Bash
from ostler.tools.tool import AnyTool, ToolOutput
from tests.support.tables import try_each
from tests.support.tool_calls import Session

READ, WRITE, EDIT, NOTEBOOK, GLOB, GREP = Read(), Write(), Edit(), NotebookEdit(), Glob(), Grep()
TOOLS = [READ, WRITE, EDIT, NOTEBOOK, GLOB, GREP]
EXAMPLES: dict[str, dict[str, Any]] = {
    "Read": {"file_path": "/a"},
    "Write": {"file_path": "/a", "content": ""},
    "Edit": {"file_path": "/a", "old_string": "a", "new_string": "b"},
    "NotebookEdit": {"notebook_path": "/a.ipynb", "new_source": ""},
    "Glob": {"pattern": "*"},
    "Grep": {"pattern": "a"},
}


@pytest.mark.parametrize(
    ("tool", "strict", "most", "deferred", "interrupt", "activity"),
    [
        (READ, True, None, False, "cancel", "read"),
        (WRITE, True, 100_000, False, "block", "edit"),
        (EDIT, True, 100_000, False, "block", "edit"),
        (NOTEBOOK, False, 100_000, True, "block", "edit"),
        (GLOB, False, 30_000, False, "cancel", "list"),
        (GREP, True, 20_000, False, "cancel", "search"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_each_tool_declares_what_it_is(
    tool: AnyTool, strict: bool, most: int | None, deferred: bool, interrupt: str, activity: str
) -> None:
    assert (tool.strict, tool.max_result_chars, tool.deferred, tool.interrupt) == (strict, most, deferred, interrupt)
    given = tool.parse(EXAMPLES[tool.name])
    assert tool.activity(given) == activity
    assert tool.is_read_only(given) is tool.is_concurrency_safe(given) is (activity != "edit")
    assert not tool.permissions.requires_user
    assert not tool.is_destructive(given)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_search_hint_has_three_to_ten_words_none_of_them_in_the_name(tool: AnyTool) -> None:
    words = tool.search_hint.lower().split()
    assert 3 <= len(words) <= 10
    assert not [word for word in words if word in tool.name.lower()]


@pytest.mark.parametrize(
    ("tool", "needed", "optional"),
    [
        (READ, ["file_path"], {"offset": None, "limit": None, "pages": None}),
        (WRITE, ["file_path", "content"], {}),
        (EDIT, ["file_path", "old_string", "new_string"], {"replace_all": False}),
        (NOTEBOOK, ["notebook_path", "new_source"], {"cell_id": None, "cell_type": None, "edit_mode": "replace"}),
        (GLOB, ["pattern"], {"path": None}),
        (
            GREP,
            ["pattern"],
            {
                **dict.fromkeys(("path", "glob", "type", "-A", "-B", "-C", "context")),
                **{"output_mode": "files_with_matches", "-n": True, "-i": False, "head_limit": 250, "offset": 0},
                "multiline": False,
            },
        ),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_parameters_have_the_names_and_defaults_that_models_know(
    tool: AnyTool, needed: list[str], optional: dict[str, Any], session: Session
) -> None:
    schema = tool.input_schema(session.view)
    assert schema["required"] == needed
    found = {name: field.get("default") for name, field in schema["properties"].items() if name not in needed}
    assert found == optional
    assert all(field["description"] for field in schema["properties"].values())


@try_each(
    ("output", "names"),
    [
        (TextOutput, "kind content num_lines start_line total_lines"),
        (WRITE.Output, "kind file_path structured_patch original git_diff"),
        (
            EDIT.Output,
            "file_path old_string new_string original structured_patch replace_all user_modified git_diff",
        ),
        (
            NOTEBOOK.Output,
            "new_source cell_id cell_type language edit_mode notebook_path original updated",
        ),
        (GLOB.Output, "filenames num_files truncated duration_ms"),
        (GREP.Output, "mode num_files filenames content num_lines num_matches applied_limit applied_offset"),
    ],
)
def test_outputs_have_the_fields_that_clients_know(output: type[ToolOutput], names: str) -> None:
    assert set(names.split()) <= set(output.model_fields)


def test_the_descriptions_carry_the_house_rules(session: Session) -> None:
    bash, edit, write = (tool.description(session.view) for tool in (Bash(), EDIT, WRITE))
    for words in (
        "use Read, Glob, Grep, Edit and Write rather than",
        "only when asked to",
        "Never change git's configuration",
        "--no-verify",
        "force-push or amend",
        "Add files by name",
    ):
        assert words in bash
    assert "only when they were asked for" in write
    assert "only what the work needs" in edit


def test_the_descriptions_say_what_these_tools_do_and_do_not(session: Session) -> None:
    def words(tool: AnyTool) -> str:
        return tool.description(session.view)

    assert "Write and Edit also create new ones" in words(READ)
    assert "Links are skipped" in words(GLOB)
    assert "links and what .gitignore names are left out" in words(GREP)
    assert "look-around" in words(GREP)
    assert "cut after 500 characters" in words(GREP)
    assert "A new notebook is made with Write" in words(NOTEBOOK)
    assert "missing or empty is created from its JSON" in words(WRITE)


@try_each(
    ("tool", "given", "summary", "classified"),
    [
        (WRITE, {"file_path": "/p/a", "content": "c\n"}, "Write /p/a", "/p/a\nc\n"),
        (EDIT, {"file_path": "/p/a", "old_string": "o", "new_string": "n"}, "Edit /p/a", "/p/a\n- o\n+ n"),
        (GLOB, {"pattern": "*.py"}, "Glob *.py", ""),
        (GLOB, {"pattern": "*.py", "path": "/p"}, "Glob *.py in /p", ""),
        (GREP, {"pattern": "x+"}, "Grep x+", ""),
        (GREP, {"pattern": "x+", "path": "/p"}, "Grep x+ in /p", ""),
    ],
)
def test_a_call_in_one_line_and_what_a_classifier_sees_of_it(
    tool: AnyTool, given: dict[str, Any], summary: str, classified: str
) -> None:
    parsed = tool.parse(given)
    assert tool.summary(parsed) == summary
    assert tool.classifier_text(parsed) == classified
