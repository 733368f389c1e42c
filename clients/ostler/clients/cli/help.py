"""Command groups whose help can be read in a narrow terminal, too."""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

F = TypeVar("F", bound=Callable[..., Any])

_MAX_METAVAR_WIDTH: Final = 20
"""A list of values that is longer than this goes into the help text, where it can be wrapped."""
_BRACED: Final = re.compile(r"\{([^}]*)\}(.*)")


class _Command(TyperCommand):
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for parameter in self.params:
            _shorten_metavar(parameter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [_strip_braces(piece) for piece in super().collect_usage_pieces(ctx)]


class _Group(TyperGroup):
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for parameter in self.params:
            _shorten_metavar(parameter)


class CommandGroup(typer.Typer):
    """A Typer all of whose commands have this help, also those that other modules add."""

    def __init__(self, **settings: Any) -> None:
        # Both would import rich, which costs more than the rest of a short command.
        super().__init__(cls=_Group, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[F], F]:
        return super().command(name, cls=_Command, **settings)


def _shorten_metavar(parameter: Any) -> None:
    values = list(getattr(parameter.type, "choices", ()))
    listed = "|".join(map(str, values))
    if parameter.metavar is not None or len(listed) <= _MAX_METAVAR_WIDTH:
        return
    parameter.metavar = str(parameter.name).upper()
    parameter.help = f"{(parameter.help or '').removesuffix('.')} ({', '.join(map(str, values))})."


def _strip_braces(piece: str) -> str:
    """`ID` for `{ID}`, and `<allow|ask|deny>` for `{behavior}:<allow|ask|deny>`."""
    found = _BRACED.fullmatch(piece)
    if found is None:
        return piece
    return found[2].removeprefix(":") if found[2].startswith(":") else found[1] + found[2]
