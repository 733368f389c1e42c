"""Links from a page to functions: `[`name`](../path/to/module.py#L12)`, whose line numbers follow the code."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

_LINK: Final = re.compile(r"\[`(?P<name>[\w.]+)`\]\((?P<file>[\w./]+\.py)#L\d+\)")


class BrokenLink(Exception):
    """A page links to a function that is not there."""


def refresh_links(page: Path) -> str:
    """The page with the line of each function or class that it links to. Raises BrokenLink."""

    def refresh(link: re.Match[str]) -> str:
        file = (page.parent / link["file"]).resolve()
        line = _list_definitions(file).get(link["name"]) if file.exists() else None
        if line is None:
            raise BrokenLink(f"{page.name} links to {link['name']} in {link['file']}, and it is not there.")
        return f"[`{link['name']}`]({link['file']}#L{line})"

    return _LINK.sub(refresh, page.read_text("utf-8"))


@cache
def _list_definitions(file: Path) -> dict[str, int]:
    """Each function, class and method of a module, and its line."""
    found: dict[str, int] = {}
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node.lineno
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}.{method.name}": method.lineno for method in methods}
    return found
