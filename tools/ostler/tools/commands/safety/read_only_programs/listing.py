"""A list of files that is made when a command runs; looks on the disk whether a name in it could do harm."""

import fnmatch
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ostler.tools.commands.syntax.words import Word

_MAX_ENTRIES: Final = 20_000
"""Entries that are looked at for one command: more would hold up the call."""
_SPLITTING: Final = re.compile(r"[\s'\"\\]")


@dataclass(frozen=True, slots=True)
class Listing:
    """Where it looks for files, and what could be wrong with a name that it finds."""

    roots: tuple[Word | None, ...]
    """What is searched; None: the folder that it runs in."""
    patterns: tuple[str, ...] = ()
    """Only files with names like one of these are listed; none: any."""
    links: bool = True
    """A name may be that of a link, through which the file is read."""
    follows: bool = False
    """Through the links below a folder files are read as well, whatever their names."""
    splits: bool = False
    """A blank or a quote in a name makes two words of it."""
    options: bool = False
    """A name may begin with a dash."""
    hidden: bool = True
    """Names that begin with a dot are listed."""
    shallow: bool = False
    """Nothing below the folders in it is read."""


def find_listing_problem(listing: Listing, folder: str, most: int = _MAX_ENTRIES) -> str | None:
    """What is wrong with a file that may be listed, run in a folder; None: nothing. Blocks: looks at the disk."""
    if not (listing.links or listing.follows or listing.splits or listing.options):
        return None
    look = _Look(listing, most)
    for root in listing.roots:
        if root is not None and listing.splits and _SPLITTING.search(root.text):
            return f"{root.source} would be split in two"
        top = folder if root is None else os.path.join(folder, os.path.expanduser(root.text))
        for entry in look.walk(top):
            if (problem := look.find_problem(entry, os.path.realpath(top))) is not None:
                return problem
        if look.left < 0:
            return f"{top} holds more files than can be looked at"
    return None


@dataclass(slots=True)
class _Look:
    """One look at the disk, of a bounded length."""

    listing: Listing
    left: int

    def walk(self, top: str) -> "Iterator[os.DirEntry[str]]":
        waiting = [top]
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        self.left -= 1
                        if self.left < 0:
                            return
                        if entry.name.startswith(".") and not self.listing.hidden:
                            continue
                        yield entry
                        if not self.listing.shallow and entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
            except OSError:
                # What cannot be read here cannot be listed there either.
                continue

    def find_problem(self, entry: "os.DirEntry[str]", top: str) -> str | None:
        listing = self.listing
        listed = not listing.patterns or any(
            fnmatch.fnmatchcase(entry.name.casefold(), pattern.casefold()) for pattern in listing.patterns
        )
        if entry.is_symlink() and (listing.follows or (listing.links and listed)):
            leads = os.path.realpath(entry.path)
            if leads != top and not leads.startswith(f"{top.rstrip('/')}/"):
                return f"{entry.path} leads out of the folder that is searched"
        # The name of a folder is a part of the names below it.
        if not listed and not entry.is_dir(follow_symlinks=False):
            return None
        if listing.splits and _SPLITTING.search(entry.name):
            return f"{entry.path} would be split in two"
        return f"{entry.path} may be taken for an option" if listing.options and entry.name[:1] in "-+@" else None
