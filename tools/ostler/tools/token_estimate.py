"""How many tokens a prompt and the schemas of tools are, without asking anybody: rather too many than too few."""

from typing import Final

CHARS_PER_TOKEN: Final = 3.5
"""English prose has about four characters a token, JSON and code about three and a half."""


def estimate_tokens(chars: int) -> int:
    """The tokens of a text with so many characters, or bytes of UTF-8."""
    return round(chars / CHARS_PER_TOKEN)
