"""What was understood of a command."""

from dataclasses import dataclass
from typing import Final, Literal

from ostler.tools.commands.words import Word

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

    @property
    def words(self) -> tuple[str | None, ...]:
        """The words without their quotes; None for one that the shell decides at run time."""
        return tuple(token.literal for token in self.tokens)

    @property
    def folder(self) -> str | None:
        """The one folder that it runs in, where there is only one."""
        return self.folders[0] if self.folders is not None and len(self.folders) == 1 else None

    @property
    def literal_words(self) -> tuple[str, ...] | None:
        """All its words, where each is literal."""
        words = tuple(token.text for token in self.tokens if token.kind == "literal")
        return words if len(words) == len(self.tokens) else None


@dataclass(frozen=True, slots=True)
class Reading:
    """A command, taken apart."""

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
