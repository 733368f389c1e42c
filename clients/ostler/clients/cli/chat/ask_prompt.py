"""The prompt for an ask: what a person is shown, and what a key or a line means as the answer."""

import json
from enum import Enum
from typing import Any, Final, get_args

from ostler.clients.cli.question_answers import BadAnswer, parse_question_answer
from ostler.clients.cli.render.ask import (
    ScreenArea,
    StyledLine,
    measure_screen,
    render_body,
    render_head,
    render_question,
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
from ostler.protocol.session import Mode
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
    "approve": "y",
    "edit": "e",
    "trust": "t",
    "restrict": "r",
}

_ANY_KEY: Final = "yalnxdevctrm"
_MAX_STRAY_KEYS: Final = 3


class ReplyKind(Enum):
    """What a line means where it is no answer."""

    MORE = "a further line is needed"
    VIEW = "all of the ask is wanted"
    SAME = "the input was to be changed, and was not"
    WHY = "why it is asked is to be said"
    EDIT = "the plan is to be changed in an editor"
    OTHER = "it is something else"


Reply = Answer | ReplyKind


class AskPrompt:
    """One ask from its first line to its answer."""

    def __init__(self, ask: Ask, area: ScreenArea | None = None, folder: str | None = None) -> None:
        self.ask = ask
        self._elsewhere = describe_folder(folder)
        """The folder that it is about, where the person is in another one."""
        self.prefill = ""
        """What the next line begins with."""
        self._requested: str | None = None
        self._answers: dict[str, list[str]] = {}
        self._notes: dict[str, str] = {}
        self._left_out = 0
        self._complaint: str | None = None
        self.plan = ask.plan or ""
        """The plan as it would be approved: perhaps changed here."""
        self._body, self._missing = truncate_lines(self._render_body(), area or measure_screen())
        self.prompt, self.keys = self._build_key_prompt()
        """What is typed for it, and the keys that need no Enter."""
        self.openers: str
        """Keys that begin a line."""
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
        return [render_head(self.ask), *self._render_body(), *self._render_reasons(), *self._render_choices()]

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

    def _render_body(self) -> list[StyledLine]:
        # Questions are shown one after the other, each as it comes to be answered.
        if self.ask.kind == "question":
            return []
        return render_body(self.ask.changed(plan=self.plan) if self.ask.kind == "plan" else self.ask)

    def go_back(self) -> bool:
        """Go back from typing words or an input to the keys, or to the first question; whether that was possible."""
        if self._answers or self._left_out:
            self.start_again()
            return True
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
        more = "v" if self._missing or kind == "plan" else ""
        self.openers = "".join({*shown} - {*_INSTANT_KEYS.get(kind, shown)})
        why = "?" if kind == "permission" else ""
        return f"[{'/'.join(shown + more)}] ", _INSTANT_KEYS.get(kind, shown) + more + why

    def _render_choices(self) -> list[StyledLine]:
        match self.ask.kind:
            case "permission":
                keys = "  [y] allow  [n] deny  [d] deny, with words  [e] change the input  [?] why"
                return [(keys, "cyan"), *_render_always(self.ask)]
            case "question":
                return self._render_question()
            case "plan":
                changed: list[StyledLine] = (
                    [("  (as you changed it)", "yellow")] if self.plan != (self.ask.plan or "") else []
                )
                return [
                    *changed,
                    ("  [y] go ahead  [a] go ahead, and accept edits  [m] go ahead, in another mode", "cyan"),
                    (
                        "  [n] go on planning  [d] say what is wrong  [e] change it in an editor  [v] read it",
                        "cyan",
                    ),
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
        if key == "?" and self.ask.kind == "permission":
            return ReplyKind.WHY
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
            case "plan", _:
                return ReplyKind.OTHER if rest else self._parse_plan_key(key)
            case "trust", _:
                return TrustFolder() if key in {"t", "y"} else RestrictFolder()
            case _, "y":
                return self._parse_accept(rest)
            case _:
                return Cancel() if key == "c" else Decline()

    def _parse_plan_key(self, key: str) -> Reply:
        match key:
            case "n":
                return Reject()
            case "e":
                return ReplyKind.EDIT
            case "m":
                return self._request_line("m", "mode: ")
            case _:
                return self._approve("acceptEdits" if key == "a" else None)

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
        if what == "m":
            return self._parse_mode(line.strip())
        return self._parse_input(line) if what == "e" else self._build_refusal(line)

    @property
    def _changed_plan(self) -> str | None:
        return self.plan if self.plan != (self.ask.plan or "") else None

    def _approve(self, mode: Mode | None) -> Reply:
        return Approve(plan=self._changed_plan, mode=mode)

    def _parse_mode(self, name: str) -> Reply:
        modes: dict[str, Mode] = {mode.casefold(): mode for mode in get_args(Mode) if mode != "plan"}
        mode = modes.get(name.casefold())
        return self._request_line("m", f"mode ({', '.join(modes.values())}): ") if mode is None else self._approve(mode)

    def change_plan(self, text: str) -> bool:
        """Take the plan as a person changed it, to be approved so; whether it is another one."""
        if not text.strip() or text == self.plan:
            return False
        self.plan = text
        self._body, self._missing = truncate_lines(self._render_body(), measure_screen())
        return True

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
    def _at(self) -> int:
        """Which question is to be answered next."""
        return min(len(self._answers) + self._left_out, len(self.ask.questions or [{}]) - 1)

    @property
    def _question(self) -> dict[str, Any]:
        return (self.ask.questions or [{}])[self._at]

    def _prompt_question(self) -> None:
        self.prompt, self.keys = "answer: ", ""

    def _render_question(self) -> list[StyledLine]:
        several = "numbers, as 1,2" if self._question.get("multiSelect") else "a number"
        keys = f"  {several}, one with a note (1: words), or your own words; - leaves it out"
        complaint: list[StyledLine] = [(f"  {self._complaint}", "yellow")] if self._complaint else []
        return [*(render_question(self.ask, self._at) if self.ask.questions else []), (keys, "dim"), *complaint]

    def render_more(self) -> list[StyledLine]:
        """What to show where a further line is needed."""
        return self._render_question() if self.ask.kind == "question" else []

    def start_again(self) -> None:
        """The answers did not count: they are asked for from the first question on."""
        self._answers, self._notes, self._left_out, self._complaint = {}, {}, 0, None
        if self.ask.kind == "question":
            self._prompt_question()

    def _parse_question_answer(self, line: str) -> Reply:
        self._complaint = None
        if not line.strip():
            return ReplyKind.MORE
        if line.strip() == "-":
            self._left_out += 1
        else:
            try:
                answer = parse_question_answer(self._question, line)
            except BadAnswer as wrong:
                self._complaint = str(wrong)
                return ReplyKind.MORE
            text = str(self._question.get("question", ""))
            if answer.note:
                self._notes[text] = answer.note
            self._answers[text] = answer.chosen
        if len(self._answers) + self._left_out < len(self.ask.questions or []):
            self._prompt_question()
            return ReplyKind.MORE
        return GiveAnswers(answers=self._answers, notes=self._notes) if self._answers else Decline()


_KEYS: Final = {"permission": "ynde", "question": "", "plan": "yamnde", "elicitation": "ync", "trust": "tr"}
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


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
