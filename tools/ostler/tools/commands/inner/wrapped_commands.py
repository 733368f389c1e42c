"""Opens a wrapper, an interpreter or any program that runs others: finds the commands in its arguments.

Also the placeholders, such as `{}`, that `xargs` and `find` replace in the command they run.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from ostler.tools.commands.inner.git_commands import open_git
from ostler.tools.commands.inner.inline_code import runs_nothing
from ostler.tools.commands.inner.shell_lines import (
    SHELLS,
    Opened,
    make_undecided,
    names_descriptor,
    open_shell,
    open_stdin,
    parse_line,
    parse_lines,
)
from ostler.tools.commands.inner.wrapper_table import Wrapper, find_wrapper
from ostler.tools.commands.syntax.parsed import SimpleCommand, make_literal_word, make_unknown_word
from ostler.tools.commands.syntax.strict_parser import ASSIGNMENT
from ostler.tools.commands.syntax.words import Word

FINDERS: Final = frozenset({"find", "fd", "fdfind"})
_REPLACING: Final = re.compile(r"-[^-IiJ]*[IiJ](.*)|--replace=?(.*)", re.DOTALL)
_FIND_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FD_RUNS: Final = frozenset({"-x", "-X", "--exec", "--exec-batch"})
_MAX_POSSIBLE_WORDS: Final = 4_000
"""Words of all the commands that may begin at one word or another; with more, what runs counts as unknown."""
_SCRIPT_BELOW: Final = re.compile(r"\"?\$\{?\w+\}?(?:/[\w.-]+)*/(?!stdin)[\w.-]*[a-zA-Z][\w.-]*\"?")
"""A file whose folder is a variable's value: no option, and no descriptor."""
_SPLIT_SPECIALS: Final = frozenset("\\$'\"#")


def open_command(part: SimpleCommand) -> Opened | None:
    """What a command runs, one wrapper deep; None for a program that is not known to run others."""
    name = part.tokens[0].literal if part.tokens else None
    if name is None:
        return None
    part = _drop_descriptor_words(part)
    if name in SHELLS:
        return open_shell(part)
    if name in FINDERS:
        return _open_finder(part, name)
    found = find_wrapper(part)
    opened = _open_wrapper(part, *found) if found is not None else None
    if name == "git":
        own = open_git(part)
        return own if opened is None else Opened((*own.commands, *opened.commands), (), own.hidden or opened.hidden)
    return opened


def _drop_descriptor_words(part: SimpleCommand) -> SimpleCommand:
    """Without a number that may be the descriptor of a here-string: `bash 0<<<'ls'` has no argument."""
    if not any(found.operator == "<<<" for found in part.redirections):
        return part
    return replace(part, tokens=tuple(token for token in part.tokens if not token.source.isdecimal()))


def add_placeholder_variants(parts: Sequence[SimpleCommand], placeholders: Iterable[str]) -> list[SimpleCommand]:
    """The parts as written, and those with a placeholder once more, with each such word unknown."""
    found = list(parts)
    for part in parts:
        words = tuple(
            make_unknown_word(word.source) if any(mark in word.text for mark in placeholders) else word
            for word in part.tokens
        )
        found += [replace(part, tokens=words)] if words != part.tokens else []
    return found


def find_placeholders(part: SimpleCommand) -> list[str]:
    """The placeholders that xargs replaces by its input. One too many only makes a word unknown."""
    found = {"{}"}
    for word, following in zip(part.tokens, (*part.tokens[1:], None), strict=True):
        if (spelled := _REPLACING.fullmatch(word.text)) is None:
            continue
        value = spelled[1] or spelled[2]
        if not value and following is not None:
            # Where the placeholder is known only at run time, any word may contain it.
            found.add(following.literal if following.literal is not None else "")
        found.add(value or "{}")
    return sorted(found)


def count_option_words(text: str, wrapper: Wrapper) -> tuple[int, bool]:
    """How many words an option takes, and whether that is known."""
    if text.startswith("--"):
        name, equals, _ = text.partition("=")
        if name in wrapper.values:
            return (1 if equals else 2), True
        return 1, name in wrapper.flags
    if text in wrapper.flags:
        return 1, True
    if text in wrapper.values:
        return 2, True
    if wrapper.numbers and text[1:].lstrip("-").isdecimal():
        return 1, True
    for place in range(1, len(text)):
        if f"-{text[place]}" in wrapper.values:
            return (2 if place == len(text) - 1 else 1), True
        if f"-{text[place]}" not in wrapper.flags:
            return 1, False
    return 1, True


def _open_finder(part: SimpleCommand, name: str) -> Opened:
    options, mark = (_FIND_RUNS, "{}") if name == "find" else (_FD_RUNS, "{")
    return Opened(tuple(add_placeholder_variants(_find_exec_commands(part, options), [mark])))


def _find_exec_commands(part: SimpleCommand, options: Iterable[str]) -> list[SimpleCommand]:
    """The commands after find's `-exec` and its like, each up to its end."""
    found: list[SimpleCommand] = []
    tokens, words = part.tokens, 0
    for place, token in enumerate(tokens):
        text = token.literal
        if text is None:
            # Any word may be another `-exec`.
            found.append(make_undecided(part, token.source)) if token.kind == "unknown" else None
            continue
        name = text if text in options else _find_attached(text, options)
        if name is None:
            continue
        attached = () if name == text else (make_literal_word(text[len(name) :].removeprefix("=")),)
        run = (*attached, *_take_until_end(tokens, place + 1))
        words += len(run)
        if words > _MAX_POSSIBLE_WORDS:
            return [*found, make_undecided(part)]
        found.append(replace(part, tokens=run))
    return found


def _find_attached(text: str, options: Iterable[str]) -> str | None:
    """The option that a value is attached to: `--exec=rm`, `-xrm`."""
    for name in options:
        attaches = text.startswith(f"{name}=") if len(name) > 2 else text.startswith(name) and text[2:3] != "e"
        if attaches and (len(name) == 2) == (not text.startswith("--")):
            return name
    return None


def _take_until_end(tokens: Sequence[Word], start: int) -> Sequence[Word]:
    end = next((place for place in range(start, len(tokens)) if tokens[place].literal in {";", "+"}), len(tokens))
    return tokens[start:end]


def _open_wrapper(part: SimpleCommand, wrapper: Wrapper, start: int) -> Opened:
    said = start < len(part.tokens) and part.tokens[start].literal in wrapper.unless
    if said and not any(_has_option(token.text, wrapper.hides) for token in part.tokens[start + 1 :]):
        return Opened(own=() if wrapper.data else part.tokens[1:])
    hidden = f"{part.tokens[0].text} runs what does not stand here" if _hides_commands(part, wrapper, start) else None
    if wrapper.code or wrapper.first_is_code or wrapper.script or wrapper.stdin:
        opened = _open_interpreter(part, wrapper, start)
    elif wrapper.data:
        opened = Opened(tuple(_parse_option_lines(part, wrapper)))
    else:
        opened = _open_runner(part, wrapper, start)
    own = part.tokens[1:] if wrapper.exposes else opened.own
    return replace(opened, own=own, hidden=hidden or opened.hidden)


def _hides_commands(part: SimpleCommand, wrapper: Wrapper, start: int) -> bool:
    if "*" in wrapper.hides:
        return True
    if wrapper.bundle_first and start < len(part.tokens):
        first = part.tokens[start].text
        if not first.startswith("-") and any(f"-{letter}" in wrapper.texts for letter in first):
            return True
    return bool(wrapper.hides) and any(_has_option(token.text, wrapper.hides) for token in part.tokens[start:])


def _has_option(text: str, names: frozenset[str]) -> bool:
    name = text.partition("=")[0]
    if name in names or (text.startswith("+") and "+" in names and not text[1:].isdecimal()):
        return True
    if name.startswith("--"):
        return len(name) > 2 and any(each.startswith(name) for each in names)
    return name.startswith("-") and any(f"-{letter}" in names for letter in name[1:])


def _open_runner(part: SimpleCommand, wrapper: Wrapper, start: int) -> Opened:
    """A wrapper in the narrow sense: options, operands, and then the command."""
    tokens, place, sure = part.tokens, start, True
    if wrapper.alias:
        values = [_extract_value(token) for token in tokens[1:] if token.literal is None or "=" in token.literal]
        lines = parse_lines(part, values)
        # Its own words come behind those of the alias.
        return Opened(tuple(replace(inner, tokens=(*inner.tokens, make_unknown_word(""))) for inner in lines))
    found = _parse_option_lines(part, wrapper)
    while place < len(tokens):
        text = tokens[place].literal
        if text is None:
            return Opened((*found, make_undecided(part, tokens[place].source)), own=tokens[1:place])
        if text == "--":
            place += 1
            break
        if wrapper.assignments and ASSIGNMENT.match(text):
            place += 1
            continue
        if text[:1] not in {"-", "+"} or (text == "-" and text not in wrapper.flags):
            break
        if text in wrapper.names or (text[:1] == "-" and any(f"-{letter}" in wrapper.names for letter in text[1:])):
            return Opened(tuple(found))
        if (begins := _find_line_start(text, wrapper.splits)) is not None:
            return _open_split(part, found, place, begins)
        if _find_line_start(text, wrapper.texts, wrapper.values) is not None:
            # A line of its own; whatever follows is an argument of that, or another option.
            place += 1 if len(text) > (_find_line_start(text, wrapper.texts, wrapper.values) or 0) else 2
            continue
        taken, known = count_option_words(text, wrapper)
        sure = sure and known
        place += taken
    if not sure:
        hidden = f"{tokens[0].text} may start a shell" if wrapper.shell and _has_input(part) else None
        return Opened((*found, *_list_possible_commands(part, start)), tokens[start:], hidden)
    return _open_operands(part, wrapper, found, place)


def _open_split(part: SimpleCommand, found: list[SimpleCommand], place: int, begins: int) -> Opened:
    """`env -S 'nice -n 5' ls`: the words of the text, and then the others."""
    token = part.tokens[place]
    if attached := token.text[begins:]:
        word, rest = make_literal_word(attached), part.tokens[place + 1 :]
    elif place + 1 < len(part.tokens):
        word, rest = part.tokens[place + 1], part.tokens[place + 2 :]
    else:
        return Opened(tuple(found))
    if word.literal is None or not _SPLIT_SPECIALS.isdisjoint(word.text):
        return Opened((*found, *parse_line(part, word), make_undecided(part, word.source)))
    words = (part.tokens[0], *map(make_literal_word, word.text.split()), *rest)
    return Opened((*found, replace(part, tokens=words)), own=part.tokens[1:place])


def _parse_option_lines(part: SimpleCommand, wrapper: Wrapper) -> list[SimpleCommand]:
    """The command lines that are values of options, before or after the operands."""
    if not wrapper.texts:
        return []
    lines: list[Word | None] = []
    for token, following in zip(part.tokens, (*part.tokens[1:], None), strict=True):
        begins = _find_line_start(token.text, wrapper.texts, wrapper.values) if token.literal is not None else None
        if begins is None:
            continue
        attached = token.text[begins:].removeprefix("=")
        lines.append(make_literal_word(attached) if attached else following)
    return parse_lines(part, lines)


def _find_line_start(text: str, options: frozenset[str], values: frozenset[str] = frozenset()) -> int | None:
    """Where in an option its value begins, for one of these options; None for others.

    It may follow others in one word (`su -lc`), and its long name may be abbreviated (`--comm=`).
    """
    if not options or text[:1] not in {"-", "+"} or text in {"-", "--"}:
        return None
    name, equals, _ = text.partition("=")
    if name in options:
        return len(name) + len(equals)
    if text.startswith("--"):
        return len(name) + len(equals) if any(each.startswith(name) for each in options) else None
    for place in range(1, len(text)):
        if f"{text[0]}{text[place]}" in options:
            return place + 1
        if f"-{text[place]}" in values:
            return None
    return None


def _open_operands(part: SimpleCommand, wrapper: Wrapper, found: list[SimpleCommand], place: int) -> Opened:
    tokens = part.tokens
    operands, place = tokens[place : place + wrapper.operands], place + wrapper.operands
    while wrapper.assignments and place < len(tokens) and ASSIGNMENT.match(tokens[place].source):
        place += 1
    if place < len(tokens) and tokens[place].literal == "--":
        place += 1
    own, rest = tokens[1:place], tokens[place:]
    if any(token.literal is None for token in operands):
        return Opened((*found, make_undecided(part)), own)
    if not rest:
        reads = wrapper.shell and not found
        opened = open_stdin(part) if reads else Opened()
        return Opened((*found, *opened.commands), own, opened.hidden)
    if rest[0].literal is not None and rest[0].text[:1] in {"-", "+"} and len(rest[0].text) > 1:
        # An option after the operands: some take it, some would run it.
        return Opened((*found, *_list_possible_commands(part, place)), own)
    if wrapper.first_is_text:
        return Opened((*found, *parse_line(part, rest[0])), own)
    if wrapper.joins:
        inner = _join_and_parse(part, rest)
    else:
        inner = [replace(part, tokens=(*rest, make_unknown_word("")) if wrapper.appends else rest)]
        if wrapper.appends:
            inner = add_placeholder_variants(inner, find_placeholders(part))
    return Opened((*found, *inner), own)


def _join_and_parse(part: SimpleCommand, rest: Sequence[Word]) -> list[SimpleCommand]:
    known = [token.text for token in rest if token.literal is not None]
    if len(known) < len(rest):
        # The words as they are, for the rules that match them, and one unknown command for the rest.
        return [replace(part, tokens=tuple(rest)), make_undecided(part)]
    return parse_line(part, make_literal_word(" ".join(known)))


def _list_possible_commands(part: SimpleCommand, start: int) -> list[SimpleCommand]:
    """After an option that is not known the command may begin anywhere."""
    tokens, words, found = part.tokens, 0, list[SimpleCommand]()
    for place in range(start, len(tokens)):
        words += len(tokens) - place
        if words > _MAX_POSSIBLE_WORDS:
            return [*found, make_undecided(part)]
        found.append(replace(part, tokens=tokens[place:]))
    return found


def _extract_value(token: Word) -> Word:
    return token if token.literal is None else make_literal_word(token.text.partition("=")[2])


def _open_interpreter(part: SimpleCommand, wrapper: Wrapper, start: int) -> Opened:
    """Options with code, then a file of code or code itself, then its arguments."""
    tokens, place, hidden = part.tokens, start, None
    name, has_code = tokens[0].text, False
    found = _parse_option_lines(part, wrapper)
    # In `-cimport os` the `m` is no option: whatever takes a value ends a bundle.
    taking = wrapper.values | wrapper.modules | wrapper.code | wrapper.files | wrapper.texts
    while place < len(tokens):
        token = tokens[place]
        text = token.literal
        if text is None:
            runs = wrapper.code or wrapper.stdin
            if token.kind == "unknown" and runs and not _SCRIPT_BELOW.fullmatch(token.source):
                hidden = hidden or f"{name} runs what only the run tells"
            break
        if text == "--" or text[:1] not in {"-", "+"} or text == "-":
            place += 1 if text == "--" else 0
            break
        place += 1
        following = tokens[place] if place < len(tokens) else None
        if (begins := _find_line_start(text, wrapper.modules, taking)) is not None:
            attached = (make_literal_word(text[begins:]),) if text[begins:] else ()
            return Opened((*found, replace(part, tokens=(*attached, *tokens[place:]))), hidden=hidden)
        if (begins := _find_line_start(text, wrapper.code, taking)) is not None:
            code = make_literal_word(text[begins:]) if text[begins:] else following
            place += 0 if text[begins:] else 1
            has_code = True
            hidden = hidden or _judge_code(name, wrapper, code)
        elif (begins := _find_line_start(text, wrapper.files, taking)) is not None:
            file = make_literal_word(text[begins:]) if text[begins:] else following
            place += 0 if text[begins:] else 1
            has_code = True
            known = file is not None and file.kind != "unknown" and not names_descriptor(file.text)
            hidden = hidden or (None if known else f"{name} runs what it reads")
        elif (begins := _find_line_start(text, wrapper.texts, taking)) is not None:
            place += 0 if text[begins:] else 1
        else:
            taken, _ = count_option_words(text, wrapper)
            place += taken - 1
    rest = tokens[place:]
    if wrapper.first_is_code and not has_code and len(rest) > wrapper.operands:
        hidden = hidden or _judge_code(name, wrapper, rest[wrapper.operands])
    elif (not has_code and _lacks_script(wrapper, rest)) or (wrapper.keys and _has_input(part)):
        hidden = hidden or f"{name} runs what it reads"
    return Opened(tuple(found), () if wrapper.data else rest, hidden)


def _lacks_script(wrapper: Wrapper, rest: Sequence[Word]) -> bool:
    return wrapper.stdin and (len(rest) <= wrapper.operands or names_descriptor(rest[0].text))


def _has_input(part: SimpleCommand) -> bool:
    return "pipe" in part.inside or any(found.operator.startswith("<") for found in part.redirections)


def _judge_code(name: str, wrapper: Wrapper, code: Word | None) -> str | None:
    if code is None or (code.literal is not None and runs_nothing(wrapper.language, code.text)):
        return None
    return f"what the code that {name} is given runs cannot be told"
