"""The front matter of a Markdown file: the few forms of YAML that people write there, each value with its line."""

from dataclasses import dataclass
from typing import Final

_FENCE: Final = "---"


class BadFrontMatter(Exception):
    """It cannot be read; the line is 1-based."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


@dataclass(frozen=True, slots=True)
class Entry:
    """A value as it stands: one text, or the items of a list."""

    line: int
    value: str | tuple[str, ...]

    def as_text(self) -> str:
        return self.value if isinstance(self.value, str) else ", ".join(self.value)

    def as_list(self) -> tuple[str, ...]:
        """The items; of a text, those between its commas."""
        if isinstance(self.value, tuple):
            return self.value
        return tuple(item.strip() for item in self.value.split(",") if item.strip())


@dataclass(frozen=True, slots=True)
class MarkdownFile:
    entries: dict[str, Entry]
    body: str


def parse_front_matter(text: str) -> MarkdownFile:
    """`key: value`, `key: [a, b]`, `key:` with lines `- a`, and `key: |` or `>` with lines that are indented.

    Raises BadFrontMatter.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        raise BadFrontMatter(1, "It does not begin with front matter: a line `---`, fields, and another such line.")
    end = next((at for at in range(1, len(lines)) if lines[at].rstrip() == _FENCE), None)
    if end is None:
        raise BadFrontMatter(1, "Its front matter has no end: a line `---` is missing.")
    entries: dict[str, Entry] = {}
    at = 1
    while at < end:
        line = lines[at]
        if not line.strip() or line.lstrip().startswith("#"):
            at += 1
            continue
        key, colon, rest = line.partition(":")
        if not colon or line[0].isspace() or not key.strip():
            raise BadFrontMatter(at + 1, f"{line.strip()[:80]!r} is no field: `name: value` is expected.")
        if key.strip() in entries:
            raise BadFrontMatter(at + 1, f"The field {key.strip()!r} stands there twice.")
        first, at = at + 1, at + 1
        block: list[str] = []
        while at < end and (not lines[at].strip() or lines[at][0].isspace() or lines[at].startswith("- ")):
            block.append(lines[at].strip())
            at += 1
        entries[key.strip()] = Entry(first, _read_value(rest.strip(), block, first))
    return MarkdownFile(entries, "\n".join(lines[end + 1 :]).strip())


def _read_value(rest: str, block: list[str], line: int) -> str | tuple[str, ...]:
    below = [each for each in block if each]
    if rest in {"|", "|-", ">", ">-"}:
        return ("\n" if rest[0] == "|" else " ").join(below)
    if not rest and below and all(each.startswith("- ") for each in below):
        return tuple(_unquote(each[2:]) for each in below)
    if rest.startswith("["):
        if not rest.endswith("]"):
            raise BadFrontMatter(line, "The list has no end: a `]` is missing.")
        return tuple(_unquote(item) for item in rest[1:-1].split(",") if item.strip())
    return _unquote(" ".join([rest, *below]))


def _unquote(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text
