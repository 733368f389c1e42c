"""What can be asked of a turn, and how one is started."""

import binascii
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from ostler.protocol.ids import SessionId, TurnId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_FILE_CHARS, MAX_INPUT_BLOCKS, MAX_PAGE, MAX_WAIT_MS
from ostler.protocol.session import IdempotencyKey, Mode, OnAsk, SessionOptions
from ostler.protocol.shapes import Turn
from ostler.protocol.wire import JsonObject, Name, Params, PathText, Shape, Text, Usd


class InputText(Params):
    """Words of the person's."""

    type: Literal["text"] = "text"
    """Always `text`."""
    text: Text
    """What they say."""


def _check_base64(data: str) -> str:
    # Checked here: what the API refuses would stand in the history, and every later turn would fail on it.
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"is not base64: {error}") from None
    return data


Base64 = Annotated[str, Field(min_length=4, max_length=MAX_FILE_CHARS), AfterValidator(_check_base64)]


class UrlSource(Params):
    """Something that the provider of the model fetches."""

    type: Literal["url"]
    """Always `url`."""
    url: Annotated[str, Field(max_length=8192, pattern=r"^https?://")]
    """Where it is."""


class ImageSource(Params):
    """The bytes of a picture."""

    type: Literal["base64"]
    """Always `base64`."""
    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    """What sort of picture it is."""
    data: Base64
    """The picture."""


class PdfSource(Params):
    """The bytes of a document."""

    type: Literal["base64"]
    """Always `base64`."""
    media_type: Literal["application/pdf"]
    """What sort of document it is."""
    data: Base64
    """The document."""


class TextSource(Params):
    """A document of plain words."""

    type: Literal["text"]
    """Always `text`."""
    media_type: Literal["text/plain"]
    """What sort of document it is."""
    data: Annotated[Text, Field(min_length=1)]
    """The words."""


class InputImage(Params):
    """A picture."""

    type: Literal["image"] = "image"
    """Always `image`."""
    source: Annotated[ImageSource | UrlSource, Discriminator("type")]
    """Its data or address, as the Messages API has it."""


class InputDocument(Params):
    """A document."""

    type: Literal["document"] = "document"
    """Always `document`."""
    source: Annotated[PdfSource | TextSource | UrlSource, Discriminator("type")]
    """Its data or address, as the Messages API has it."""
    title: Name | None = None
    """What it is called."""


class InputFile(Params):
    """A file of the session's folders, or some of its lines."""

    type: Literal["file"] = "file"
    """Always `file`."""
    path: PathText
    """Absolute, or relative to the session's folder."""
    start_line: Annotated[int, Field(ge=1)] | None = None
    """The first line. Null: from the start."""
    end_line: Annotated[int, Field(ge=1)] | None = None
    """The last line. Null: to the end."""


InputBlock = Annotated[
    Annotated[InputText, Tag("text")]
    | Annotated[InputImage, Tag("image")]
    | Annotated[InputDocument, Tag("document")]
    | Annotated[InputFile, Tag("file")],
    Discriminator("type"),
]


def _tag_input(given: Any) -> str:
    return "blocks" if isinstance(given, list) else "words"


# With names: an error would name the way through our validators in their place.
Input = Annotated[
    Annotated[Text, Field(min_length=1), Tag("words")]
    | Annotated[list[InputBlock], Field(min_length=1, max_length=MAX_INPUT_BLOCKS), Tag("blocks")],
    Discriminator(_tag_input),
]
"""Words, or blocks."""

Requests = Annotated[int, Field(ge=1, le=10_000)]
Milliseconds = Annotated[int, Field(ge=1, le=7 * 24 * 3600 * 1000)]


def _check_tool_choice(given: dict[str, Any]) -> dict[str, Any]:
    # Checked here: the provider's refusal would end the turn that has begun with it.
    match given:
        case {"type": "auto" | "any" | "none"}:
            return given
        case {"type": "tool", "name": str()}:
            return given
        case {"type": "tool"}:
            raise ValueError("needs the `name` of the tool")
        case _:
            raise ValueError("must have a `type`: 'auto', 'any', 'none', or 'tool' with a `name`")


ToolChoice = Annotated[JsonObject, AfterValidator(_check_tool_choice)]


class TurnOptions(Params):
    """What holds for one turn. A null takes what the session has."""

    input: Input
    """What the agent shall do: words, or blocks."""
    model: Name | None = None
    """The model of this turn."""
    mode: Mode | None = None
    """How permission is decided, from this turn on."""
    thinking: JsonObject | None = None
    """How the model may think, as the Messages API has it."""
    tool_choice: ToolChoice | None = None
    """Which tool the model must use first, as the Messages API has it: `type` auto, any, none, or tool and `name`."""
    output_schema: JsonObject | None = None
    """A JSON Schema that the turn's answer has to fit."""
    max_requests: Requests | None = None
    """Requests to the model before the turn ends as `max_requests`."""
    max_budget_usd: Usd | None = None
    """What the turn may cost before it ends as `budget`."""
    timeout_ms: Milliseconds | None = None
    """How long the turn may take before it ends as `timeout`; waiting for an ask counts."""
    wait_for_agents: bool = False
    """The turn ends after the agents that it sent to the background, whose ends the model is told; else they go on."""


class TurnStart(TurnOptions):
    """A new turn."""

    session_id: SessionId
    """Which session."""
    queue: bool = False
    """Where a turn runs already: wait for its end instead of failing."""
    idempotency_key: IdempotencyKey | None = None
    """The same key with the same params within a day gives the same answer, also after a crash."""


class TurnSteer(Params):
    """Further input for a turn that runs."""

    turn_id: TurnId
    """Which turn."""
    input: Input
    """What the agent shall know: words, or blocks."""
    now: bool = False
    """Stop the running calls that can be stopped, so that it is read at once."""


class TurnInterrupt(Params):
    """A turn to stop."""

    turn_id: TurnId
    """Which turn."""
    tasks: bool = False
    """Stop the background tasks that it started, too."""
    give_back: bool = False
    """Give back what waits, steered input and queued turns of the session, in `given_back`: it starts nothing then."""


class GivenBack(Shape):
    """Input that waited, and that no turn takes any more."""

    turn_id: TurnId
    """The turn that it was said to, or the queued turn that it would have started."""
    input: list[dict[str, Any]]
    """Blocks, as `turn/start` takes them; a file that was mentioned is in them as text, as it was read."""


class InterruptedTurn(Turn):
    """A turn that is being stopped."""

    given_back: list[GivenBack] = []
    """With `give_back`: what waited, in the order in which it would have been read."""


class TurnRef(Params):
    """One turn."""

    turn_id: TurnId
    """Which turn."""


class TurnList(Params):
    """Which turns to list."""

    session_id: SessionId
    """Which session."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


class TurnPage(Shape):
    """Turns, oldest first."""

    turns: list[Turn]
    """The turns of this page."""
    next: str | None
    """The `page` to ask for next; null at the end."""


class TurnWait(Params):
    """A turn to wait for."""

    turn_id: TurnId
    """Which turn."""
    timeout_ms: Annotated[int, Field(ge=0, le=MAX_WAIT_MS)] = 30_000
    """How long to wait for its end, or for an ask."""


class Run(TurnOptions, SessionOptions):
    """A turn in a new session, or in one that exists."""

    cwd: PathText | None = None
    """An absolute path to the folder of a new session."""
    session_id: SessionId | None = None
    """A session that exists, in the place of `cwd` and all else that a new one would start with."""
    wait_for_agents: bool = True
    """The turn ends after the agents that it sent to the background, whose ends the model is told; else they go on."""
    on_ask: OnAsk = "deny"
    """`ask`: the call ends when something is asked, and the turn waits for somebody to answer."""
    idempotency_key: IdempotencyKey | None = None
    """The same key with the same params within a day gives the same answer, also after a crash."""

    @model_validator(mode="after")
    def _new_or_old(self) -> Self:
        if (self.cwd is None) == (self.session_id is None):
            raise ValueError("give either session_id, or the cwd of a new session")
        if self.session_id is not None and (
            useless := sorted(self.model_fields_set & SessionOptions.model_fields.keys())
        ):
            raise ValueError(f"{', '.join(useless)}: only for a new session, so not together with session_id")
        return self


class RunResult(Shape):
    """A turn that ended, or waits for an ask."""

    session_id: SessionId
    """The session that it ran in."""
    turn: Turn
    """The turn as it is now."""
