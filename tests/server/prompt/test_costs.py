"""What everybody pays before the first message."""

from typing import Final

from scripts.prompt_page import build_full_view, count_prompt_tokens

_MOST_TOKENS: Final = 9_000
_PLACE_TOKENS: Final = 150
"""Of the part about where the session is, which is different everywhere."""


def test_prompt_and_tools_of_the_full_set_stay_below_nine_thousand_tokens() -> None:
    assert 5_000 < count_prompt_tokens() < _MOST_TOKENS - _PLACE_TOKENS
    assert {"Agent", "Bash", "ExitPlanMode", "Skill", "WebFetch"} <= (build_full_view().tools or frozenset())
