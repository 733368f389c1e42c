"""The prompt for an ask: what a person is shown, and what a key or a line means as the answer."""

import json
from enum import Enum
from typing import Any, Final

from ostler.clients.cli.render.ask import (
    ScreenArea,
    StyledLine,
    measure_screen,
    render_body,
    render_head,
    render_reasons,
    truncate_lines,
)
from ostler.clients.cli.render.ask_line import describe_folder
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

_KEY_WORDS: Final = {
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
_MAX_STRAY_KEYS: Final = 3


class ReplyKind(Enum):
    """What a line means where it is no answer."""

    MORE = "a further line is needed"
    VIEW = "all of the ask is wanted"
    SAME = "the input was to be changed, and was not"
    OTHER = "it is something else"


Reply = Answer | ReplyKind


class AskPrompt:
    """One ask from its first line to its answer."""

    def __init__(self, ask: Ask, area: ScreenArea | None = None, folder: str | None = None) -> None:
        self.ask = ask
        self._elsewhere = describe_folder(folder)
        """The folder that it is about, where the person is in another one."""
        self._body, self._missing = truncate_lines(render_body(ask), area or measure_screen())
        self.prompt, self.keys = self._build_key_prompt()
        """What is typed for it, and the keys that need no Enter."""
        self.openers: str
        """Keys that begin a line."""
        self.prefill = ""
        """What the next line begins with."""
        self._requested: str | None = None
        self._answers: dict[str, list[str]] = {}
        if ask.kind == "question":
            self._prompt_question()

    def is_key(self, text: str) -> bool:
        """Whether it may have been meant as a key, or a word for one, and was typed too early."""
        word = text.strip().lower()
        return word in _KEY_WORDS or (0 < len(word) <= _MAX_STRAY_KEYS and set(word) <= {*_ANY_KEY})

    def render(self) -> list[StyledLine]:
        """The lines that show the ask, cut to the screen."""
        missing: list[StyledLine] = [(f"  {self._missing}: [v] shows all of it", "yellow")] if self._missing else []
        return [render_head(self.ask), *self._body, *missing, *self._render_reasons(), *self._render_choices()]

    def render_whole(self) -> list[StyledLine]:
        """The lines that show the ask, with nothing left out."""
        return [render_head(self.ask), *render_body(self.ask), *self._render_reasons(), *self._render_choices()]

    def _render_reasons(self) -> list[StyledLine]:
        elsewhere: list[StyledLine] = [(f"  in the folder {self._elsewhere}", "yellow")] if self._elsewhere else []
        return [*elsewhere, *render_reasons(self.ask)]

    def takes_for_key(self, line: str) -> bool:
        """Whether a line that is no answer was meant as one, and is not words for the agent."""
        wants_key = self._requested is None and self.ask.kind != "question"
        return wants_key and (len(line.strip()) <= 1 or self.is_key(line))

    def describe_refusal(self, typed: str) -> str:
        """What to say of keys that are no answer."""
        typed = typed.strip()
        keys = self.prompt.strip("[] ").split("/")
        shown = f"{', '.join(keys[:-1])} or {keys[-1]}"
        what = f"{typed!r} is" if typed else "That is"
        return f"{what} no answer to this: {shown}. /say TEXT is for the agent; Esc stops the turn."

    def go_back(self) -> bool:
        """Go back from typing words or an input to the keys; whether that was possible."""
        if self._requested is None:
            return False
        self._requested, self.prefill = None, ""
        self.prompt, self.keys = self._build_key_prompt()
        return True

    def _build_key_prompt(self) -> tuple[str, str]:
        kind = self.ask.kind
        shown = _KEYS[kind]
        if kind == "permission" and _render_always(self.ask):
            shown = "yalnxde" if _holds_in_folder(self.ask) else "yanxde"
        more = "v" if self._missing else ""
        self.openers = "".join({*shown} - {*_INSTANT_KEYS.get(kind, shown)})
        return f"[{'/'.join(shown + more)}] ", _INSTANT_KEYS.get(kind, shown) + more

    def _render_choices(self) -> list[StyledLine]:
        match self.ask.kind:
            case "permission":
                keys = "  [y] allow  [n] deny  [d] deny, with words  [e] change the input"
                return [(keys, "cyan"), *_render_always(self.ask)]
            case "question":
                return self._render_question()
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

    def parse_line(self, line: str) -> Reply:
        """What a line means as a reply to the ask."""
        if self._requested is not None:
            return self._parse_requested(line)
        if self.ask.kind == "question":
            return self._parse_question_answer(line)
        key, _, rest = line.strip().partition(" ")
        key = _KEY_WORDS.get(key.lower(), key.lower())
        if key == "v" and not rest:
            return ReplyKind.VIEW
        if key not in {*self.keys, "y"} or (rest and key not in {"d", "e", "y"}):
            return ReplyKind.OTHER
        return self._parse_key(key, rest.strip())

    def _parse_key(self, key: str, rest: str) -> Reply:
        match self.ask.kind, key:
            case "permission", "y":
                return ReplyKind.OTHER if rest else Allow()
            case "permission", "a":
                return AllowAlways()
            case "permission", "l":
                return AllowAlways(scope="local")
            case "permission", "x":
                return DenyAlways()
            case "permission", "e":
                return (
                    self._parse_input(rest) if rest else self._request_line("e", "input: ", _format_json(self._input))
                )
            case "permission" | "plan", "d":
                return self._build_refusal(rest) if rest else self._request_line("d", "words: ")
            case "permission", _:
                return Deny()
            case "plan", "n":
                return Reject()
            case "plan", _:
                return Approve(mode="acceptEdits") if key == "a" else Approve()
            case "trust", _:
                return TrustFolder() if key in {"t", "y"} else RestrictFolder()
            case _, "y":
                return self._parse_accept(rest)
            case _:
                return Cancel() if key == "c" else Decline()

    @property
    def _input(self) -> dict[str, Any]:
        return self.ask.call.input if self.ask.call is not None else {}

    def _request_line(self, what: str, prompt: str, fill: str = "") -> ReplyKind:
        self._requested, self.prompt, self.keys, self.prefill = what, prompt, "", fill
        return ReplyKind.MORE

    def _parse_requested(self, line: str) -> Reply:
        what = self._requested
        self.go_back()
        if not line.strip():
            return ReplyKind.MORE  # thought better of it: back to the keys
        return self._parse_input(line) if what == "e" else self._build_refusal(line)

    def _build_refusal(self, words: str) -> Reply:
        return Reject(message=words) if self.ask.kind == "plan" else Deny(message=words)

    def _parse_input(self, text: str) -> Reply:
        found = _parse_object(text)
        if found is None:
            return self._request_line("e", "input (a JSON object): ", text)
        # Whoever wanted to change it did not want it as it is: that takes a yes of its own.
        return ReplyKind.SAME if found == self._input else Allow(input=found)

    def _parse_accept(self, text: str) -> Reply:
        found = _parse_object(text) if text else None
        return ReplyKind.OTHER if text and found is None else Accept(content=found)

    # A question may be several, and each may take several answers.

    @property
    def _question(self) -> dict[str, Any]:
        return (self.ask.questions or [{}])[len(self._answers)]

    def _prompt_question(self) -> None:
        many = "numbers, " if self._question.get("multiSelect") else "a number, "
        self.prompt, self.keys = f"{many}your own words, or - for no answer: ", ""

    def _render_question(self) -> list[StyledLine]:
        question = self._question
        lines: list[StyledLine] = [(f"  {question.get('question', '')}", "bold")]
        for number, option in enumerate(question.get("options") or [], start=1):
            what = f": {option['description']}" if option.get("description") else ""
            lines.append((f"  {number}  {option.get('label', '')}{what}", "cyan"))
        return lines

    def render_more(self) -> list[StyledLine]:
        """What to show where a further line is needed."""
        return self._render_question() if self.ask.kind == "question" else []

    def _parse_question_answer(self, line: str) -> Reply:
        if line.strip() == "-":
            return Decline()
        if not line.strip():
            return ReplyKind.MORE
        self._answers[str(self._question.get("question", ""))] = _parse_choice(
            line, self._question.get("options") or []
        )
        if len(self._answers) < len(self.ask.questions or []):
            self._prompt_question()
            return ReplyKind.MORE
        return GiveAnswers(answers=self._answers)


_KEYS: Final = {"permission": "ynde", "question": "", "plan": "yand", "elicitation": "ync", "trust": "tr"}
_INSTANT_KEYS: Final = {"elicitation": "nc", "trust": "tryn"}
"""The keys that need no Enter, where they are not those that are shown: `y` may be followed by JSON."""


def _render_always(ask: Ask) -> list[StyledLine]:
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


def _parse_choice(line: str, options: list[dict[str, Any]]) -> list[str]:
    parts = [part.strip() for part in line.split(",")]
    if all(part.isdecimal() and 0 < int(part) <= len(options) for part in parts):
        return [str(options[int(part) - 1].get("label", part)) for part in parts]
    return [line.strip()]


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
