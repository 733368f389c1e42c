"""Reads one skill: its front matter, checked, and its text with the arguments filled in."""

import hashlib
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal

from ostler.server.settings.agent_kinds.front_matter import BadFrontMatter, Entry, MarkdownFile, parse_front_matter
from ostler.server.settings.rule_lists import check_tool_name
from ostler.server.settings.safe_read import Unreadable, read_bytes
from ostler.server.settings.types import Problem, SkillEntry, Source
from ostler.tools.permissions import BadRule, parse_rule
from ostler.tools.spelling import find_close

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,63}(?::[A-Za-z0-9][\w.-]{0,63}){0,4}")
_PLACEHOLDER: Final = re.compile(r"\\\$|\$(?:(ARGUMENTS)\b|([1-9])(?!\d))")
_FIELDS: Final = (
    "name", "description", "allowed-tools", "model", "context", "agent", "argument-hint", "disable-model-invocation",
    "user-invocable",
)  # fmt: skip
_FOR_OTHERS: Final = frozenset({"license", "metadata", "version", "compatibility", "author", "when_to_use", "tags"})
"""Fields that say nothing to us, and that many skills have."""
_MAX_DESCRIPTION: Final = 1_024
_MAX_HINT: Final = 200
_FIRST_LINE: Final = 200


class BadSkill(Exception):
    """The file holds no skill that can be used; the line is 1-based."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def parse_skill(
    file: str, name: str, source: Source, root: str, folder: str | None, known_tools: Collection[str] | None
) -> tuple[SkillEntry, Sequence[Problem]]:
    """The skill of a file, and what is wrong with it that does not keep it from being used. Blocks; raises BadSkill."""
    digest, parsed = read_skill_file(file)
    fields = parsed.entries
    problems = [*_check_fields(file, fields)]
    name = _read_text(fields, "name") or name
    if _NAME.fullmatch(name) is None:
        raise BadSkill(_get_line(fields, "name"), f"{name[:80]!r} is no name: letters, digits, `-`, `_`, `.` and `:`.")
    if not parsed.body:
        raise BadSkill(1, "There is nothing below the front matter.")
    allowed, wrong = _read_allowed(file, fields, known_tools)
    entry = SkillEntry(
        name=name,
        description=(_read_text(fields, "description") or _get_first_line(parsed.body))[:_MAX_DESCRIPTION],
        source=source,
        file=file,
        digest=digest,
        root=root,
        folder=folder,
        allowed=allowed,
        model=_read_model(fields),
        context=_read_context(fields),
        agent=_read_text(fields, "agent") or None,
        hint=_read_text(fields, "argument-hint")[:_MAX_HINT],
        by_model=not _read_flag(fields, "disable-model-invocation", otherwise=False),
        by_person=_read_flag(fields, "user-invocable", otherwise=True),
    )
    return entry, (*problems, *wrong)


def read_skill_file(file: str) -> tuple[str, MarkdownFile]:
    """The digest of the file and what it holds. Blocks; raises BadSkill."""
    try:
        data = read_bytes(file)
        if data is None:
            raise BadSkill(1, "It is gone.")
        text = data.decode("utf-8")
    except Unreadable as error:
        raise BadSkill(1, str(error)) from None
    except UnicodeDecodeError:
        raise BadSkill(1, "It is no UTF-8.") from None
    if "\0" in text:
        raise BadSkill(text[: text.index("\0")].count("\n") + 1, "It is no text: it has a NUL in it.")
    try:
        begins = text.removeprefix("\ufeff").startswith("---")
        parsed = parse_front_matter(text) if begins else MarkdownFile({}, text.strip())
    except BadFrontMatter as bad:
        raise BadSkill(bad.line, bad.message) from None
    return hashlib.sha256(data).hexdigest(), parsed


def fill_arguments(body: str, arguments: str) -> str:
    """The text with `$ARGUMENTS` and `$1` to `$9` filled in; where it has none of them, the arguments follow it.

    What is filled in is not looked at again. `\\$` stands for a dollar.
    """
    words = _split_words(arguments)
    used = False

    def fill(found: re.Match[str]) -> str:
        nonlocal used
        if found[0] == "\\$":
            return "$"
        used = True
        if found[1]:
            return arguments
        at = int(found[2]) - 1
        return words[at] if at < len(words) else ""

    filled = _PLACEHOLDER.sub(fill, body)
    return filled if used or not arguments.strip() else f"{filled}\n\nArguments: {arguments}"


def _split_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote without its other half: an apostrophe
        return text.split()


def split_rules(text: str) -> tuple[str, ...]:
    """The rules of `Read, Bash(git add:*)`: they stand apart by commas or blanks that are in no parentheses."""
    rules, depth, current = list[str](), 0, ""
    for character in text:
        depth += (character == "(") - (character == ")" and depth > 0)
        if depth == 0 and (character == "," or character.isspace()):
            rules.append(current)
            current = ""
        else:
            current += character
    return tuple(rule for rule in (*rules, current) if rule)


def _check_fields(file: str, fields: dict[str, Entry]) -> Iterator[Problem]:
    for name, entry in fields.items():
        if name in _FIELDS or name in _FOR_OTHERS:
            continue
        close = find_close(name, _FIELDS)
        if close:
            # Left out as a whole: the field that was meant may be one that was to narrow it.
            raise BadSkill(entry.line, f"The field {name[:80]!r} is not known; did you mean {close[0]}?")
        yield Problem(file, entry.line, 1, f"The field {name[:80]!r} is not known, and says nothing here.")


def _read_allowed(
    file: str, fields: dict[str, Entry], known_tools: Collection[str] | None
) -> tuple[tuple[str, ...], Sequence[Problem]]:
    if "allowed-tools" not in fields:
        return (), ()
    entry = fields["allowed-tools"]
    allowed: list[str] = []
    problems: list[Problem] = []
    for text in split_rules(entry.as_text()):
        try:
            wrong = check_tool_name(parse_rule(text), known_tools)
        except BadRule as error:
            wrong = error.message
        if wrong:
            problems.append(Problem(file, entry.line, 1, f"{text[:200]!r} of allowed-tools does not count: {wrong}"))
        else:
            allowed.append(text)
    return tuple(allowed), problems


def _read_context(fields: dict[str, Entry]) -> Literal["inline", "fork"]:
    match _read_text(fields, "context") or "inline":
        case "inline":
            return "inline"
        case "fork":
            return "fork"
        case other:
            raise BadSkill(fields["context"].line, f"{other[:80]!r} is no context: it is `inline` or `fork`.")


def _read_model(fields: dict[str, Entry]) -> str | None:
    model = _read_text(fields, "model")
    return None if model in {"", "inherit"} else model


def _read_flag(fields: dict[str, Entry], name: str, *, otherwise: bool) -> bool:
    text = _read_text(fields, name).lower()
    if not text:
        return otherwise
    if text not in {"true", "false", "yes", "no"}:
        raise BadSkill(fields[name].line, f"{name} is `true` or `false`, and not {text[:80]!r}.")
    return text in {"true", "yes"}


def _read_text(fields: dict[str, Entry], name: str) -> str:
    return fields[name].as_text().strip() if name in fields else ""


def _get_line(fields: dict[str, Entry], name: str) -> int:
    return fields[name].line if name in fields else 1


def _get_first_line(body: str) -> str:
    lines = (line.strip().lstrip("#").strip() for line in body.splitlines())
    return next((line for line in lines if line), "")[:_FIRST_LINE]
