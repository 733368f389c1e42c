"""No module of the tools knows, by way of others, a module that knows it: not for annotations either."""

import ast
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

from tests.support.repository import ROOT

PACKAGE: Final = "ostler.tools"


def find_modules(folder: Path, package: str) -> dict[str, Path]:
    """The files of a package by their module names."""
    found = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join((package, *(part for part in parts if part != "__init__")))] = path
    return found


def list_imports(source: str, modules: Iterable[str]) -> set[str]:
    """The modules that a source imports anywhere: in functions and for annotations, too."""
    known, found = set(modules), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = {f"{node.module}.{name.name}" for name in node.names}
            found |= (inner & known) or {node.module}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found & known


def build_graph(modules: dict[str, Path]) -> dict[str, set[str]]:
    return {name: list_imports(path.read_text(), modules) - {name} for name, path in modules.items()}


def test_no_modules_of_the_tools_know_each_other() -> None:
    graph = build_graph(find_modules(ROOT / "tools/ostler/tools", PACKAGE))
    assert len(graph) > 100
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("These import each other: " + " -> ".join(error.args[1]))


def test_a_cycle_for_annotations_only_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from x.b import B\n")
    (tmp_path / "b.py").write_text("def f():\n    from x import a\n")
    graph = build_graph(find_modules(tmp_path, "x"))
    assert graph == {"x.a": {"x.b"}, "x.b": {"x.a"}}
