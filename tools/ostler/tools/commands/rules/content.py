"""Parses the contents of `Bash(content)` rules, and indexes them by program."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ostler.tools.commands.syntax.strict_parser import parse_strictly


@dataclass(frozen=True, slots=True)
class RuleWords:
    """A rule's content, split into words."""

    words: tuple[str, ...]
    form: Literal["exact", "prefix", "pattern"]


@dataclass(frozen=True, slots=True)
class RuleIndex:
    """The contents of many rules, indexed by the program that each is about."""

    texts: tuple[str, ...]
    _rules: tuple[RuleWords, ...]
    _by_name: Mapping[str, tuple[int, ...]]
    _of_any: tuple[int, ...]
    """Those that may be about every program."""
    _lines: Mapping[str, str]
    """The first content for each text without the blanks around it."""

    def find_candidates(self, named: frozenset[str | None]) -> Iterator[tuple[str, RuleWords]]:
        """The contents that may be about one of these programs, in order; None among them: one is not known."""
        places: Iterable[int] = range(len(self.texts))
        if None not in named:
            found = [self._of_any, *(self._by_name.get(name, ()) for name in named if name is not None)]
            places = sorted(place for each in found for place in each)
        for place in places:
            yield self.texts[place], self._rules[place]

    def list_names(self) -> Iterable[str]:
        """The programs that the contents name."""
        return self._by_name

    def find_line(self, command: str) -> str | None:
        """The first content that is this whole line."""
        return self._lines.get(command.strip())


def index_allow_rules(contents: Iterable[str]) -> RuleIndex:
    """The index for `find_uncovered` and `find_helping_rule`."""
    texts = tuple(contents)
    return _build_index(texts, tuple(map(parse_rule_words, texts)))


def index_forbid_rules(contents: Iterable[str]) -> RuleIndex:
    """The index for `find_forbidding_rule` and `may_be_forbidden`: programs without their paths."""
    texts = tuple(contents)
    return _build_index(texts, tuple(strip_program_path(parse_rule_words(text)) for text in texts))


def _build_index(texts: tuple[str, ...], rules: tuple[RuleWords, ...]) -> RuleIndex:
    by_name: dict[str, list[int]] = {}
    of_any: list[int] = []
    for place, rule in enumerate(rules):
        wide = not rule.words or "*" in rule.words[0]
        (of_any if wide else by_name.setdefault(rule.words[0], [])).append(place)
    fixed = {name: tuple(places) for name, places in by_name.items()}
    return RuleIndex(texts, rules, fixed, tuple(of_any), {text.strip(): text for text in reversed(texts)})


@lru_cache(maxsize=8192)
def parse_rule_words(content: str) -> RuleWords:
    text = content.strip()
    prefix = text.removesuffix(":*") if text.endswith(":*") else text[:-1].rstrip() if text.endswith(" *") else None
    if text == "*":
        prefix = ""
    if prefix is not None and "*" not in prefix:
        return RuleWords(_split_words(prefix), "prefix")
    if prefix is not None:
        return RuleWords((*_split_words(prefix), "*"), "pattern")
    return RuleWords(_split_words(text), "pattern" if "*" in text else "exact")


def _split_words(text: str) -> tuple[str, ...]:
    """A rule's words without their quotes; where it is no plain command, as they are written."""
    if not text:
        return ()
    reading = parse_strictly(text)
    commands = reading.commands if reading is not None and reading.plain else None
    if commands is None or len(commands) != 1 or commands[0].redirections:
        return tuple(text.split())
    return tuple(word.text for word in commands[0].words)


@lru_cache(maxsize=8192)
def strip_program_path(rule: RuleWords) -> RuleWords:
    if not rule.words or "*" in rule.words[0]:
        return rule
    return RuleWords((posixpath.basename(rule.words[0]) or rule.words[0], *rule.words[1:]), rule.form)
