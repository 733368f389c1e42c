"""The result of parsing a command: its simple commands, their redirections and what was not understood."""

from dataclasses import dataclass, field
from typing import Final, Literal, cast

from ostler.tools.commands.syntax.words import Word

Folders = tuple[str, ...] | None
"""The folders that something may run in, relative to where the command starts (`""`); None: that is not known."""

Construct = Literal["substitution", "function", "background", "pipe", "loop"]
"""A construct of the shell that a simple command may be inside of."""

WRITE_OPERATORS: Final = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})
_NULL_DEVICE: Final = "/dev/null"


@dataclass(frozen=True, slots=True)
class Redirection:
    """One redirection; the target of a heredoc is its text."""

    operator: str
    fd: str
    target: Word
    folders: Folders

    @property
    def copies(self) -> bool:
        """It copies or closes a file descriptor."""
        text = self.target.literal
        return self.operator.endswith("&-") or (
            self.operator in {">&", "<&"} and text is not None and (text.isdecimal() or text == "-")
        )

    @property
    def writes(self) -> bool:
        """It may create or change a file."""
        return self.operator in WRITE_OPERATORS and not self.copies and self.target.literal != _NULL_DEVICE

    @property
    def reads(self) -> bool:
        return self.operator in {"<", "<&", "<>"} and not self.copies and self.target.literal != _NULL_DEVICE


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One simple command."""

    text: str
    tokens: tuple[Word, ...]
    assignments: tuple[tuple[str, str | None], ...] = ()
    redirections: tuple[Redirection, ...] = ()
    folders: Folders = ("",)
    inside: frozenset[Construct] = frozenset()
    words: tuple[str | None, ...] = field(init=False, repr=False, compare=False)
    """The words without their quotes; None for one that the shell decides at run time."""

    def __post_init__(self) -> None:
        # Computed once: each simple command is compared with many rules.
        words = tuple([token.text if token.kind == "literal" else None for token in self.tokens])
        object.__setattr__(self, "words", words)

    @property
    def folder(self) -> str | None:
        """The one folder that it runs in, where there is only one."""
        return self.folders[0] if self.folders is not None and len(self.folders) == 1 else None

    @property
    def literal_words(self) -> tuple[str, ...] | None:
        """All its words, where each is literal."""
        return None if None in self.words else cast("tuple[str, ...]", self.words)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ParsedCommand:
    """A parsed command. Equal only to itself: caches use it as a weak key."""

    command: str
    parts: tuple[SimpleCommand, ...]
    problem: str | None
    """Why it is not fully understood."""
    plain: bool
    """Nothing but simple commands joined by `&&`, `||`, `;`, `|` and newlines: no group, no assignment,
    and no expansion but patterns and `$?`, `$PATH`, `$HOME` and `$PWD`."""
    agreed: bool = False
    """As plain, or with `( … )` and here-documents of literal text besides: two parsers agree on every word."""


def make_literal_word(text: str) -> Word:
    """A literal word, without quotes."""
    return Word(text, text, "literal")


def make_unknown_word(source: str) -> Word:
    """A word whose value is known only at run time."""
    return Word(source, "", "unknown")
