"""Docstrings of model fields, read from the source when the documents are generated.

Pydantic can collect it as well, but does so for every class at import, which is half of what importing the
protocol would cost; most processes never need it.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


def read_field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings of a model's fields, inherited ones included, by the fields' names on the wire."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _read_module(base.__module__).get(base.__name__, {})
    return {model.model_fields[name].alias or name: text for name, text in found.items()}


@cache
def _read_module(name: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[name]))
    return {node.name: dict(_find_in_body(node.body)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _find_in_body(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement, after in pairwise(body):
        match statement, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)
