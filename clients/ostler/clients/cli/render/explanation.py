"""Why a call would be asked about, and what it would do, for people."""

from collections.abc import Iterator, Sequence
from typing import Any

from ostler.clients.cli.output import colourize, sanitize


def format_explanation(found: dict[str, Any], rules: Sequence[str]) -> Iterator[str]:
    """What decides about a call, its parts and effects, and the rules that would let it pass."""
    decided = f"  by {found['by']}" + (f": {sanitize(found['rule'])}" if found["rule"] else "")
    yield f"{decided}  {sanitize(found['reason'] or '')}".rstrip()
    for part in found["parts"]:
        yield format_part(part)
    yield from format_effects(found.get("effects") or {})
    for rule in dict.fromkeys(rules):
        yield f"  {colourize('would pass with the rule', 'dim')}  {sanitize(rule)}"


def format_part(part: dict[str, Any]) -> str:
    words = "only reads" if part["read_only"] else part["reason"] or "does more than read"
    return f"  {colourize('part', 'dim')}  {sanitize(part['text'])}  {colourize(f'({sanitize(words)})', 'dim')}"


def format_effects(effects: dict[str, Any]) -> Iterator[str]:
    """What a command would do to files, one line each, and what of it is not known."""
    for each in effects.get("files", []):
        below = " and all below" if each["deep"] else ""
        named = colourize(f"  (as {sanitize(each['written'])})", "dim") if each["written"] else ""
        yield f"  {colourize(each['action'], 'dim')}  {sanitize(each['path'])}{below}{named}"
    if effects.get("left_out"):
        yield f"  and {effects['left_out']} more"
    if effects.get("shows_repository"):
        yield f"  {colourize('read', 'dim')}  contents that git has stored, old ones included"
    if effects.get("unknown"):
        kinds = [name for name in ("reads", "writes") if effects[f"unknown_{name}"]]
        more = f" ({' and '.join(kinds)} other files)" if kinds else ""
        yield f"  {colourize('unknown', 'dim')}  {sanitize(effects['unknown'])}{more}"
