"""Tests over a table: one test tries every row, and names each that is wrong.

A test costs processor time before it does anything: each worker collects it, and one reports three phases of it. Where
a row takes less than that, `try_each` stands in the place of `pytest.mark.parametrize`.
"""

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pytest

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200


def try_each(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, without marks and ids. All rows get the same fixtures: none may change them."""
    parameters = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [_bind(parameters, row, single=isinstance(names, str) and len(parameters) == 1) for row in rows]
    assert table, f"no rows for {', '.join(parameters)}"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        missing = set(parameters) - set(signature.parameters)
        assert not missing, f"{test.__name__} takes no {', '.join(missing)}"

        @functools.wraps(test)
        def try_rows(**fixtures: Any) -> None:
            wrong = [error for row in table if (error := _try(test, row, fixtures)) is not None]
            if wrong:
                raise BaseExceptionGroup(f"{len(wrong)} of {len(table)} rows are wrong", wrong)

        others = [each for name, each in signature.parameters.items() if name not in parameters]
        vars(try_rows)["__signature__"] = signature.replace(parameters=others)
        return try_rows

    return decorate


def _bind(parameters: Sequence[str], row: Any, *, single: bool) -> dict[str, Any]:
    return dict(zip(parameters, (row,) if single else row, strict=True))


def _try(test: Callable[..., None], row: dict[str, Any], fixtures: dict[str, Any]) -> BaseException | None:
    try:
        test(**row, **fixtures)
    except pytest.skip.Exception as skipped:
        raise AssertionError(f"a row of a table cannot be skipped: {skipped}") from skipped
    except (Exception, pytest.fail.Exception) as error:
        error.add_note("with " + ", ".join(f"{name}={_SHORT.repr(value)}" for name, value in row.items()))
        return error
    return None
