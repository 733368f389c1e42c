"""What the words of a simple command name: the files that it accesses, before any of them is looked up on the disk."""

from dataclasses import dataclass
from typing import Literal

from ostler.tools.commands.syntax.parsed import Folders
from ostler.tools.commands.syntax.words import Word

FileAction = Literal["read", "write", "create", "move", "link", "delete"]
"""`move` is what happens to a source: it is read, and gone afterwards. `link` is the new name."""


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A word that names what is accessed."""

    word: Word | None
    """None: the folder that the command runs in."""
    folders: Folders
    action: FileAction
    deep: bool = False
    """Everything below it as well."""
    follows: bool = False
    """With `deep`: through the links below it, too."""
    lists: bool = False
    """It shows names and not contents."""
    tracked: bool = False
    """With `deep`: of what is below it only what git tracks, or knows to be left over."""
    from_top: bool = False
    """It is relative to the top of the repository, as in `HEAD:path`."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Sources that are copied, moved or linked to a destination: a name, or a folder that gets their base names."""

    sources: tuple[Word, ...]
    destination: Word
    folders: Folders
    action: Literal["copy", "move", "link"]
    deep: bool = False
    """A folder is transferred with everything below it; without this it is left out."""
    destination_is: Literal["folder", "name", "either", "unknown"] = "either"
    """`folder`: as after `-t`; `name`: as after `-T`; `either`: a folder where there is one; `unknown`: try both."""
    keeps_path: bool = False
    """The whole path of a source is made below the destination, as by `cp --parents`."""
    copies_inside: bool = False
    """A source that ends in a slash stands for what is inside it, as for rsync."""
    follows: bool = False
    """What the links in a source lead to is copied, too."""
    backups: tuple[str, ...] = ()
    """Endings that an existing file at the destination gets before it is replaced."""


@dataclass(frozen=True, slots=True)
class RepositoryRead:
    """Contents that git shows or copies from its store: of the paths among the words, else of all that it holds."""

    words: tuple[Word, ...]
    only_paths: bool
    """Each word is a path, as after `--`; else some of them may be revisions."""
    folders: Folders


@dataclass(frozen=True, slots=True)
class MentionedText:
    """A word of a program that may do anything with it: it may contain the name of a file."""

    text: str
    folders: Folders


@dataclass(frozen=True, slots=True)
class UnknownEffect:
    """What the command does to files cannot be told from its words."""

    reason: str
    reads: bool = False
    """It is known to read files, but not which."""
    writes: bool = False
    """It is known to change files, but not which."""


Effect = FileTarget | Transfer | RepositoryRead | MentionedText | UnknownEffect


@dataclass(frozen=True, slots=True)
class FileAccess:
    """One path, absolute but not resolved."""

    path: str
    action: FileAction
    deep: bool = False
    """Everything below it as well."""
    lists: bool = False
    """Only the name is shown, and with `deep` the names below it."""

    @property
    def writes(self) -> bool:
        return self.action != "read"


@dataclass(frozen=True, slots=True)
class ShownRepository:
    """Contents that git shows from its store, present ones and old ones."""

    folder: str
    """Where git runs."""
    paths: tuple[str, ...]
    """All that it shows is at or below these; empty: that is not so."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A path that stands somewhere in a word."""

    path: str
    in_text: bool
    """It is a piece of a longer text, such as code."""
    may_exist: bool
    """It is there, or the line itself may make it."""


@dataclass(frozen=True, slots=True)
class FileEffects:
    """What a command does to files, as far as its words and the disk tell."""

    accesses: tuple[FileAccess, ...]
    unknown: str | None = None
    """Why it may do more than that; None: that is all."""
    unknown_reads: bool = False
    """It reads files of which only the run tells the names."""
    unknown_writes: bool = False
    """The same for files that it changes."""
    unchecked: str | None = None
    """What holds more files than were looked at."""
    repositories: tuple[ShownRepository, ...] = ()
    mentions: tuple[Mention, ...] = ()
    """Paths that stand somewhere in the words of programs that may do anything with them."""
