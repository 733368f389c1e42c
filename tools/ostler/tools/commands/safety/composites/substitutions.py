"""Where a substitution may stand: where whatever it gives is only printed or compared, or where its form is known.

The line in it is judged as every other one; here it is about the words that come out of it.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from ostler.tools.commands.safety.composites.arithmetic import NotComposite
from ostler.tools.commands.safety.composites.structure import (
    Bare,
    Quoted,
    Sequence,
    Simple,
    Substitution,
    WordPieces,
)

Form = Literal["number", "date", "object", "tag", "branch", "path", "any"]

_FILE_READERS: Final = frozenset({
    "cat", "cmp", "column", "comm", "cut", "diff", "head", "join", "nl", "paste", "sort", "tail", "uniq", "wc",
})  # fmt: skip
"""What reads a file and takes nothing in it for names or orders."""
_UNDIVIDED: Final = frozenset({"number", "date", "object"})
"""One word without a pattern in it, or none."""
_COMPARISONS: Final = frozenset({"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_REVISION: Final = re.compile(
    r"(?:[A-Za-z0-9](?:[\w/-]|\.(?!\.))*|@)(?:[~^]\d{0,4})*(?::[A-Za-z0-9][\w./-]*)?", re.ASCII
)
"""A name that stands for one object."""
_DATE: Final = re.compile(r"\+(?:%[YmdHMSFTsjyuV]|[A-Za-z0-9_])(?:%[YmdHMSFTsjyuV]|[A-Za-z0-9_:.-])*")
_STAND_INS: Final[dict[Form, str]] = {
    "number": "1", "date": "1", "object": "0" * 40, "tag": "x", "branch": "x", "path": "/x", "any": "",
}  # fmt: skip
_REF_FOLDERS: Final[dict[Form, str]] = {"tag": "refs/tags/", "branch": "refs/heads/"}
"""Before a name that somebody may have planted, so that it is no option."""
_REVISION_COMMANDS: Final = frozenset(
    {"log", "diff", "show", "rev-list", "shortlog", "diff-tree", "merge-base", "rev-parse"}
)
_OBJECT_OPTIONS: Final = frozenset({"--short", "--verify", "-q", "--quiet"})


@dataclass(frozen=True, slots=True)
class Gift:
    """What a substitution gives to its command."""

    stand_in: str
    """What stands for it while the command is judged."""
    lead: str = ""
    """What is put before it."""
    quoted: bool = False
    """It runs between quotes."""


def describe_gift(name: str, words: tuple[WordPieces, ...], place: int, found: Substitution) -> Gift:
    """What a substitution gives. Raises NotComposite where it may not stand."""
    form = find_form(found.line)
    if (
        form in _REF_FOLDERS
        and place > 1
        and not found.file
        and _read_text(words[1]) in _REVISION_COMMANDS
        and name == "git"
    ):
        first = words[place][0]
        begins = first is found or (first == Quoted("") and words[place][1] is found)
        known = begins or (isinstance(first, Bare) and re.match(r"[A-Za-z0-9]", first.text))
        if not known:
            raise NotComposite("a name may be an option of git")
        lead = _REF_FOLDERS[form] if begins else ""
        return Gift(_STAND_INS[form], lead, quoted=True)
    return Gift(_find_stand_in(name, words, place, found), quoted=found.quoted)


def _find_stand_in(name: str, words: tuple[WordPieces, ...], place: int, found: Substitution) -> str:
    """What stands for a substitution while its command is judged. Raises NotComposite where it may not stand."""
    if found.file:
        if name not in _FILE_READERS or len(words[place]) > 1:
            raise NotComposite(f"{name} may take more than text from a substitution")
        return "/dev/null"
    form = find_form(found.line)
    if name == "git" and form == "object" and place > 1:
        return _STAND_INS["object"]
    if name in {"echo", "printf"}:
        # Behind an option of printf another word is the format.
        plain = name == "echo" or not (_read_text(words[1]) or "-").startswith("-")
        fits = plain and place > (name == "printf") and (found.quoted or form in _UNDIVIDED)
        stand_in = _STAND_INS["any"] if found.quoted else _STAND_INS[form]
    elif name in {"[", "test"}:
        fits = _is_compared(words[1 : -1 if name == "[" else None], place) and (found.quoted or form in _UNDIVIDED)
        stand_in = "x"
    elif name in {"basename", "dirname"}:
        fits = _is_whole(words[place]) and place > 0 and (found.quoted or form == "path")
        stand_in = "/x"
    else:
        fits, stand_in = name == "seq" and form == "number" and place > 0, "1"
    if not fits:
        raise NotComposite(f"what a substitution gives to {name} is not known")
    return stand_in


def _is_whole(word: WordPieces) -> bool:
    """Whether a word is a substitution and nothing else, with the quotes around it."""
    return sum(not (isinstance(piece, Quoted) and not piece.text) for piece in word) == 1


def _is_compared(operands: tuple[WordPieces, ...], place: int) -> bool:
    """Whether it is one side of a comparison, or what `-n` and `-z` look at: with other operators a word may be one."""
    match [_read_text(word) for word in operands]:
        case ["-n" | "-z", _]:
            return place == 2
        case [_, operator, _]:
            return operator in _COMPARISONS and place in {1, 3}
        case _:
            return False


def find_form(line: Sequence) -> Form:
    """What is known of the text that a line prints."""
    (pipeline, _), *more = line.pipelines
    last = pipeline.elements[-1]
    if more or pipeline.negated or not isinstance(last.command, Simple):
        return "any"
    words = [_read_text(word) for word in last.command.words]
    fed = len(pipeline.elements) > 1 or any(redirect.operator == "<" for redirect in last.command.redirects)
    match words:
        case ["wc", "-l" | "-w" | "-c" | "-m"] if fed:
            return "number"
        case ["nproc"]:
            return "number"
        case ["date", str(text)] if _DATE.fullmatch(text):
            return "date"
        case ["git", *rest]:
            return _find_git_form(rest) if len(pipeline.elements) == 1 else "any"
        case ["pwd"] | ["which" | "realpath", _] | ["readlink", "-f", _] | ["command", "-v", _]:
            return "path"
        case _:
            return "any"


def _find_git_form(words: list[str | None]) -> Form:
    if words == ["describe", "--tags", "--abbrev=0"]:
        return "tag"
    if words == ["branch", "--show-current"]:
        return "branch"
    if words == ["rev-parse", "--show-toplevel"]:
        return "path"
    if words[:1] == ["rev-parse"]:
        names = [word for word in words[1:] if word not in _OBJECT_OPTIONS]
        return "object" if len(names) == 1 and _is_revision(names[0]) else "any"
    if words[:1] == ["merge-base"]:
        return "object" if len(words) == 3 and all(map(_is_revision, words[1:])) else "any"
    if words[:1] == ["rev-list"] and words[1:2] in (["-1"], ["--max-count=1"]):
        return "object" if len(words) == 3 and _is_revision(words[2]) else "any"
    return "any"


def _is_revision(word: str | None) -> bool:
    return word is not None and _REVISION.fullmatch(word) is not None


def _read_text(word: WordPieces) -> str | None:
    """The text of a word that is known as it stands."""
    if not all(isinstance(piece, Bare | Quoted) for piece in word):
        return None
    text = "".join(piece.text for piece in word if isinstance(piece, Bare | Quoted))
    bare = "".join(piece.text for piece in word if isinstance(piece, Bare))
    return None if set(bare) & set("*?[{") and bare != "[" else text
