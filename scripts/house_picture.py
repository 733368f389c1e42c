"""Draw the packages of the house and what they import, from the import graph and its layers: docs/house.svg.

A room is a panel; a box is a package with the number of its modules; a row is a layer. A thin line is an import that no
other path of imports implies, so all of them lead down. The thick arrows count the modules of a room that import
something of another one.
"""

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

ROOMS: Final = {
    "clients": "who drives it",
    "server": "what makes it run",
    "tools": "what an agent can do",
    "storage": "what must survive",
    "protocol": "the words everybody speaks",
}
_FLAT: Final = {"storage": ["", "repositories", "sqlite"], "protocol": ["generate", ""]}
"""Rooms without contracts inside: their packages."""

_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y = 150, 34, 12, 34
_PANEL_PAD, _PANEL_HEAD, _PANEL_GAP = 16, 44, 56
_STATEMENT_FIELDS: Final = ("body", "orelse", "finalbody", "handlers", "cases")
_ROW_BOXES: Final = 4
"""Boxes beside each other before a row is folded."""
_STYLE: Final = (
    "text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#1f2933}"
    ".room{font-size:16px;font-weight:600}.what{font-size:12px;fill:#616e7c}.count{font-size:10px;fill:#7b8794}"
    ".panel{fill:#f5f7fa;stroke:#cbd2d9}.box{fill:#fff;stroke:#3e4c59}"
    ".import{stroke:#9fb3c8;stroke-width:1;fill:none}.between{stroke:#0b69a3;stroke-width:2;fill:none}"
    ".between-text{fill:#0b69a3;font-weight:600}"
)

Package = tuple[str, str]
"""A room, and a package or module in it as the layers name it; an empty name stands for the front of the room."""


@dataclass(frozen=True, slots=True)
class ImportGraph:
    """How many modules each package has, and which packages it imports; between rooms, how many modules do so."""

    modules: Mapping[Package, int]
    imports: Mapping[Package, frozenset[Package]]
    between_rooms: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Panel:
    """A room with its packages in rows, importers first."""

    room: str
    rows: list[list[Package]]
    x: float
    y: float
    min_width: float = 0.0

    @property
    def width(self) -> float:
        widest = max(len(row) for row in self.rows)
        return max(self.min_width, widest * (_BOX_WIDTH + _GAP_X) - _GAP_X + 2 * _PANEL_PAD)

    @property
    def height(self) -> float:
        return _PANEL_HEAD + len(self.rows) * (_BOX_HEIGHT + _GAP_Y) - _GAP_Y + _PANEL_PAD

    def place_boxes(self) -> dict[Package, tuple[float, float]]:
        """The upper left corner of each box."""
        places = {}
        for number, row in enumerate(self.rows):
            row_width = len(row) * (_BOX_WIDTH + _GAP_X) - _GAP_X
            left = self.x + (self.width - row_width) / 2
            for column, package in enumerate(row):
                x = left + column * (_BOX_WIDTH + _GAP_X)
                places[package] = (x, self.y + _PANEL_HEAD + number * (_BOX_HEIGHT + _GAP_Y))
        return places


def read_layers(root: Path) -> dict[str, list[list[Package]]]:
    """The packages of each room in rows, importers first, as the contracts in pyproject.toml say."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers: dict[str, list[list[Package]]] = {room: [[(room, name)] for name in names] for room, names in _FLAT.items()}
    for contract in contracts:
        if contract["type"] == "layers":
            [container] = contract["containers"]
            room = container.removeprefix("ostler.")
            layers[room] = [[(room, name.strip()) for name in layer.split("|")] for layer in contract["layers"]]
    return layers


def read_import_graph(root: Path, layers: Mapping[str, list[list[Package]]]) -> ImportGraph:
    files = {_module_name(root, file): file for room in ROOMS for file in (root / room / "ostler" / room).rglob("*.py")}
    names = {room: {name for row in rows for _, name in row} for room, rows in layers.items()}
    packages = {module: _package_of(module, names) for module in files}
    modules: dict[Package, int] = defaultdict(int)
    imports: dict[Package, set[Package]] = defaultdict(set)
    between: dict[tuple[str, str], set[str]] = defaultdict(set)
    for module, file in files.items():
        room, package = packages[module]
        if package is None:
            continue
        modules[room, package] += file.name != "__init__.py"
        for target in _imported_modules(file, files.keys()):
            other_room, other = packages[target]
            if other_room != room:
                between[room, other_room].add(module)
            elif other is not None and other != package:
                imports[room, package].add((room, other))
    boxes = [package for rows in layers.values() for row in rows for package in row]
    return ImportGraph(
        {package: modules[package] for package in boxes},
        {package: frozenset(imports[package]) for package in boxes},
        {rooms: len(importers) for rooms, importers in sorted(between.items())},
    )


def _module_name(root: Path, file: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _package_of(module: str, names: Mapping[str, set[str]]) -> tuple[str, str | None]:
    """The closest package above a module that a layer names; None for a front door, which only forwards."""
    _, room, *rest = module.split(".")
    prefixes = [".".join(rest[:length]) for length in range(len(rest), -1, -1)]
    return room, next((prefix for prefix in prefixes if prefix in names[room]), None)


def find_unlayered_modules(root: Path) -> list[str]:
    """Modules that no layer names: nothing would notice what they import. Front doors do not count."""
    names = {room: {name for row in rows for _, name in row} for room, rows in read_layers(root).items()}
    files = [file for room in ROOMS for file in (root / room / "ostler" / room).rglob("*.py")]
    modules = [_module_name(root, file) for file in files if file.name != "__init__.py"]
    return sorted(module for module in modules if _package_of(module, names)[1] is None)


def _imported_modules(file: Path, known: Set[str]) -> set[str]:
    """The modules of ours that a file imports, wherever in it, but not what only a type checker reads."""
    found: set[str] = set()
    for node in _walk_without_type_checking(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{name.name}" for name in node.names} & known
            found |= submodules or ({node.module} & known)
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names} & known
    return found


def _walk_without_type_checking(tree: ast.AST) -> Iterable[ast.AST]:
    """The statements of a tree, however deep. Expressions are left out: they are many, and none of them imports."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and _names_type_checking(node.test):
            continue
        yield node
        for name in _STATEMENT_FIELDS:
            waiting += getattr(node, name, ())


def _names_type_checking(test: ast.expr) -> bool:
    names = (getattr(node, "id", None) or getattr(node, "attr", None) for node in ast.walk(test))
    return "TYPE_CHECKING" in names


def draw_house(root: Path) -> str:
    """The picture as SVG; the same for the same imports."""
    layers = read_layers(root)
    graph = read_import_graph(root, layers)
    panels = _arrange_panels(layers)
    width = max(panel.x + panel.width for panel in panels.values()) + _PANEL_PAD
    height = max(panel.y + panel.height for panel in panels.values()) + _PANEL_PAD
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        'aria-label="The packages of ostler and what they import">',
        "<title>The packages of ostler and what they import</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#0b69a3"/></marker></defs>',
        f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
    ]
    for panel in panels.values():
        parts += _draw_panel(panel, graph)
    parts += _draw_arrows(panels, graph)
    return "\n".join([*parts, "</svg>", ""])


def _arrange_panels(layers: Mapping[str, list[list[Package]]]) -> dict[str, Panel]:
    """Clients left, the server in the middle, tools and storage right, and below all of them the protocol."""
    rows = {room: _fold_rows(layers[room]) for room in ROOMS}
    clients = Panel("clients", rows["clients"], _PANEL_PAD, _PANEL_PAD)
    server = Panel("server", rows["server"], clients.x + clients.width + _PANEL_GAP, _PANEL_PAD)
    tools = Panel("tools", rows["tools"], server.x + server.width + _PANEL_GAP, _PANEL_PAD)
    storage = Panel("storage", rows["storage"], tools.x, tools.y + tools.height + _PANEL_GAP)
    lowest = max(panel.y + panel.height for panel in (clients, server, storage))
    whole_width = tools.x + tools.width - clients.x
    protocol = Panel("protocol", rows["protocol"], clients.x, lowest + _PANEL_GAP, whole_width)
    return {panel.room: panel for panel in (clients, server, tools, storage, protocol)}


def _fold_rows(layers: list[list[Package]]) -> list[list[Package]]:
    """Layers that are too wide take several rows."""
    return [row[start : start + _ROW_BOXES] for row in layers for start in range(0, len(row), _ROW_BOXES)]


def _draw_panel(panel: Panel, graph: ImportGraph) -> list[str]:
    places = panel.place_boxes()
    parts = [
        f'<rect class="panel" x="{panel.x:g}" y="{panel.y:g}" rx="8" '
        f'width="{panel.width:g}" height="{panel.height:g}"/>',
        f'<text class="room" x="{panel.x + _PANEL_PAD:g}" y="{panel.y + 21:g}">{panel.room}/</text>',
        f'<text class="what" x="{panel.x + _PANEL_PAD:g}" y="{panel.y + 36:g}">{ROOMS[panel.room]}</text>',
    ]
    for package, (x, y) in places.items():
        for target in sorted(_direct_imports(graph, package)):
            to_x, to_y = places[target]
            start, end = f"{x + _BOX_WIDTH / 2:g} {y + _BOX_HEIGHT:g}", f"{to_x + _BOX_WIDTH / 2:g} {to_y:g}"
            parts.append(f'<path class="import" d="M{start}L{end}"/>')
    for package, (x, y) in places.items():
        middle = x + _BOX_WIDTH / 2
        name = escape(package[1] or "(front)")
        count = graph.modules[package]
        parts += [
            f'<rect class="box" x="{x:g}" y="{y:g}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="4"/>',
            f'<text x="{middle:g}" y="{y + 15:g}" text-anchor="middle">{name}</text>',
            f'<text class="count" x="{middle:g}" y="{y + 28:g}" text-anchor="middle">'
            f"{count} module{'s' if count != 1 else ''}</text>",
        ]
    return parts


def _draw_arrows(panels: Mapping[str, Panel], graph: ImportGraph) -> list[str]:
    parts = []
    for (source, target), count in graph.between_rooms.items():
        (x, y), (to_x, to_y) = _find_ends(panels[source], panels[target])
        text_x = x + 6 if x == to_x else (x + to_x) / 2 - 14
        parts += [
            f'<path class="between" marker-end="url(#tip)" d="M{x:g} {y:g}L{to_x:g} {to_y:g}"/>',
            f'<text class="between-text" x="{text_x:g}" y="{(y + to_y) / 2 - 6:g}">{count}</text>',
        ]
    return parts


def _find_ends(source: Panel, target: Panel) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where an arrow leaves one panel and meets the other: straight down to the protocol, straight right else."""
    if target.room == "protocol":
        # The storage stands below the tools: their own arrow passes it on the right.
        x = source.x + (source.width - 2 * _PANEL_PAD if source.room == "tools" else source.width / 2)
        return (x, source.y + source.height), (x, target.y)
    y = max(source.y, target.y) + min(source.height, target.height) / 2
    return (source.x + source.width, y), (target.x, y)


def _direct_imports(graph: ImportGraph, package: Package) -> set[Package]:
    """What a package imports, without what is reached through another import of its."""
    targets = graph.imports[package]
    implied = {further for target in targets for further in _reachable(graph, target)}
    return set(targets) - implied


def _reachable(graph: ImportGraph, start: Package) -> set[Package]:
    found: set[Package] = set()
    waiting = [start]
    while waiting:
        for target in graph.imports[waiting.pop()] - found:
            found.add(target)
            waiting.append(target)
    return found
