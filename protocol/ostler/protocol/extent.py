"""How much text there is in something."""

from pydantic import BaseModel


def chars_of(value: object, enough: int) -> int:
    """How long the texts in it are together, counted only as far as it matters."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, BaseModel):
        value = value.__dict__
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return 0
    total = 0
    for each in value:
        if each is None or each is True or each is False:
            continue
        total += len(each) if type(each) is str else chars_of(each, enough)
        if total >= enough:
            break
    return total
