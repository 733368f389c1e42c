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


@dataclass(frozen=True, slots=True)
class Transfer:
    """Sources that are copied, moved or linked to a destination: a name, or a folder that gets their base names."""

    sources: tuple[Word, ...]
    destination: Word
    folders: Folders
    action: Literal["copy", "move", "link"]
    deep: bool = False
    """A folder is transferred with everything below it; without this it is left out."""
    destination_is: Literal["folder", "name", "either"] = "either"
    """`folder`: as after `-t`; `name`: as after `-T`; `either`: a folder where there is one."""
    keeps_path: bool = False
    """The whole path of a source is made below the destination, as by `cp --parents`."""
    copies_inside: bool = False
    """A source that ends in a slash stands for what is inside it, as for rsync."""


@dataclass(frozen=True, slots=True)
class UnknownEffect:
    """What the command does to files cannot be told from its words."""

    reason: str
    reads: bool = False
    """It is known to read files, but not which."""
    writes: bool = False
    """It is known to change files, but not which."""


Effect = FileTarget | Transfer | UnknownEffect
