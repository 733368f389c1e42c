"""Lazy imports: packages whose modules are imported when a name is first used, so that the start stays short."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def export_lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package, from each public name and the module of the package that defines it.

    No name may equal the name of a module: whoever imports the module would get the name in its place.
    """
    clashes = homes.keys() & set(homes.values())
    assert not clashes, f"{package}: {clashes} name both a module and something in one"

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        vars(import_module(package))[name] = value
        return value

    return load
