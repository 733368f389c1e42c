"""Computes numbers as the shell does, and knows no variables."""

import ast
import re
from typing import Final

_OCTAL: Final = re.compile(r"(?<![0-9])0[0-9]")
_LARGEST: Final = 2**62


class NotComposite(Exception):
    """A line that is more than our grammar knows."""


def compute(text: str) -> int:
    """The value of numbers with `+`, `-`, `*`, `/`, `%` and parentheses, as in the shell. Raises NotComposite."""
    if _OCTAL.search(text) or any(sign in text for sign in ("**", "--", "++", "//")):
        raise NotComposite("its arithmetic is not known")
    try:
        return _compute_node(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, RecursionError, MemoryError):
        raise NotComposite("its arithmetic is not known") from None


def _compute_node(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(value)):
            result = value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            result = -_compute_node(operand)
        case ast.BinOp(left=left, op=operator, right=right):
            result = _apply(operator, _compute_node(left), _compute_node(right))
        case _:
            raise NotComposite("its arithmetic is not known")
    if abs(result) >= _LARGEST:
        raise NotComposite("its arithmetic is not known")
    return result


def _apply(operator: ast.operator, left: int, right: int) -> int:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            # The shell cuts off towards zero, and the rest has the sign of what was divided.
            quotient = abs(left) // abs(right)
            return quotient if (left < 0) == (right < 0) else -quotient
        case ast.Mod():
            rest = abs(left) % abs(right)
            return -rest if left < 0 else rest
        case _:
            raise NotComposite("its arithmetic is not known")
