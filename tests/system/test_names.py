"""Names: one word per thing, functions are verbs, and a folder is a subject of at most fifteen modules."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from scripts.house_picture import find_unlayered_modules
from tests.support.repository import ROOT
from tests.support.tables import try_each

ROOMS: Final = ("protocol", "storage", "tools", "server", "clients")
GLOSSARY: Final[dict[str, dict[str, Any]]] = tomllib.loads(Path(__file__).with_name("glossary.toml").read_text("utf-8"))
WORDS: Final = GLOSSARY.pop("words")
VERBS: Final = GLOSSARY.pop("verbs")
MAX_MODULES: Final = 15
LARGER_FOLDERS: Final = {"protocol/ostler/protocol", "storage/ostler/storage/repositories"}
"""One module for each noun of the wire, and one for each table."""
_NAMING: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.arg, ast.Name, ast.Attribute)

_WITHOUT_NODES: Final = frozenset({"ctx", "op", "ops", "name", "id", "attr", "arg", "type_comment", "kind"})


@cache
def product_files() -> tuple[Path, ...]:
    return tuple(sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py")))


@cache
def naming_nodes(file: Path) -> tuple[ast.AST, ...]:
    """What gives a name to something: a few of all nodes, which are walked through once."""
    found: list[ast.AST] = []
    left: list[Any] = [ast.parse(file.read_text("utf-8"))]
    # As ast.walk does, without a generator for the fields of each node: there are many files to walk through.
    while left:
        node = left.pop()
        if isinstance(node, _NAMING):
            found.append(node)
        for name in node._fields:
            if name in _WITHOUT_NODES:
                continue
            value = getattr(node, name)
            if isinstance(value, list):
                left += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                left.append(value)
    return tuple(reversed(found))


@cache
def defined_names() -> dict[str, str]:
    """Every name that the code gives to something, and the first place where it does."""
    names: dict[str, str] = {}
    for name, place in _walk_names():
        names.setdefault(name, place)
    return names


def _walk_names() -> Iterator[tuple[str, str]]:
    for file in product_files():
        place = str(file.relative_to(ROOT))
        yield file.stem, place
        for node in naming_nodes(file):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    yield name, f"{place}:{node.lineno}"
                case ast.arg(arg=name):
                    yield name, f"{place}:{node.lineno}"
                case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                    yield name, f"{place}:{node.lineno}"


@cache
def wire_names() -> frozenset[str]:
    """Fields that clients, models and settings files know by their names: what is on the wire is not renamed."""
    fields = set()
    for file in product_files():
        for node in naming_nodes(file):
            if isinstance(node, ast.ClassDef) and (file.is_relative_to(ROOT / "protocol") or _is_tool_shape(node)):
                fields |= {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
    return frozenset(fields)


def _is_tool_shape(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith(("Input", "Output")) for base in node.bases)


@cache
def words_of(name: str) -> list[str]:
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


@pytest.mark.parametrize("word", WORDS)
def test_no_name_uses_another_word_for_a_thing_of_the_glossary(word: str) -> None:
    rule = WORDS[word]
    wrong = [
        f"{name} ({place})"
        for name, place in defined_names().items()
        if name.strip("_").lower() not in wire_names() and is_wrong(name, word, rule)
    ]
    assert not wrong, f"{word}: say {rule['say']}, or add its other meaning to glossary.toml: {wrong}"


def is_wrong(name: str, word: str, rule: dict[str, Any]) -> bool:
    words = set(words_of(name))
    if words.isdisjoint({word, f"{word}s"}):
        return False
    if "wrong_beside" in rule:
        return not words.isdisjoint(rule["wrong_beside"])
    return not any(re.search(pattern, name) for pattern in rule.get("other_meaning", {}))


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("chat_id", "chat"),
        ("PermissionRequest", "request"),
        ("task_process", "process"),
        ("schedule_calls", "schedule"),
    ],
)
def test_a_wrong_word_is_noticed(name: str, word: str) -> None:
    assert is_wrong(name, word, WORDS[word])


@try_each("word", WORDS)
def test_every_exception_of_the_glossary_is_needed(word: str) -> None:
    patterns = WORDS[word].get("other_meaning", {})
    assert not [pattern for pattern in patterns if not any(re.search(pattern, name) for name in defined_names())]


def test_functions_are_verbs_and_not_participles() -> None:
    wrong = []
    for file in product_files():
        for node in naming_nodes(file):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_property(node):
                first = words_of(node.name)[0] if words_of(node.name) else ""
                if re.search(r"(?:[^e]ed|ing)$", first) and first not in VERBS["end_like_participles"]:
                    wrong.append(f"{node.name} ({file.relative_to(ROOT)}:{node.lineno})")
    assert not [each for each in wrong if each.split(" ")[0] not in VERBS["exceptions"]]


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(each) for each in node.decorator_list)


def test_no_folder_has_more_than_fifteen_modules() -> None:
    folders = Counter(str(file.parent.relative_to(ROOT)) for file in product_files() if file.name != "__init__.py")
    assert {folder for folder, count in folders.items() if count > MAX_MODULES} <= LARGER_FOLDERS


def test_every_module_stands_in_a_layer() -> None:
    assert find_unlayered_modules(ROOT) == []
