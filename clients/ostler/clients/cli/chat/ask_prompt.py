"""An ask in front of a person: what is shown, and what a key or a line means as its answer."""

import json
from enum import Enum
from typing import Any, Final

from ostler.clients.cli.render.ask import Room, ShownLine, body, cut, head, screen_room, why
from ostler.protocol.ask import (
    Accept,
    Allow,
    AllowAlways,
    Answer,
    Approve,
    Cancel,
    Decline,
    Deny,
    DenyAlways,
    GiveAnswers,
    Reject,
    RestrictFolder,
    TrustFolder,
)
from ostler.protocol.shapes import Ask

_WORDS: Final = {
    "yes": "y",
    "always": "a",
    "local": "l",
    "never": "x",
    "view": "v",
    "no": "n",
    "allow": "y",
    "deny": "n",
    "trust": "t",
    "restrict": "r",
}

_ANY_KEY: Final = "yalnxdevctr"
_STRAY_KEYS: Final = 3


class Meaning(Enum):
    """What a line is where it is no answer."""

    MORE = "a further line is needed"
    VIEW = "all of the ask is wanted"
    SAME = "the input was to be changed, and was not"
    OTHER = "it is something else"


Reply = Answer | Meaning


class Answering:
    """One ask from its first line to its answer."""

    def __init__(self, ask: Ask, room: Room | None = None) -> None:
        self.ask = ask
        self._body, self._missing = cut(body(ask), room or screen_room())
        self.prompt, self.keys = self._at_the_keys()
        self.fill = ""
        """What the next line begins with."""
        self._wants: str | None = None
        self._answers: dict[str, list[str]] = {}
        if ask.kind == "question":
            self._next_question()

    def is_key(self, text: str) -> bool:
        """Whether it may have been meant as a key, or a word for one, and was typed too early."""
        word = text.strip().lower()
        return word in _WORDS or (0 < len(word) <= _STRAY_KEYS and set(word) <= {*_ANY_KEY})

    def shown(self) -> list[ShownLine]:
        """The ask, for the eye."""
        missing: list[ShownLine] = [(f"  {self._missing}: [v] shows all of it", "yellow")] if self._missing else []
        return [head(self.ask), *self._body, *missing, *why(self.ask), *self._offer()]

    def shown_whole(self) -> list[ShownLine]:
        """The same with nothing left out."""
        return [head(self.ask), *body(self.ask), *why(self.ask), *self._offer()]

    def back(self) -> bool:
        """From words or an input to the keys; whether there was a way back."""
        if self._wants is None:
            return False
        self._wants, self.fill = None, ""
        self.prompt, self.keys = self._at_the_keys()
        return True

    def _at_the_keys(self) -> tuple[str, str]:
        kind = self.ask.kind
        shown = _KEYS[kind]
        if kind == "permission" and _always(self.ask):
            shown = "yalnxde" if _holds_in_folder(self.ask) else "yanxde"
        more = "v" if self._missing else ""
        return f"[{'/'.join(shown + more)}] ", _SILENT.get(kind, shown) + more

    def _offer(self) -> list[ShownLine]:
        match self.ask.kind:
            case "permission":
                keys = "  [y] allow  [n] deny  [d] deny, with words  [e] change the input"
                return [(keys, "cyan"), *_always(self.ask)]
            case "question":
                return self._question_lines()
            case "plan":
                return [
                    (
                        "  [y] go ahead  [a] go ahead, and accept edits  [n] go on planning  [d] say what is wrong",
                        "cyan",
                    )
                ]
            case "trust":
                return [("  [t] trust it  [r] restrict it: what it brings does nothing", "cyan")]
            case "elicitation":
                return [("  [y] accept, with JSON if it wants some  [n] decline  [c] cancel", "cyan")]

    def take(self, line: str) -> Reply:
        """What a line means here."""
        if self._wants is not None:
            return self._wanted(line)
        if self.ask.kind == "question":
            return self._take_answer(line)
        key, _, rest = line.strip().partition(" ")
        key = _WORDS.get(key.lower(), key.lower())
        if key == "v" and not rest:
            return Meaning.VIEW
        if key not in {*self.keys, "y"} or (rest and key not in {"d", "e", "y"}):
            return Meaning.OTHER
        return self._keyed(key, rest.strip())

    def _keyed(self, key: str, rest: str) -> Reply:
        match self.ask.kind, key:
            case "permission", "y":
                return Meaning.OTHER if rest else Allow()
            case "permission", "a":
                return AllowAlways()
            case "permission", "l":
                return AllowAlways(scope="local")
            case "permission", "x":
                return DenyAlways()
            case "permission", "e":
                return self._changed(rest) if rest else self._want("e", "input: ", _json(self._input))
            case "permission" | "plan", "d":
                return self._refused(rest) if rest else self._want("d", "words: ")
            case "permission", _:
                return Deny()
            case "plan", "n":
                return Reject()
            case "plan", _:
                return Approve(mode="acceptEdits") if key == "a" else Approve()
            case "trust", _:
                return TrustFolder() if key in {"t", "y"} else RestrictFolder()
            case _, "y":
                return self._accepted(rest)
            case _:
                return Cancel() if key == "c" else Decline()

    @property
    def _input(self) -> dict[str, Any]:
        return self.ask.call.input if self.ask.call is not None else {}

    def _want(self, what: str, prompt: str, fill: str = "") -> Meaning:
        self._wants, self.prompt, self.keys, self.fill = what, prompt, "", fill
        return Meaning.MORE

    def _wanted(self, line: str) -> Reply:
        what = self._wants
        self.back()
        if not line.strip():
            return Meaning.MORE  # thought better of it: back to the keys
        return self._changed(line) if what == "e" else self._refused(line)

    def _refused(self, words: str) -> Reply:
        return Reject(message=words) if self.ask.kind == "plan" else Deny(message=words)

    def _changed(self, text: str) -> Reply:
        found = _object(text)
        if found is None:
            return self._want("e", "input (a JSON object): ", text)
        # Whoever wanted to change it did not want it as it is: that takes a yes of its own.
        return Meaning.SAME if found == self._input else Allow(input=found)

    def _accepted(self, text: str) -> Reply:
        found = _object(text) if text else None
        return Meaning.OTHER if text and found is None else Accept(content=found)

    # A question may be several, and each may take several answers.

    @property
    def _question(self) -> dict[str, Any]:
        return (self.ask.questions or [{}])[len(self._answers)]

    def _next_question(self) -> None:
        many = "numbers, " if self._question.get("multiSelect") else "a number, "
        self.prompt, self.keys = f"{many}your own words, or - for no answer: ", ""

    def _question_lines(self) -> list[ShownLine]:
        question = self._question
        lines: list[ShownLine] = [(f"  {question.get('question', '')}", "bold")]
        for number, option in enumerate(question.get("options") or [], start=1):
            what = f": {option['description']}" if option.get("description") else ""
            lines.append((f"  {number}  {option.get('label', '')}{what}", "cyan"))
        return lines

    def more(self) -> list[ShownLine]:
        """What to show where a further line is needed."""
        return self._question_lines() if self.ask.kind == "question" else []

    def _take_answer(self, line: str) -> Reply:
        if line.strip() == "-":
            return Decline()
        if not line.strip():
            return Meaning.MORE
        self._answers[str(self._question.get("question", ""))] = _chosen(line, self._question.get("options") or [])
        if len(self._answers) < len(self.ask.questions or []):
            self._next_question()
            return Meaning.MORE
        return GiveAnswers(answers=self._answers)


_KEYS: Final = {"permission": "ynde", "question": "", "plan": "yand", "elicitation": "ync", "trust": "tr"}
_SILENT: Final = {"elicitation": "nc", "trust": "tryn"}
"""Where the keys that count by themselves are not those that are shown: `y` may be followed by JSON."""


def _always(ask: Ask) -> list[ShownLine]:
    """The rule that would be remembered, and where; nothing where none could be."""
    if "allow_always" not in ask.choices or not ask.suggestions:
        return []
    local = "  [l] always in this folder" if _holds_in_folder(ask) else ""
    keys = "a, l and x remember" if local else "a and x remember"
    rule = ask.suggestions[0].rule.replace("\n", " ⏎ ")
    return [
        (f"  [a] always in this session{local}  [x] never again", "cyan"),
        (f"  {keys} the rule {rule}", "dim"),
    ]


def _holds_in_folder(ask: Ask) -> bool:
    """In a folder that nobody trusts it would not, and is not suggested."""
    return any(each.scope == "local" for each in ask.suggestions)


def _chosen(line: str, options: list[dict[str, Any]]) -> list[str]:
    parts = [part.strip() for part in line.split(",")]
    if all(part.isdecimal() and 0 < int(part) <= len(options) for part in parts):
        return [str(options[int(part) - 1].get("label", part)) for part in parts]
    return [line.strip()]


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
