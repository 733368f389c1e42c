"""What a query for tools finds, and in which order."""

from ostler.tools.discovery.search import Query, find_named, parse_query, rank
from ostler.tools.services import DeferredTool
from tests.support.tables import try_each

TOOLS = [
    DeferredTool("NotebookEdit", "Changes one cell.", "jupyter ipynb cell replace"),
    DeferredTool("WebFetch", "Reads a page of the web.", "download url http browse"),
    DeferredTool("TaskStop", "Ends a background task.", "kill end cancel shell", ("KillShell",)),
    DeferredTool("mcp__tracker__create_issue", "Writes a report.", ""),
    DeferredTool("mcp__tracker__list_issues", "All reports that are open.", ""),
    DeferredTool("mcp__db__query", "Asks the database. It edits nothing.", ""),
]


@try_each(
    "text, query",
    [
        ("select:A,B", Query(("A", "B"))),
        (" Select : A , `B` ,, A", Query(("A", "B"))),
        ("select:", Query(())),
        ("Notebook cell", Query(None, (), ("notebook", "cell"))),
        ("+tracker list issue", Query(None, ("tracker",), ("tracker", "list", "issue"))),
        ("create, rename; (issue)?", Query(None, (), ("create", "rename", "issue"))),
        ("???", Query(None)),
    ],
)
def test_a_query_is_names_or_words(text: str, query: Query) -> None:
    assert parse_query(text) == query


@try_each(
    "text, names",
    [
        ("notebook", ["NotebookEdit"]),
        ("NotebookEdit", ["NotebookEdit"]),
        ("cell", ["NotebookEdit"]),
        # A part of a name is worth more than a word in the text, and more where the name is a server's.
        ("edit database", ["NotebookEdit", "mcp__db__query"]),
        ("fetch query", ["mcp__db__query", "WebFetch"]),
        ("issue", ["mcp__tracker__create_issue", "mcp__tracker__list_issues"]),
        ("issues", ["mcp__tracker__list_issues"]),
        ("tracker open", ["mcp__tracker__list_issues", "mcp__tracker__create_issue"]),
        ("+tracker query", ["mcp__tracker__create_issue", "mcp__tracker__list_issues"]),
        ("+db issue", ["mcp__db__query"]),
        ("+nowhere issue", []),
        ("mcp", []),
        ("page", ["WebFetch"]),
        ("pag", []),
        ("", []),
    ],
)
def test_the_best_comes_first(text: str, names: list[str]) -> None:
    assert [tool.name for tool in rank(TOOLS, parse_query(text))] == names


@try_each(
    "name, found",
    [
        ("TaskStop", "TaskStop"),
        ("KillShell", "TaskStop"),
        ("taskstop", "TaskStop"),
        ("killshell", "TaskStop"),
        ("Stop", ""),
    ],
)
def test_a_tool_is_found_by_its_name_and_its_aliases(name: str, found: str) -> None:
    tool = find_named(TOOLS, name)
    assert (tool.name if tool else "") == found
