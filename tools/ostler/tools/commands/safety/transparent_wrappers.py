"""Strips wrappers that allow rules ignore: `timeout 5`, `nice`, `time`, `nohup`, `command`."""

from collections.abc import Sequence
from dataclasses import replace

from ostler.tools.commands.safety.wrappers import Wrapper, count_option_words, load_wrappers
from ostler.tools.commands.syntax.parsed import SimpleCommand


def strip_wrappers(part: SimpleCommand) -> SimpleCommand | None:
    """The simple command inside harmless wrappers; None where one of them has an option that is not known."""
    words = part.literal_words
    tokens = part.tokens
    while words and (wrapper := load_wrappers().get(words[0])) is not None and wrapper.harmless:
        skipped = _count_wrapper_words(words, wrapper)
        if skipped is None:
            return None
        words, tokens = words[skipped:], tokens[skipped:]
    if words is None:
        return None
    return part if tokens is part.tokens else replace(part, tokens=tokens)


def _count_wrapper_words(words: Sequence[str], wrapper: Wrapper) -> int | None:
    place = 1
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        if words[place][:2] in {"-o", "-v", "-V"} or words[place].startswith("--output"):
            return None
        taken, known = count_option_words(words[place], wrapper)
        if not known:
            return None
        place += taken
    place += 1 if place < len(words) and words[place] == "--" else 0
    if any(not word[:1].isdigit() for word in words[place : place + wrapper.operands]):
        return None
    return place + wrapper.operands if place + wrapper.operands < len(words) else None
