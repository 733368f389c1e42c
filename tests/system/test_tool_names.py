"""No module but a tool's own knows it by name: what others need to know of a tool, the tool declares."""

import ast
from pathlib import Path
from typing import Final

from ostler.tools.builtin import BUILT_IN
from tests.support.repository import ROOT

ROOMS: Final = ("protocol", "storage", "tools", "server")
MAY_NAME_TOOLS: Final = {
    "tools/ostler/tools/permissions/rule_families.py": "the words of the rule language",
    "tools/ostler/tools/shell/base.py": "the description tells the model to take these instead, where they are there",
    "server/ostler/server/prompt/agent_kinds.py": "a kind of agent is a list of tools, as a file of the person's is",
    "server/ostler/server/engine/context/clearing.py": "reads stored calls, whose tools may not be loaded",
    "server/ostler/server/engine/tasks/notifications.py": "reads stored calls, whose tools may not be loaded",
}
"""Modules that name tools, and why. The model `rehearsal` plays a model, which calls tools by their names."""


def find_names(source: str, names: frozenset[str]) -> list[str]:
    """The string constants of a source that are names of tools, each with its line."""
    constants = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return [f"{node.lineno}: {node.value}" for node in constants if node.value in names]


def list_modules() -> dict[str, Path]:
    paths = (path for room in ROOMS for path in (ROOT / room / "ostler").rglob("*.py"))
    return {str(path.relative_to(ROOT)): path for path in paths if "rehearsal" not in path.parts}


def test_a_tool_is_named_in_its_own_module_only() -> None:
    names = frozenset(name for tool in BUILT_IN for name in (tool.name, *tool.aliases))
    own = {f"tools/{type(tool).__module__.replace('.', '/')}.py" for tool in BUILT_IN}
    found = {name: find_names(path.read_text(), names) for name, path in list_modules().items() if name not in own}
    naming = {name: lines for name, lines in found.items() if lines}
    assert {name: lines for name, lines in naming.items() if name not in MAY_NAME_TOOLS} == {}
    assert set(MAY_NAME_TOOLS) <= set(naming), "this exception is needed no more"


def test_a_name_in_a_list_is_found() -> None:
    assert find_names('_NO = frozenset({"Monitor", "monitor"})\n"""Monitor."""\n', frozenset({"Monitor"})) == [
        "1: Monitor"
    ]
