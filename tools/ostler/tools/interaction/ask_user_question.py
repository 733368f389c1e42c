"""AskUserQuestion: up to four questions to the people, with options, several answers, or their own words."""

from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from ostler.protocol.ask import GiveAnswers
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.tool import (
    AskPeople,
    Block,
    Check,
    Failure,
    Questions,
    Tool,
    ToolInput,
    ToolOutput,
    ToolResult,
    text_block,
)
from ostler.tools.traits import PermissionTraits


class _Part(ToolInput):
    """A part of the input, which the output repeats."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)


class Option(_Part):
    label: Annotated[str, Field(min_length=1, max_length=200)]
    """One to five words."""
    description: str | None = None
    """What choosing it means."""
    value: str | None = None
    """What you are told in addition where it is chosen."""
    preview: str | None = None
    """An example that the person sees beside it: a piece of code, a drawing in characters."""


class Question(_Part):
    question: Annotated[str, Field(min_length=1, max_length=2000)]
    """The whole question, ending in a question mark."""
    header: Annotated[str, Field(max_length=12)] | None = None
    """A word or two that name it, at most 12 characters."""
    options: Annotated[list[Option], Field(min_length=2, max_length=4)]
    """The choices; the person can always answer in their own words instead."""
    multi_select: Annotated[bool, Field(alias="multiSelect")] = False
    """Whether several may be chosen."""


class AskUserQuestionInput(ToolInput):
    questions: Annotated[list[Question], Field(min_length=1, max_length=4)]
    """What you want to know."""
    metadata: dict[str, Any] | None = None
    """For clients; it is not shown."""


class Annotation(ToolOutput):
    """What belongs to an answer."""

    notes: str | None = None
    """Further words of the person."""
    preview: str | None = None
    """The preview of the option that was chosen."""


class AskUserQuestionOutput(ToolOutput):
    questions: list[Question]
    """As they were asked."""
    answers: dict[str, list[str]]
    """Labels, or the person's own words, by question; a question that they left out is missing."""
    annotations: Annotated[dict[str, Annotation], Field(default_factory=dict)]
    """What belongs to the answers, by question."""


class AskUserQuestion(Tool[AskUserQuestionInput, AskUserQuestionOutput]):
    name = "AskUserQuestion"
    title = "Asks the person a question"
    given_to_agents = "none"
    search_hint = "clarify choice decision options preference"
    deferred = True
    permissions = PermissionTraits(requires_user=True)
    Input: ClassVar[type[ToolInput]] = AskUserQuestionInput
    Output: ClassVar[type[ToolOutput]] = AskUserQuestionOutput
    only_reads = True

    def is_enabled(self, session: SessionView) -> bool:
        # An agent reports to whoever sent it, and that one may ask.
        return not session.is_agent

    def is_concurrency_safe(self, given: AskUserQuestionInput) -> bool:
        return True

    async def validate(self, given: AskUserQuestionInput, context: ToolContext) -> Failure | None:
        # Answers go by the question's text, and choices by the option's label.
        if repeated := _find_repeated([question.question for question in given.questions]):
            return Failure(f"Two questions are the same: {repeated!r}. Ask it once.")
        for question in given.questions:
            if not question.question.strip():
                return Failure("A question is blank. Write what you want to know.")
            if repeated := _find_repeated([option.label for option in question.options]):
                return Failure(f"Two options of {question.question!r} are both labelled {repeated!r}.")
        return None

    async def check_permission(self, given: AskUserQuestionInput, context: ToolContext) -> Check:
        questions = tuple(each.model_dump(mode="json", exclude_none=True) for each in given.questions)
        message = given.questions[0].question if len(questions) == 1 else f"{len(questions)} questions"
        return AskPeople(
            message, Questions(questions), "Only a person can answer it: do without, and say what you have assumed."
        )

    async def run(
        self, given: AskUserQuestionInput, context: ToolContext
    ) -> ToolResult[AskUserQuestionOutput] | Failure:
        if not isinstance(context.answer, GiveAnswers):
            return Failure("Nobody has answered.")
        answers = {text: words for text, words in context.answer.answers.items() if words}
        found = {each.question: _annotate(each, answers, context.answer.notes) for each in given.questions}
        annotations = {text: annotation for text, annotation in found.items() if annotation != Annotation()}
        return ToolResult(AskUserQuestionOutput(questions=given.questions, answers=answers, annotations=annotations))

    def render(self, output: AskUserQuestionOutput) -> list[Block]:
        lines: list[str] = []
        for question in output.questions:
            lines.append(f"{question.question} {_describe_answer(question, output.answers.get(question.question))}")
            annotation = output.annotations.get(question.question)
            if annotation is not None and annotation.notes:
                lines.append(f"  The person's note: {annotation.notes}")
        return [text_block("\n".join(lines))]

    def summary(self, given: AskUserQuestionInput) -> str:
        first = given.questions[0].question
        return f"Ask: {first}" if len(given.questions) == 1 else f"Ask {len(given.questions)} questions: {first} …"


def _find_repeated(texts: list[str]) -> str | None:
    return next((text for at, text in enumerate(texts) if text in texts[:at]), None)


def _annotate(question: Question, answers: dict[str, list[str]], notes: dict[str, str]) -> Annotation:
    chosen = answers.get(question.question, [])
    previews = [option.preview for option in question.options if option.label in chosen and option.preview]
    return Annotation(notes=notes.get(question.question), preview="\n".join(previews) or None)


def _describe_answer(question: Question, answers: list[str] | None) -> str:
    if not answers:
        return "(no answer)"
    values = {option.label: option.value for option in question.options}
    return ", ".join(_describe_choice(answer, values) for answer in answers)


def _describe_choice(answer: str, values: dict[str, str | None]) -> str:
    if answer not in values:
        return f"in the person's own words: {answer}"
    return f"{answer} (value: {values[answer]})" if values[answer] else answer
