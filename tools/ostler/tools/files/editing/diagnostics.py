"""Diagnostics of an editor after a change of a file: as output for clients, and rendered for the model, limited."""

from collections.abc import Sequence
from typing import Final

from ostler.tools.services import Diagnostic, Severity
from ostler.tools.text import cut_text
from ostler.tools.tool import ToolOutput

_LINES: Final = 20
_LINE_CHARS: Final = 300
_ORDER: Final[dict[Severity, int]] = {"error": 0, "warning": 1, "information": 2, "hint": 3}


class DiagnosticOutput(ToolOutput):
    """What is wrong with a place in a file."""

    severity: Severity
    message: str
    line: int | None
    column: int | None


def build_outputs(found: Sequence[Diagnostic] | None) -> list[DiagnosticOutput] | None:
    """Converts diagnostics for the output: errors first, each severity in the order of lines."""
    if found is None:
        return None
    ordered = sorted(found, key=lambda each: (_ORDER[each.severity], each.line or 0, each.column or 0))
    return [
        DiagnosticOutput(severity=each.severity, message=each.message, line=each.line, column=each.column)
        for each in ordered
    ]


def render_diagnostics(found: Sequence[DiagnosticOutput] | None) -> str:
    """Renders diagnostics as lines below a result; empty where there is no source of diagnostics."""
    if found is None:
        return ""
    if not found:
        return "\nDiagnostics now: none."
    lines = [_format_line(each) for each in found[:_LINES]]
    if len(found) > _LINES:
        lines.append(f"… and {len(found) - _LINES} more")
    return "\n".join(["\nDiagnostics now:", *lines])


def _format_line(found: DiagnosticOutput) -> str:
    place = "" if found.line is None else f" {found.line}" + ("" if found.column is None else f":{found.column}")
    message = " ".join(found.message.split())
    cut = cut_text(message, _LINE_CHARS)
    return f"{found.severity}{place}: {cut}"
