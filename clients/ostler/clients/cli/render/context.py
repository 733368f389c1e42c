"""What fills a window, and what a session has used, as lines with plain bars."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ostler.clients.cli.output import fit, sanitize

_BAR_WIDTH: Final = 40
_NAME_WIDTH: Final = 24
_MOST_ROWS: Final = 20


def format_context(found: dict[str, Any]) -> list[str]:
    """A line for the whole, and a bar for each part and for what is free."""
    window, used = found["window"], found["used"]
    about = "about " if found["estimated"] else ""
    share = f"{100 * used / window:.0f}%"
    head = f"{sanitize(found['model'])}: {about}{used:,} of {window:,} tokens ({share})"
    rows = [(part["name"], part["tokens"]) for part in found["parts"]]
    return [
        f"{head}, compacted above {found['compact_at']:,}",
        *format_bars([*rows, ("free", found["free"])], window),
        "The parts are estimates; together they are what the provider counted.",
    ]


def format_usage(found: dict[str, Any]) -> list[str]:
    """In all and today, by model, agent and tool."""
    lines = [_format_total("In all", found["total"]), _format_total("Today ", found["today"]["total"])]
    for title, key, name in (
        ("By model", "by_model", lambda row: row["model"]),
        ("By agent", "by_agent", _name_agent),
        ("By tool, estimated", "by_tool", lambda row: f"{row['tool']} x{row['calls']}"),
    ):
        for when, parts in (("in all", found), ("today", found["today"])):
            rows = [(name(row), count_tokens(row), row["cost_usd"]) for row in parts[key]]
            if sum(tokens for _, tokens, _ in rows):
                most = max(tokens for _, tokens, _ in rows)
                lines += ["", f"{title}, {when}", *_format_costs(rows, most)]
    return lines


def count_tokens(used: dict[str, Any]) -> int:
    """All tokens of a usage, cached or not."""
    kinds = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
    return sum(int(used[kind]) for kind in kinds)


def format_bars(rows: Iterable[tuple[str, int]], whole: int) -> list[str]:
    """A line a row: name, number, and a bar of its share."""
    return [f"  {_fit_name(name)} {count:>11,}  {_draw(count, whole)}".rstrip() for name, count in rows]


def _format_costs(rows: Sequence[tuple[str, int, str | None]], most: int) -> list[str]:
    shown = [
        f"  {_fit_name(name)} {tokens:>11,}  {_format_price(cost):>10}  {_draw(tokens, most)}".rstrip()
        for name, tokens, cost in rows[:_MOST_ROWS]
    ]
    return [*shown, f"  and {len(rows) - _MOST_ROWS} more"] if len(rows) > _MOST_ROWS else shown


def _format_total(title: str, used: dict[str, Any]) -> str:
    sent = used["input_tokens"] + used["cache_write_tokens"]
    told = [f"{sent:,} sent", f"{used['cache_read_tokens']:,} from the cache", f"{used['output_tokens']:,} written"]
    return f"{title}  {_format_price(used['cost_usd'])}  ({', '.join(told)})"


def _name_agent(row: dict[str, Any]) -> str:
    return f"{row['kind']}: {row['name']}" if row["name"] else "the session itself"


def _format_price(cost: str | None) -> str:
    return "no price" if cost is None else f"{float(cost):.4f} $"


def _fit_name(name: str) -> str:
    return fit(sanitize(name), _NAME_WIDTH).ljust(_NAME_WIDTH)


def _draw(count: int, whole: int) -> str:
    if count <= 0 or whole <= 0:
        return ""
    return "#" * max(1, min(_BAR_WIDTH, round(_BAR_WIDTH * count / whole)))
