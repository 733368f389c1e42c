"""The contract of a tool: class `Tool`, its input and output, and what a call can return.

Everything has a default except the name, the models, the description and `run`. docs/adding-a-tool.md adds one.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar, Union

import orjson
from pydantic import BaseModel, ConfigDict, TypeAdapter

from ostler.protocol.brief import Attachment, BriefStatus
from ostler.protocol.session import Mode
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.description import render_description
from ostler.tools.services import SentFile
from ostler.tools.traits import NO_PERMISSION_TRAITS, NO_SHELL, PermissionTraits, ShellTraits

Activity = Literal["search", "read", "list", "edit", "run", "other"]
Block = dict[str, Any]
"""A content block, as the Messages API has it."""

DEFAULT_MAX_RESULT_CHARS = 50_000
STORED_SCHEMAS: Final = "input_schemas.json"
_FAR = 20
"""A bound of so many characters or items is not named in schemas."""


class ToolInput(BaseModel):
    """What the model gives a tool: unknown fields are errors, and types are not converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class ToolOutput(BaseModel):
    """What a tool gives back, for clients and for the store."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


I = TypeVar("I", bound=ToolInput)  # noqa: E741 - the input
O = TypeVar("O", bound=ToolOutput)  # noqa: E741 - the output


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that the model is shown and can correct."""

    message: str
    code: int = 0
    """An error code of the tool's own, so that clients need not parse the message."""


# What a tool's own check can say about a call.


@dataclass(frozen=True, slots=True)
class Allow(Generic[I]):
    """The call may run; with `input` in place of its own, where one is given."""

    input: I | None = None
    own_state: bool = False
    """It changes nothing but the session's own state (tasks, todos), which the mode `plan` allows."""
    reads: bool = False
    """It only reads, though its text alone does not say so: plan mode lets it pass."""


@dataclass(frozen=True, slots=True)
class AskFirst:
    """A person has to say yes."""

    message: str
    reason: str = ""
    safety: bool = False
    """The person is asked in every mode, even where a rule allows the call."""
    diff: str | None = None


@dataclass(frozen=True, slots=True)
class Questions:
    """What the model wants to know, as the ask of kind `question` shows it."""

    questions: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class PlanProposal:
    """A plan to be approved, as the ask of kind `plan` shows it."""

    plan: str
    path: str
    """The file that holds it."""
    allowed_prompts: tuple[dict[str, Any], ...] = ()
    """What it asks to be allowed along with it."""


@dataclass(frozen=True, slots=True)
class AskPeople:
    """Only people can say how the call goes on, in every mode: their answer is `context.answer` when it runs."""

    message: str
    about: Questions | PlanProposal
    otherwise: str
    """What the model is told where nobody can be asked."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """It must not run."""

    reason: str


@dataclass(frozen=True, slots=True)
class Pass:
    """No opinion: a rule or a person decides."""


Check = Allow[Any] | AskFirst | AskPeople | Refuse | Pass


# What a call changes beside its result.


@dataclass(frozen=True, slots=True)
class FolderChanged:
    """The next command of the session starts in this folder."""

    path: str


@dataclass(frozen=True, slots=True)
class FileChanged:
    """The content of a file has changed."""

    path: str
    patch: str | None
    """Null where it is too long to show."""


@dataclass(frozen=True, slots=True)
class GitChanged:
    """A repository, or a pull request of its host, has changed."""

    facts: dict[str, Any]
    """What happened, as the output tells it: `commit`, `push`, `branch`, `pr`."""


@dataclass(frozen=True, slots=True)
class PlanBegun:
    """The session is in plan mode from now on."""


@dataclass(frozen=True, slots=True)
class PlanApproved:
    """A person approved a plan: plan mode is over."""

    mode: Mode | None
    """The mode from now on; null: the one before planning."""
    granted: tuple[str, ...] = ()
    """What commands may do unasked from now on, in words."""


@dataclass(frozen=True, slots=True)
class BriefSent:
    """The people were sent a message."""

    message: str
    attachments: tuple[Attachment, ...]
    status: BriefStatus
    sent_at: str
    files: tuple[SentFile, ...]
    """The attachments, as they are kept."""


Change = FolderChanged | FileChanged | GitChanged | PlanBegun | PlanApproved | BriefSent


@dataclass(frozen=True, slots=True)
class ToolResult(Generic[O]):
    """The result of a call that ran to its end."""

    output: O
    is_error: bool = False
    """The work failed, and the output says how."""
    changes: Sequence[Change] = ()
    messages: Sequence[Sequence[Block]] = ()
    """Further user messages for the model, after all results of its message: each is texts, images and documents."""


class Tool(ABC, Generic[I, O]):
    """One thing that an agent can do. The description for the model is a Markdown file with the module's name.

    The members stand in the order in which one meets them. The first part is all that most tools have.
    """

    # What every tool says.

    name: str
    Input: ClassVar[type[ToolInput]]
    Output: ClassVar[type[ToolOutput]]

    @abstractmethod
    async def run(self, given: I, context: ToolContext) -> ToolResult[O] | Failure:
        """Does the work; an error that the model can correct is returned as a Failure."""

    # What most tools say.

    title: str = ""
    """One line for people who look through the list."""
    only_reads: bool = False
    """It is read-only whatever its input; lists of tools show this."""
    permissions: PermissionTraits = NO_PERMISSION_TRAITS
    """What rules about permission know of its calls."""

    def description(self, session: SessionView) -> str:
        """The description that the model reads."""
        return render_description(self._description_template, session)

    def is_enabled(self, session: SessionView) -> bool:
        """Present in this session at all? `explain_absence` says why not."""
        return True

    def is_concurrency_safe(self, given: I) -> bool:
        """May it run concurrently with other safe calls?"""
        return False

    def activity(self, given: I) -> Activity:
        return "other"

    def summary(self, given: I) -> str:
        """One line for people."""
        return self.name

    async def validate(self, given: I, context: ToolContext) -> Failure | None:
        """Checks that the schema cannot make."""
        return None

    async def check_permission(self, given: I, context: ToolContext) -> Check:
        return Pass()

    def render(self, output: O) -> list[Block]:
        """The output as the model sees it."""
        return [text_block(output.model_dump_json())]

    # What few tools say: how models find and call it.

    aliases: ClassVar[tuple[str, ...]] = ()
    search_hint: str = ""
    deferred: ClassVar[bool] = False
    always_load: bool = False
    in_minimal: ClassVar[bool] = False
    """It is in the preset `minimal`."""
    strict: ClassVar[bool] = False
    input_examples: ClassVar[tuple[dict[str, Any], ...]] = ()

    def explain_absence(self, session: SessionView) -> str:
        """Why it is not, in words that follow `because`."""
        return "it is disabled"

    def called_as(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Translates the input of a call by one of the aliases; an input under the tool's own name stays as it is."""
        return given

    # What few tools say: what a call does, and how its result is treated.

    shell: ShellTraits = NO_SHELL
    """How it runs commands, where it does."""
    interrupt: ClassVar[Literal["cancel", "block"]] = "cancel"
    output_kinds: ClassVar[tuple[type[ToolOutput], ...]] = ()
    """The models of the output, where they are several: each is an `Output`."""
    max_result_chars: ClassVar[int | None] = DEFAULT_MAX_RESULT_CHARS
    """Longer results are persisted; None: the tool limits its results itself."""
    given_to_agents: ClassVar[Literal["all", "waited_for", "if_named", "none"]] = "waited_for"
    """Which agents get it: `all`, in the background too; those that somebody waits for; of those, the ones whose kind
    names it; or none, as it is for the session of a person."""
    shows_both_ends: ClassVar[bool] = False
    """The preview of a persisted result also shows its end: a build's error stands last."""
    reads_tasks: ClassVar[bool] = False
    """It shows what background tasks print: without such a tool a session has none."""
    takes_up_skills: ClassVar[bool] = False
    """It takes up skills: the model is told of them, and of those that come and go."""
    finds_tools: ClassVar[bool] = False
    """It loads tools that were left out of the prompt: without such a tool none is left out."""

    def is_read_only(self, given: I) -> bool:
        return self.only_reads

    def is_destructive(self, given: I) -> bool:
        """Is it irreversible: delete, overwrite, send?"""
        return False

    def classifier_text(self, given: I) -> str:
        """What the classifier of mode `auto` sees; empty where there is nothing worth classifying."""
        return ""

    # What the daemon reads, and a tool seldom changes.

    source: str = "built-in"
    on_server: tuple[str, str] | None = None
    """Of a tool of an MCP server: the server, and its own name for the tool."""
    rule_names: tuple[str, ...] = ()
    """Further names under which rules and lists of tools speak of it."""

    async def replace_output(self, given: Any, context: ToolContext) -> O | None:
        """The output that a hook puts in the place of the tool's own; None where this tool's is never replaced."""
        return None

    def parse(self, given: dict[str, Any]) -> I:
        """The input as the tool takes it; raises pydantic's ValidationError."""
        return self.Input.model_validate(given)  # type: ignore[return-value]  # Input is I, which ClassVar cannot say

    def input_schema(self, session: SessionView) -> dict[str, Any]:
        """JSON Schema of the input."""
        return self._schema

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of the output, as clients get it."""
        kinds: Any = Union[self.output_kinds or (self.Output,)]  # noqa: UP007 - known at run time only
        schema: dict[str, Any] = _strip_titles(TypeAdapter(kinds).json_schema(by_alias=True, mode="serialization"))
        return schema

    @cached_property
    def _schema(self) -> dict[str, Any]:
        return load_stored_schemas().get(_get_path(type(self))) or self.build_schema()

    def build_schema(self) -> dict[str, Any]:
        """JSON Schema of the input, from the model itself."""
        schema = self.Input.model_json_schema(by_alias=True)
        schema.pop("description", None)  # the docstring of the class: the tool's own description says it better
        # Names that pydantic made up say nothing to a model, and cost tokens in every request.
        slim: dict[str, Any] = _shorten(_strip_titles(schema))
        return slim

    @cached_property
    def _description_template(self) -> str:
        module = type(self).__module__
        package, _, file = module.rpartition(".")
        beside = Path(sys.modules[module].__file__ or "").with_name(f"{file}.md")
        if package and beside.is_file():
            return beside.read_text("utf-8").strip()
        # Imported here: only a plug-in that lies in a zip file needs it, or one whose description is not there.
        from importlib import resources  # noqa: PLC0415

        return resources.files(package).joinpath(f"{file}.md").read_text("utf-8").strip()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in cls.permissions.list_parameters():
            own: type[ToolInput] | None = getattr(cls, "Input", None)
            if own is not None and name not in own.model_fields:
                raise TypeError(f"{cls.__name__}.permissions names the parameter {name!r}, which its Input lacks")


AnyTool = Tool[Any, Any]
Ran = ToolResult
"""Deprecated: its name in an earlier release, for plug-ins."""


@cache
def load_stored_schemas() -> dict[str, dict[str, Any]]:
    """The input schemas of the built-in tools, which `make generate` writes beside this module.

    To have pydantic make them for all tools takes 20 ms, and the first request waits for it.
    """
    try:
        stored: dict[str, dict[str, Any]] = orjson.loads(Path(__file__).with_name(STORED_SCHEMAS).read_bytes())
    except FileNotFoundError:
        return {}
    return stored


def build_stored_schemas(tools: Iterable[AnyTool]) -> dict[str, dict[str, Any]]:
    """What that file should hold."""
    return {_get_path(type(tool)): tool.build_schema() for tool in tools}


def _get_path(kind: type[AnyTool]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def _shorten(schema: Any) -> Any:
    """Drops what a model need not be told, and what costs tokens in every request: it is checked all the same.

    That is null for what may be left out, and bounds that nobody reaches by chance.
    """
    if isinstance(schema, list):
        return [_shorten(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: {name: _shorten(_drop_null(each)) for name, each in value.items()}
        if key in {"properties", "$defs"}
        else _shorten(value)
        for key, value in schema.items()
    }
    return {key: value for key, value in kept.items() if not _is_needless(key, value)}


def _is_needless(key: str, value: Any) -> bool:
    return (key == "minLength" and value == 1) or (key in {"maxLength", "maxItems"} and value >= _FAR)


def _drop_null(parameter: Any) -> Any:
    if not isinstance(parameter, dict) or "default" not in parameter or parameter["default"] is not None:
        return parameter
    plain = {keyword: value for keyword, value in parameter.items() if keyword not in {"default", "anyOf"}}
    choices = [each for each in parameter.get("anyOf", ()) if each != {"type": "null"}]
    return {**choices[0], **plain} if len(choices) == 1 else {**plain, **({"anyOf": choices} if choices else {})}


def _strip_titles(schema: Any) -> Any:
    """Drops `title` wherever it is a keyword; a property may well be called so."""
    if isinstance(schema, list):
        return [_strip_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    return {
        key: {name: _strip_titles(each) for name, each in value.items()}
        if key in {"properties", "$defs"}
        else _strip_titles(value)
        for key, value in kept.items()
    }
