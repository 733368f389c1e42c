"""What a tool declares. Everything has a default but its name, its models, its description and its work."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import resources
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from ostler.tools.context import Surroundings, ToolContext
from ostler.tools.description import fitting
from ostler.tools.permissions.subject import OfPlaces, OfServer, OfText, Subject, place_of
from ostler.tools.threads import read_in_thread

Activity = Literal["search", "read", "list", "edit", "run", "other"]
Block = dict[str, Any]
"""A content block, as the Messages API has it."""

DEFAULT_MAX_RESULT_CHARS = 50_000


class ToolInput(BaseModel):
    """What the model gives a tool: unknown fields are errors, and types are what they are."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class ToolOutput(BaseModel):
    """What a tool gives back, for clients and for the store."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


I = TypeVar("I", bound=ToolInput)  # noqa: E741 - the input
O = TypeVar("O", bound=ToolOutput)  # noqa: E741 - the output


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that the model should see and can mend."""

    message: str
    code: int = 0
    """A number of the tool's own, so that clients need not read the words."""


# What a tool's own check can say about a call.


@dataclass(frozen=True, slots=True)
class Allow(Generic[I]):
    """It may run; with another input, where one is given."""

    input: I | None = None


@dataclass(frozen=True, slots=True)
class AskFirst:
    """A person has to say yes."""

    message: str
    reason: str = ""
    safety: bool = False
    """In every mode, and whatever a rule allows."""
    diff: str | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """It must not run."""

    reason: str


@dataclass(frozen=True, slots=True)
class Pass:
    """No opinion: a rule or a person decides."""


Check = Allow[Any] | AskFirst | Refuse | Pass


# What a call changes beside its result.


@dataclass(frozen=True, slots=True)
class FolderChanged:
    """The next command of the session starts here."""

    path: str


@dataclass(frozen=True, slots=True)
class FileChanged:
    """A file is not what it was."""

    path: str
    patch: str | None
    """Null where it is too long to show."""


@dataclass(frozen=True, slots=True)
class GitChanged:
    """A repository, or a pull request of its host, is not what it was."""

    facts: dict[str, Any]
    """What happened, as the output tells it: `commit`, `push`, `branch`, `pr`."""


Change = FolderChanged | FileChanged | GitChanged


@dataclass(frozen=True, slots=True)
class Ran(Generic[O]):
    """The work is done."""

    output: O
    is_error: bool = False
    """It went wrong, and the output says how."""
    changes: Sequence[Change] = ()


class Tool(ABC, Generic[I, O]):
    """One thing that an agent can do. The words that the model reads stand in a Markdown file of the module's name."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    Input: ClassVar[type[ToolInput]]
    Output: ClassVar[type[ToolOutput]]
    title: ClassVar[str] = ""
    """One line for people who look through the list."""
    source: str = "built-in"
    search_hint: ClassVar[str] = ""
    deferred: ClassVar[bool] = False
    always_load: ClassVar[bool] = False
    strict: ClassVar[bool] = False
    input_examples: ClassVar[tuple[dict[str, Any], ...]] = ()
    max_result_chars: ClassVar[int | None] = DEFAULT_MAX_RESULT_CHARS
    """Longer results are persisted; None = it bounds itself."""
    shows_both_ends: ClassVar[bool] = False
    """Of a result that is persisted the end is shown, too: a build's error stands last."""
    interrupt: ClassVar[Literal["cancel", "block"]] = "cancel"
    denied_code: ClassVar[int | None] = None
    """The number by which clients know that permission was refused."""
    is_shell: ClassVar[bool] = False
    """A failure of it stops the shell calls beside it."""
    runs_commands: ClassVar[bool] = False
    """Rules about commands bind it, and what it runs can be kept to reading."""
    waits_at_gate: ClassVar[bool] = False
    """Nothing happens before `processes.started` has returned, which is after the call's own start was stored."""
    only_reads: ClassVar[bool] = False
    """It is read-only whatever it is given: what lists of tools show."""

    def description(self, surroundings: Surroundings) -> str:
        """What the model reads."""
        return fitting(self._words, surroundings)

    @cached_property
    def _words(self) -> str:
        module = type(self).__module__
        package, _, file = module.rpartition(".")
        return resources.files(package).joinpath(f"{file}.md").read_text("utf-8").strip()

    def input_schema(self, surroundings: Surroundings) -> dict[str, Any]:
        """JSON Schema of the input."""
        return self._schema

    @cached_property
    def _schema(self) -> dict[str, Any]:
        schema = self.Input.model_json_schema(by_alias=True)
        # Names that pydantic made up say nothing to a model, and cost tokens in every request.
        slim: dict[str, Any] = _without_titles(schema)
        return slim

    def parse(self, given: dict[str, Any]) -> I:
        """The input as the tool takes it; raises pydantic's ValidationError."""
        return self.Input.model_validate(given)  # type: ignore[return-value]  # Input is I, which ClassVar cannot say

    def called_as(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """What an input means under one of the aliases, in the tool's own terms; of those, it changes nothing."""
        return given

    def activity(self, given: I) -> Activity:
        return "other"

    def is_enabled(self, surroundings: Surroundings) -> bool:
        """Present in this session at all?"""
        return True

    def is_read_only(self, given: I) -> bool:
        return self.only_reads

    def is_concurrency_safe(self, given: I) -> bool:
        """May it run beside other safe calls?"""
        return False

    def is_destructive(self, given: I) -> bool:
        """Is it irreversible: delete, overwrite, send?"""
        return False

    def only_waits(self, given: I) -> bool:
        """Of a command: does it nothing but pass the time, so that it never goes on in the background?"""
        return False

    def writes_files(self, given: I) -> bool:
        """Of a tool that waits at the gate: may this call write files without one, and do Edit's rules allow it?"""
        return False

    def requires_user(self, given: I) -> bool:
        return False

    def path(self, given: I) -> str | None:
        """The path that permission rules match."""
        return None

    def server(self, given: I) -> str | None:
        """The MCP server that permission rules match."""
        return None

    def permission_matcher(self, given: I) -> str:
        """The text that the content of a permission rule is compared with."""
        return self.path(given) or ""

    async def subject(self, given: I, surroundings: Surroundings) -> Subject:
        """What permission rules with a content are compared with."""
        if (server := self.server(given)) is not None:
            return OfServer(server)
        path = self.path(given)
        if path is None:
            return OfText(self.permission_matcher(given))
        return OfPlaces((await read_in_thread(partial(place_of, path, writes=not self.only_reads)),))

    async def validate(self, given: I, context: ToolContext) -> Failure | None:
        """Checks that the schema cannot make."""
        return None

    async def check_permission(self, given: I, context: ToolContext) -> Check:
        return Pass()

    async def bound_to(self, given: I, surroundings: Surroundings) -> str | None:
        """A digest of what a person says yes to beside the input: where it is another one by then, it does not run."""
        return None

    @abstractmethod
    async def run(self, given: I, context: ToolContext) -> Ran[O] | Failure:
        """Its work; what goes wrong and the model can mend is a Failure."""

    def render(self, output: O) -> list[Block]:
        """The output as the model sees it."""
        return [text_block(output.model_dump_json())]

    def stopped(self, printed: str, duration_ms: int) -> O | None:
        """The output, for clients, of a call that was stopped while it ran; null: there is none."""
        return None

    def summary(self, given: I) -> str:
        """One line for people."""
        return self.name

    def classifier_text(self, given: I) -> str:
        """What the classifier of mode `auto` sees; nothing where there is nothing worth classifying."""
        return ""


AnyTool = Tool[Any, Any]


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def _without_titles(schema: Any) -> Any:
    """Drops `title` wherever it is a keyword; a property may well be called so."""
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    return {
        key: {name: _without_titles(each) for name, each in value.items()}
        if key in {"properties", "$defs"}
        else _without_titles(value)
        for key, value in kept.items()
    }
