"""How much text there is in something."""

from collections.abc import Iterable

from pydantic import BaseModel


def chars_of(value: object, enough: int) -> int:
    """How long the texts in it are together, names included, counted only as far as it matters."""
    match value:
        case str():
            return len(value)
        case BaseModel():
            return _sum(value.__dict__.values(), 0, enough)
        case dict():
            return _sum(value.values(), sum(len(name) for name in value if isinstance(name, str)), enough)
        case list() | tuple():
            return _sum(value, 0, enough)
        case _:
            return 0


def _sum(values: Iterable[object], total: int, enough: int) -> int:
    for each in values:
        if total >= enough:
            break
        if each is None or each is True or each is False:
            continue
        total += len(each) if type(each) is str else chars_of(each, enough)
    return total
