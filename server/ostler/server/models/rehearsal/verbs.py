"""One parser for each verb of a request: from the words after the verb to the steps that they ask for."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import orjson

from ostler.protocol.patterns import compile_later
from ostler.server.models.rehearsal.phrases import Phrase
from ostler.server.models.rehearsal.steps import (
    Ask,
    Fetch,
    Find,
    Introduce,
    ListFiles,
    PermissionTest,
    Read,
    Replace,
    Run,
    Say,
    SearchWeb,
    Step,
    Think,
    Unclear,
    UseTool,
    Wait,
    Write,
)

MAX_WAIT_SECONDS: Final = 60.0

_IN_BACKGROUND: Final = compile_later(r"\s+in (?:the )?background\.?$")
_AND: Final = compile_later(r",\s*(?:and\s+)?|\s+and\s+")
_OR: Final = compile_later(r",\s*(?:or\s+)?|\s+or\s+")
_ME: Final = compile_later(r"me\s+")
_FILE: Final = compile_later(r"(?:the\s+)?(?:files?\s+)?")
_LINES: Final = compile_later(r"(?:the\s+)?lines?\s+(\d{1,9})(?:\s*(?:-|\u2013|to)\s*(\d{1,9}))?\s+(?:of|in|from)\s+")
_FIRST_LINES: Final = compile_later(r"(?:the\s+)?first\s+(\d{1,9})\s+lines?\s+(?:of|in|from)\s+")
_THEN_LINES: Final = compile_later(r"(?:,?\s+lines?\s+|:)(\d{1,9})(?:\s*(?:-|\u2013|to)\s*(\d{1,9}))?$")
_FILES: Final = compile_later(r"(?:me\s+)?(?:all\s+)?(?:the\s+)?(?:files?\b\s*)?(?:(?:named|called|matching|like)\s+)?")
_ALL_FILES: Final = compile_later(r"(?:me\s+)?(?:all\s+)?(?:the\s+)?files?\b")
_FOR: Final = compile_later(r"(?:for\s+)?(?:all\s+)?(?:the\s+(?:text|word|words)\s+)?")
_EVERY: Final = compile_later(r"(?:all|every)\s+(?:occurrences?\s+of\s+)?")
_HERE: Final = frozenset({"here", "this folder", "the folder", "the project", "all files", "everywhere", "."})
_NEW_FILE: Final = compile_later(r"(?:an?\s+|the\s+)?(?:new\s+)?(?:empty\s+)?(?:file\s+)?(?:(?:named|called)\s+)?")
_CONTENT: Final = compile_later(r"(?:the\s+)?(?:content|contents|text|words?|line)\s+(?=\S)")
_WHETHER: Final = compile_later(r"(?:about\s+)?(?:whether|if)\s+(?:to\s+|you\s+should\s+)?|about\s+|for\s+")
_CHOICES: Final = compile_later(r"[:?]\s+")
_ABOUT: Final = compile_later(r"(?:hard\s+)?(?:about|of|over|on)\s+")
_SECONDS: Final = compile_later(
    r"(?:for\s+)?(\d{1,6}(?:\.\d{1,6})?)\s*(ms|milliseconds?|s|seconds?|secs?|m|minutes?)?\.?$"
)
_TOOL: Final = compile_later(r"(?:the\s+)?(?:tool\s+)?([a-z_][\w.-]{0,127})\s*(?:with\s+)?")
_PAGE: Final = compile_later(r"(?:the\s+)?(?:(?:web\s+)?page\s+)?(?:at\s+)?")
_SPECIAL: Final = compile_later(r"[\\.+*?()|\[\]{}^$]")
_GLOB: Final = compile_later(r"[*?\[{]")

_QUOTE_IT: Final = "Put a path with blanks in quotes."


def parse_read(rest: Phrase) -> list[Step]:
    rest = rest.strip_prefix(_ME)
    first, last = None, None
    if found := _LINES.match(rest.mask):
        first, last = int(found[1]), int(found[2] or found[1])
        rest = rest.cut(found.end())
    elif found := _FIRST_LINES.match(rest.mask):
        first, last = 1, int(found[1])
        rest = rest.cut(found.end())
    rest = rest.strip_prefix(_FILE)
    if first is None and (found := _THEN_LINES.search(rest.mask[-60:])):
        first, last = int(found[1]), int(found[2] or found[1])
        rest = rest.cut(0, len(rest.mask) - len(found.group()))
    if first is not None and (first < 1 or (last or 0) < first):
        return [Unclear("Lines count from 1, and the first comes before the last.")]
    paths = [_parse_path(part) for part in rest.split(_AND)]
    if not paths or None in paths:
        return [Unclear(f"Name a file: `read FILE`. {_QUOTE_IT}")]
    return [Read(path, first, last) for path in paths if path]


def parse_list(rest: Phrase) -> list[Step]:
    named = rest.strip_prefix(_FILES)
    if not named.mask.strip("?!. "):  # `list files.`
        named = Phrase("", "")
    here = _split_in(named) or (named, None)
    what, where = here
    if named.mask.startswith("in "):
        what, where = Phrase("", ""), named.cut(3)
    if where is None and what and not _GLOB.search(what.mask) and not _ALL_FILES.match(rest.mask):
        what, where = Phrase("", ""), what  # `list src`
    folder = _parse_place(where) if where else "."
    pattern = _parse_path(what) if what else "**/*"
    if folder is None or pattern is None:
        return [Unclear(f"Say it like `list *.py in FOLDER`. {_QUOTE_IT}")]
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    return [ListFiles(pattern, None if folder == "." else folder)]


def parse_find(rest: Phrase) -> list[Step]:
    rest = rest.strip_prefix(_FOR)
    if _ALL_FILES.match(rest.mask) or rest.mask.startswith(("*.", "**")):
        return parse_list(rest)
    what, where = _split_in(rest) or (rest, None)
    shown = what.value
    if not shown:
        return [Unclear("Say what to find: `find WORDS in FOLDER`.")]
    is_pattern = len(shown) > 2 and not what.quoted and shown[0] == shown[-1] == "/"
    pattern = shown[1:-1] if is_pattern else _SPECIAL.sub(r"\\\g<0>", shown)
    places = [_parse_place(part) for part in where.split(_AND)] if where else ["."]
    if None in places:
        return [Unclear(f"Say it like `find WORDS in FOLDER`. {_QUOTE_IT}")]
    return [Find(pattern, shown, *_split_glob(place)) for place in places if place]


def parse_search(rest: Phrase) -> list[Step]:
    """`search for WORDS` means the web where it can be searched, and `search for WORDS in PLACE` never does."""
    steps = parse_find(rest)
    named = rest.strip_prefix(_FOR)
    if len(steps) != 1 or not isinstance(steps[0], Find) or not rest.mask.startswith("for ") or _split_in(named):
        return steps
    return [SearchWeb(named.value.rstrip("?"), steps[0])]


def parse_web_search(rest: Phrase) -> list[Step]:
    query = rest.strip_prefix(_FOR).value.strip()
    return [SearchWeb(query)] if query else [Unclear("Say what to look for: `search the web for WORDS`.")]


def parse_fetch(rest: Phrase) -> list[Step]:
    pages = [_parse_path(part.strip_prefix(_PAGE)) for part in rest.split(_AND)]
    if not pages or not all(page and page.lower().startswith(("https://", "http://")) for page in pages):
        return [Unclear("Name a page of the web: `fetch https://example.org/`.")]
    return [Fetch(page.rstrip(".")) for page in pages if page]


def parse_replace(rest: Phrase) -> list[Step]:
    return _parse_replacement(rest, "with")


def parse_change(rest: Phrase) -> list[Step]:
    return _parse_replacement(rest, "to")


def _parse_replacement(rest: Phrase, word: str) -> list[Step]:
    every = _EVERY.match(rest.mask) is not None
    hint = f'Say it like `{"replace" if word == "with" else "change"} "old" {word} "new" in FILE`.'
    halves = rest.strip_prefix(_EVERY).split_at(word)
    place = halves[1].split_at("in", last=True) if halves else None
    if halves is None or place is None or not halves[0]:
        return [Unclear(hint)]
    paths = [_parse_path(part) for part in place[1].split(_AND)]
    if not paths or None in paths:
        return [Unclear(f"{hint} {_QUOTE_IT}")]
    return [Replace(halves[0].value, place[0].value, path, every) for path in paths if path]


def parse_write(rest: Phrase) -> list[Step]:
    for word in ("to", "into", "in"):
        halves = rest.split_at(word, last=True)
        path = _parse_path(halves[1].strip_prefix(_FILE)) if halves else None
        if halves and halves[0] and path:
            return [Write(halves[0].value, path)]
    return [Unclear(f'Say it like `write "hello" to FILE`. {_QUOTE_IT}')]


def parse_create(rest: Phrase) -> list[Step]:
    rest = rest.strip_prefix(_NEW_FILE)
    for word in ("with", "containing"):
        if halves := rest.split_at(word):
            path, content = _parse_path(halves[0]), halves[1].strip_prefix(_CONTENT).value
            break
    else:
        path, content = _parse_path(rest), ""
    return [Write(content, path)] if path else [Unclear(f'Say it like `create FILE with "hello"`. {_QUOTE_IT}')]


def parse_run(rest: Phrase) -> list[Step]:
    background = _IN_BACKGROUND.search(rest.mask)
    if background:
        rest = rest.cut(0, background.start())
    command = rest.value.strip()
    if not command or rest.mask.startswith(("the ", "all ", "my ")):
        return [Unclear("I run a command word for word: `run COMMAND`.")]
    return [Run(command, in_background=background is not None)]


def parse_ask(rest: Phrase) -> list[Step]:
    if not rest:
        return [Unclear("Say what to ask: `ask me which one: tea, coffee or water`.")]
    choices = _CHOICES.search(rest.mask)
    question = rest.strip_prefix(_WHETHER).value
    options: tuple[str, ...] = ("Yes", "No")
    if choices:
        choices_given = tuple(dict.fromkeys(part.value.rstrip("?. ") for part in rest.cut(choices.end()).split(_OR)))
        if 2 <= len(choices_given) <= 4 and all(choices_given):
            question, options = rest.cut(0, choices.start()).value, choices_given
    elif halves := rest.split_at("or"):
        left, right = halves[0].value.split(), halves[1].value.rstrip("?. ")
        if left and right and left[-1] != right:
            options = (left[-1], right)
    question = question.rstrip("?. ") or rest.value
    return [Ask(question[:1].upper() + question[1:] + "?", options)]


def parse_think(rest: Phrase) -> list[Step]:
    return [Think(rest.strip_prefix(_ABOUT).value or "this")]


def parse_say(rest: Phrase) -> list[Step]:
    return [Say(rest.value)] if rest.value.strip() else [Unclear("Say what to say: `say hello`.")]


def parse_wait(rest: Phrase) -> list[Step]:
    if not rest.mask.strip(" ."):
        return [Wait(1.0)]
    found = _SECONDS.match(rest.mask)
    if found is None:
        return [Unclear("Say how long: `wait 3 seconds`.")]
    unit = found[2] or "s"
    scale = 0.001 if unit.startswith(("ms", "milli")) else 60.0 if unit.startswith("m") else 1.0
    return [Wait(min(float(found[1]) * scale, MAX_WAIT_SECONDS))]


def parse_permission_test(rest: Phrase) -> list[Step]:
    return [PermissionTest()]


def parse_call(rest: Phrase) -> list[Step]:
    found = _TOOL.match(rest.mask)
    written = rest.text[found.end() :].strip() if found else ""
    value: Any = None
    with suppress(orjson.JSONDecodeError):
        value = orjson.loads(written) if written else {}
    if found is None or not isinstance(value, dict):
        return [Unclear('Say it like `call Glob {"pattern": "*.py"}`.')]
    return [UseTool(rest.text[found.start(1) : found.end(1)], value)]


def parse_help(rest: Phrase) -> list[Step]:
    return [Introduce()]


VERBS: Final[dict[str, Callable[[Phrase], list[Step]]]] = {
    "read": parse_read,
    "show": parse_read,
    "open": parse_read,
    "list": parse_list,
    "find": parse_find,
    "search": parse_search,
    "search the web": parse_web_search,
    "fetch": parse_fetch,
    "look for": parse_find,
    "replace": parse_replace,
    "change": parse_change,
    "write": parse_write,
    "save": parse_write,
    "create": parse_create,
    "run": parse_run,
    "execute": parse_run,
    "ask me": parse_ask,
    "think": parse_think,
    "test permission": parse_permission_test,
    "test permissions": parse_permission_test,
    "say": parse_say,
    "wait": parse_wait,
    "call": parse_call,
    "help": parse_help,
}
"""All but `plan`, which holds a request of its own."""
COMMANDS: Final = frozenset({"run", "execute"})


def _split_in(rest: Phrase) -> tuple[Phrase, Phrase] | None:
    if rest.mask.endswith(" here"):
        return rest.cut(0, -len("here")), rest.cut(len(rest.mask) - len("here"))
    return rest.split_at("in", last=True)


def _parse_path(part: Phrase) -> str | None:
    """A path as written; None where the words cannot be one."""
    if part.quoted:
        return part.value or None
    text = part.text.rstrip("?!,;")
    if text.endswith(".") and len(text) > 1 and text[-2] not in "./":
        text = text[:-1]
    return None if not text or " " in part.mask or "\n" in part.mask else text


def _parse_place(part: Phrase) -> str | None:
    """Where to look: a path, a glob, or `.` for the folder that the session works in."""
    if part.mask.rstrip("?!.") in _HERE or part.mask == ".":
        return "."
    words = part.text.split() if not part.quoted else []
    if len(words) > 1 and words[0].lower() == "the":
        words = words[1:]
    if len(words) > 1 and words[-1].lower() in {"folder", "directory", "file", "files"}:
        words = words[:-1]
    return _parse_path(Phrase(words[0], part.mask[:1])) if len(words) == 1 else _parse_path(part)


def _split_glob(place: str) -> tuple[str | None, str | None]:
    if not _GLOB.search(place):
        return (None if place == "." else place), None
    parts = place.split("/")
    plain = next(at for at, part in enumerate(parts) if _GLOB.search(part))
    return "/".join(parts[:plain]) or ("/" if plain else None), "/".join(parts[plain:])
