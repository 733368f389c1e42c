"""What was understood of a command."""

from dataclasses import dataclass, field
from typing import Final, Literal, cast

from ostler.tools.commands.syntax.words import Word

Folders = tuple[str, ...] | None
"""The folders that something may run in, relative to where the command starts (`""`); None: that is not known."""

Inside = Literal["substitution", "function", "background", "pipe", "loop"]

WRITING: Final = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})
_NOWHERE: Final = "/dev/null"


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
        return self.operator in WRITING and not self.copies and self.target.literal != _NOWHERE

    @property
    def reads(self) -> bool:
        return self.operator in {"<", "<&", "<>"} and not self.copies and self.target.literal != _NOWHERE


@dataclass(frozen=True, slots=True)
class Part:
    """One simple command."""

    text: str
    tokens: tuple[Word, ...]
    assignments: tuple[tuple[str, str | None], ...] = ()
    redirections: tuple[Redirection, ...] = ()
    folders: Folders = ("",)
    inside: frozenset[Inside] = frozenset()
    words: tuple[str | None, ...] = field(init=False, repr=False, compare=False)
    """The words without their quotes; None for one that the shell decides at run time."""

    def __post_init__(self) -> None:
        # Once and for all: each part is compared with many rules.
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
class Reading:
    """A command, taken apart. Equal only to itself: what was found out about it is remembered by it."""

    command: str
    parts: tuple[Part, ...]
    problem: str | None
    """Why it is not fully understood."""
    plain: bool
    """Nothing but simple commands joined by `&&`, `||`, `;`, `|` and newlines: no expansion, group or assignment."""


def literal_word(text: str) -> Word:
    """A word that stands for itself."""
    return Word(text, text, "literal")


def unknown_word(source: str) -> Word:
    """A word that only the run decides."""
    return Word(source, "", "unknown")
