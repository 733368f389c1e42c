"""Which old results are cleared: the model gets one line in the place of each, and may call again.

Oldest first. The last ones stay, and so does what nobody could get again: an agent's report, a person's answer, a tool
that was loaded. A result that a later one refers to is cleared only together with that one.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ostler.protocol.patterns import compile_later
from ostler.server.engine.context.repeats import find_repeated
from ostler.server.engine.context.rows import Row, StoredResult, list_results
from ostler.tools.token_estimate import BYTES_PER_TOKEN, estimate_block

KEPT_TOKENS: Final = 40_000
"""Of the last results."""
LEAST_GAIN: Final = 20_000
"""Clearing costs the prompt cache of all that follows: it is done for no less."""
_LEAST_TOKENS: Final = 100
"""A shorter result is not worth a line in its place."""
SKILL_TOOL: Final = "Skill"
_LASTING: Final = frozenset(
    {"Agent", "Task", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode", SKILL_TOOL, "SlashCommand", "ToolSearch"}
)
_HEAD: Final = "(Cleared to make room: "
_KEPT: Final = compile_later(r"result://(r_\w+)")
UNCHANGED: Final = "in the conversation already, and the file has not changed since.)"
"""How Read ends where it gives nothing, since the model has it already."""


def choose_cleared(rows: Sequence[Row]) -> dict[str, str]:
    """The text in the place of each result that is to be cleared, by tool_use id; none where too little is gained."""
    results = list(list_results(rows))
    sizes = {result.id: estimate_block(result.block) for result in results}
    # The model has not seen what came after its last message.
    unseen = max((at for at, row in enumerate(rows) if row.role == "assistant"), default=0)
    old = [result for result in _list_old(results, sizes) if result.at < unseen]
    chosen = {result.id for result in old if _may_clear(result, sizes[result.id])}
    # What is cleared must not be needed by anything that stays.
    while blocked := {
        wanted for result in results if result.id not in chosen for wanted in _list_wanted(result, results)
    }:
        if not blocked & chosen:
            break
        chosen -= blocked
    texts = {result.id: describe_cleared(result) for result in results if result.id in chosen}
    gain = sum(sizes[name] - len(text) // BYTES_PER_TOKEN for name, text in texts.items())
    return texts if gain >= LEAST_GAIN else {}


def find_dangling(kept: Sequence[Row], gone: Sequence[Row]) -> dict[str, str]:
    """The results among the kept rows that refer to one that is gone, each with the text in its place."""
    results = list(list_results([*gone, *kept]))
    lost = {result.id for result in results if result.at < len(gone)}
    return {
        result.id: describe_cleared(result)
        for result in results
        if result.id not in lost and any(wanted in lost for wanted in _list_wanted(result, results))
    }


def list_cleared_files(rows: Sequence[Row], cleared: Iterable[str]) -> list[str]:
    """The files that cleared results of Read showed, as the model named them: they count as not shown."""
    names = set(cleared)
    paths = (
        str(result.use["input"].get("file_path", ""))
        for result in list_results(rows)
        if result.id in names and result.use["name"] == "Read"
    )
    return list(dict.fromkeys(path for path in paths if path))


def describe_cleared(result: StoredResult) -> str:
    """The line in the place of a cleared result."""
    name, text = result.use["name"], result.text
    kept = _KEPT.search(text)
    more = f" All of it is in result://{kept[1]}." if kept else ""
    return f"{_HEAD}{len(text):,} characters that {name} gave.{more} Call it again where you need them.)"


def is_cleared(text: str) -> bool:
    return text.startswith(_HEAD)


def _list_old(results: Sequence[StoredResult], sizes: dict[str, int]) -> list[StoredResult]:
    kept = 0
    for at in range(len(results) - 1, -1, -1):
        kept += sizes[results[at].id]
        if kept > KEPT_TOKENS:
            return list(results[: at + 1])
    return []


def _may_clear(result: StoredResult, tokens: int) -> bool:
    if result.use["name"] in _LASTING or is_cleared(result.text):
        return False
    # What refers to another goes with it, however short it is.
    return tokens >= _LEAST_TOKENS or _refers(result)


def _refers(result: StoredResult) -> bool:
    return find_repeated(result.text) is not None or _is_unchanged(result)


def _is_unchanged(result: StoredResult) -> bool:
    return result.use["name"] == "Read" and result.text.endswith(UNCHANGED)


def _list_wanted(result: StoredResult, results: Sequence[StoredResult]) -> list[str]:
    """The earlier results that one refers to."""
    if (repeated := find_repeated(result.text)) is not None:
        return [repeated]
    if not _is_unchanged(result):
        return []
    path = result.use["input"].get("file_path")
    shown = (one for one in results if one.use["name"] == "Read" and one.use["input"].get("file_path") == path)
    return [one.id for one in shown if one.at <= result.at and not _is_unchanged(one)]
