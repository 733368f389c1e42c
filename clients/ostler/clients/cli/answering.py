"""An ask in front of a person: what is shown, and what a key or a line means as its answer."""

import json
from enum import Enum
from typing import Any, Final

from ostler.clients.cli.narrator import patch_lines
from ostler.clients.cli.output import Colour, fit
from ostler.protocol.ask import (
    Accept,
    Allow,
    AllowAlways,
    Answer,
    Approve,
    Cancel,
    Decline,
    Deny,
    GiveAnswers,
    Reject,
    RestrictFolder,
    TrustFolder,
)
from ostler.protocol.shapes import Ask

_INPUT_WIDTH: Final = 400
_BROUGHT_WIDTH: Final = 2_100
"""As much as the daemon tells of one thing: nobody can trust what they do not see."""
_WORDS: Final = {
    "yes": "y",
    "always": "a",
    "local": "l",
    "no": "n",
    "allow": "y",
    "deny": "n",
    "trust": "t",
    "restrict": "r",
}


class Meaning(Enum):
    """What a line is where it is no answer."""

    MORE = "a further line is needed"
    OTHER = "it is something else"


Reply = Answer | Meaning

ShownLine = tuple[str, Colour | None]


class Answering:
    """One ask from its first line to its answer."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.prompt, self.keys = _prompt(ask)
        self.fill = ""
        """What the next line begins with."""
        self._wants: str | None = None
        self._answers: dict[str, list[str]] = {}
        if ask.kind == "question":
            self._next_question()

    def shown(self) -> list[ShownLine]:
        """The ask, for the eye."""
        ask = self.ask
        who = f"{ask.agent.name or ask.agent.kind}: " if ask.agent else ""
        lines: list[ShownLine] = [(f"? {who}{ask.message or _title(ask)}", "red" if ask.destructive else "yellow")]
        if ask.call is not None and ask.diff is None:
            lines += _indented(_input_lines(ask.call.input), "bold")
        for detail in (ask.reason, ask.plan, ask.url, ask.folder):
            lines += _indented((detail or "").splitlines(), "dim")
        for text, colour in patch_lines(ask.diff or ""):
            lines += _indented([text], colour)
        lines += _indented([f"- {fit(_brought(what), _BROUGHT_WIDTH)}" for what in ask.what or []], "bold")
        return [*lines, *self._offer()]

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
        what, self._wants, self.fill = self._wants, None, ""
        self.prompt, self.keys = _prompt(self.ask)
        if not line.strip():
            return Meaning.MORE  # thought better of it: back to the keys
        return self._changed(line) if what == "e" else self._refused(line)

    def _refused(self, words: str) -> Reply:
        return Reject(message=words) if self.ask.kind == "plan" else Deny(message=words)

    def _changed(self, text: str) -> Reply:
        found = _object(text)
        return Allow(input=found) if found is not None else self._want("e", "input (a JSON object): ", text)

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


_PROMPTS: Final = {
    "permission": ("[y/n/d/e] ", "ynde"),
    "question": ("answer: ", ""),
    "plan": ("[y/a/n/d] ", "yand"),
    "elicitation": ("[y/n/c] ", "nc"),
    "trust": ("[t/r] ", "tryn"),
}


def _prompt(ask: Ask) -> tuple[str, str]:
    if ask.kind == "permission" and "allow_always" in ask.choices:
        return ("[y/a/l/n/d/e] ", "yalnde") if _holds_in_folder(ask) else ("[y/a/n/d/e] ", "yande")
    return _PROMPTS[ask.kind]


def _always(ask: Ask) -> list[ShownLine]:
    """The rule that would be remembered, and where; nothing where none could be."""
    if "allow_always" not in ask.choices or not ask.suggestions:
        return []
    rule = ask.suggestions[0].rule
    local = "  [l] always in this folder (local settings)" if _holds_in_folder(ask) else ""
    return [(f"  [a] always in this session{local}: {rule}", "cyan")]


def _holds_in_folder(ask: Ask) -> bool:
    """In a folder that nobody trusts it would not, and is not suggested."""
    return any(each.scope == "local" for each in ask.suggestions)


def _brought(what: dict[str, Any]) -> str:
    return str(what["text"]) if "text" in what else _json(what)


def _indented(lines: list[str], colour: Colour | None) -> list[ShownLine]:
    return [(f"  {line}", colour) for line in lines]


def _input_lines(given: dict[str, Any]) -> list[str]:
    """What the tool would be given: nobody can allow what they do not see."""
    texts = ((name, value if isinstance(value, str) else _json(value)) for name, value in given.items())
    return [f"{name}: {fit(text, _INPUT_WIDTH)}" for name, text in texts]


def _title(ask: Ask) -> str:
    return {"plan": "This is the plan.", "trust": "Trust this folder?"}.get(ask.kind, "May it?")


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
