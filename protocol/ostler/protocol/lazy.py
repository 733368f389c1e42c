"""Packages whose parts are imported when they are first asked for, so that the start does not wait for all of them."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`: each public name with the module of the package that has it.

    No name may be a module's own: who imports the module would get that in its place.
    """
    clashes = homes.keys() & set(homes.values())
    assert not clashes, f"{package}: {clashes} name both a module and something in one"

    def found(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        vars(import_module(package))[name] = value
        return value

    return found
