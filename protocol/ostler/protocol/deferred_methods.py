"""Dataclasses whose methods are compiled when they are first called.

`@dataclass` writes the text of `__init__`, `__repr__`, `__eq__`, `__hash__`, `__setattr__` and `__delattr__` and
compiles each of them while its module is imported: 0.3 ms for a class, a third of the daemon's start, and most of them
are never called. What is compiled later is the same text in the same names; only when is another question.

A class without a docstring would get one with its signature, which takes as long again and is not true here, where
`__init__` is not compiled yet: its name does.

This puts functions of ours in the place of private ones of the standard library. Where the first is not there (Python
3.13 compiles the methods of a class together), nothing is deferred, and all that is lost is time.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

# Of others those that have the most.
_DEFERRED: Final = ("ostler.", "annotated_types", "anyio.", "pydantic.", "starlette.", "structlog.")
_PRIVATE_NAME: Final = "_create_fn"
_PRIVATE_PROCESS: Final = "_process_class"


def defer_methods() -> None:
    """From now on, for the dataclasses of our own modules, and of the libraries that make most of the start."""
    create_now: Callable[..., Any] | None = getattr(dataclasses, _PRIVATE_NAME, None)
    if create_now is None or create_now.__module__ == __name__:
        return

    def create(name: str, args: Any, body: Any, **rest: Any) -> Any:
        if not str((rest.get("globals") or {}).get("__name__", "")).startswith(_DEFERRED):
            return create_now(name, args, body, **rest)
        return _defer(name, lambda: create_now(name, args, body, **rest))

    setattr(dataclasses, _PRIVATE_NAME, create)
    _describe_by_name()


def _describe_by_name() -> None:
    process_now: Callable[..., Any] | None = getattr(dataclasses, _PRIVATE_PROCESS, None)
    if process_now is None:
        return

    def process(cls: type, *args: Any, **named: Any) -> Any:
        if cls.__doc__ is None and cls.__module__.startswith(_DEFERRED):
            cls.__doc__ = cls.__name__
        return process_now(cls, *args, **named)

    setattr(dataclasses, _PRIVATE_PROCESS, process)


def _defer(name: str, create: Callable[[], Any]) -> Callable[..., Any]:
    created: Any = None

    def method(instance: Any, /, *args: Any, **named: Any) -> Any:
        nonlocal created
        if created is None:
            created = create()
            created.__qualname__ = method.__qualname__
            _replace(type(instance), name, method, created)
        return created(instance, *args, **named)

    method.__name__ = name
    return method


def _replace(owner: type, name: str, deferred: object, created: object) -> None:
    """Where the class has the method itself, and not something around it, further calls go to it directly."""
    for each in owner.__mro__:
        if each.__dict__.get(name) is deferred:
            setattr(each, name, created)
