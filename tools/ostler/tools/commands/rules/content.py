"""The contents of `Bash(content)` rules, taken apart and ready to be looked up."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ostler.tools.commands.syntax.strict_parser import read_plain


@dataclass(frozen=True, slots=True)
class RuleWords:
    """What a rule says, word by word."""

    words: tuple[str, ...]
    form: Literal["exact", "prefix", "pattern"]


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of many rules, each to be found by the program that it speaks of."""

    texts: tuple[str, ...]
    _rules: tuple[RuleWords, ...]
    _by_name: Mapping[str, tuple[int, ...]]
    _of_any: tuple[int, ...]
    """Those that may speak of every program."""
    _lines: Mapping[str, str]
    """The first for each text without the blanks around it."""

    def about(self, named: frozenset[str | None]) -> Iterator[tuple[str, RuleWords]]:
        """Those that may speak of one of these programs, in order; None among them: one is not known."""
        places: Iterable[int] = range(len(self.texts))
        if None not in named:
            found = [self._of_any, *(self._by_name.get(name, ()) for name in named if name is not None)]
            places = sorted(place for each in found for place in each)
        for place in places:
            yield self.texts[place], self._rules[place]

    def as_line(self, command: str) -> str | None:
        """The first that is this whole line."""
        return self._lines.get(command.strip())


def allowing_contents(contents: Iterable[str]) -> Contents:
    """Prepared for `judge_allow` and `first_help`."""
    texts = tuple(contents)
    return _prepared(texts, tuple(map(rule_words, texts)))


def forbidding_contents(contents: Iterable[str]) -> Contents:
    """Prepared for `judge_match` and `undecided`: a program goes by its bare name."""
    texts = tuple(contents)
    return _prepared(texts, tuple(with_bare_name(rule_words(text)) for text in texts))


def _prepared(texts: tuple[str, ...], rules: tuple[RuleWords, ...]) -> Contents:
    by_name: dict[str, list[int]] = {}
    of_any: list[int] = []
    for place, rule in enumerate(rules):
        wide = not rule.words or "*" in rule.words[0]
        (of_any if wide else by_name.setdefault(rule.words[0], [])).append(place)
    fixed = {name: tuple(places) for name, places in by_name.items()}
    return Contents(texts, rules, fixed, tuple(of_any), {text.strip(): text for text in reversed(texts)})


@lru_cache(maxsize=8192)
def rule_words(content: str) -> RuleWords:
    text = content.strip()
    prefix = text.removesuffix(":*") if text.endswith(":*") else text[:-1].rstrip() if text.endswith(" *") else None
    if text == "*":
        prefix = ""
    if prefix is not None and "*" not in prefix:
        return RuleWords(_words(prefix), "prefix")
    if prefix is not None:
        return RuleWords((*_words(prefix), "*"), "pattern")
    return RuleWords(_words(text), "pattern" if "*" in text else "exact")


def _words(text: str) -> tuple[str, ...]:
    """A rule's words without their quotes; where it is no plain command, as they stand."""
    if not text:
        return ()
    commands = read_plain(text)
    if commands is None or len(commands) != 1 or commands[0].redirections:
        return tuple(text.split())
    return tuple(word.text for word in commands[0].words)


@lru_cache(maxsize=8192)
def with_bare_name(rule: RuleWords) -> RuleWords:
    if not rule.words or "*" in rule.words[0]:
        return rule
    return RuleWords((posixpath.basename(rule.words[0]) or rule.words[0], *rule.words[1:]), rule.form)
