"""Counting the characters of text in a nested value, to know whether it is long."""

from collections.abc import Iterable

from pydantic import BaseModel


def count_chars(value: object, enough: int) -> int:
    """The total length of all texts in a value, keys included; counting stops at about `enough`."""
    match value:
        case str():
            return len(value)
        case BaseModel():
            return _sum_chars(value.__dict__.values(), 0, enough)
        case dict():
            return _sum_chars(value.values(), sum(len(name) for name in value if isinstance(name, str)), enough)
        case list() | tuple():
            return _sum_chars(value, 0, enough)
        case _:
            return 0


def _sum_chars(values: Iterable[object], total: int, enough: int) -> int:
    for each in values:
        if total >= enough:
            break
        if each is None or each is True or each is False:
            continue
        total += len(each) if type(each) is str else count_chars(each, enough)
    return total
