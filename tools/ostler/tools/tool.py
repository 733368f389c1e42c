"""The contract of a tool: class `Tool`, its input and output, and what a call can return.

Everything has a default except the name, the models, the description and `run`.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar, Union

from pydantic import BaseModel, ConfigDict, TypeAdapter

from ostler.tools.context import SessionView, ToolContext
from ostler.tools.description import render_description
from ostler.tools.permissions.subject import (
    AccessedPath,
    PathSubject,
    ServerSubject,
    Subject,
    TextSubject,
    resolve_access,
)
from ostler.tools.threads import read_in_thread

Activity = Literal["search", "read", "list", "edit", "run", "other"]
Block = dict[str, Any]
"""A content block, as the Messages API has it."""

DEFAULT_MAX_RESULT_CHARS = 50_000
PATH_PARAMETERS: Final = ("path", "file_path", "notebook_path")
"""Parameters that name a file, whatever the tool is."""


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


Change = FolderChanged | FileChanged | GitChanged


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
    """One thing that an agent can do. The description for the model is a Markdown file with the module's name."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    Input: ClassVar[type[ToolInput]]
    Output: ClassVar[type[ToolOutput]]
    output_kinds: ClassVar[tuple[type[ToolOutput], ...]] = ()
    """The models of the output, where they are several: each is an `Output`."""
    title: ClassVar[str] = ""
    """One line for people who look through the list."""
    source: str = "built-in"
    search_hint: ClassVar[str] = ""
    deferred: ClassVar[bool] = False
    always_load: ClassVar[bool] = False
    strict: ClassVar[bool] = False
    input_examples: ClassVar[tuple[dict[str, Any], ...]] = ()
    max_result_chars: ClassVar[int | None] = DEFAULT_MAX_RESULT_CHARS
    """Longer results are persisted; None: the tool limits its results itself."""
    shows_both_ends: ClassVar[bool] = False
    """The preview of a persisted result also shows its end: a build's error stands last."""
    interrupt: ClassVar[Literal["cancel", "block"]] = "cancel"
    denied_code: ClassVar[int | None] = None
    """The number by which clients know that permission was refused."""
    is_shell: ClassVar[bool] = False
    """A failure of it stops the shell calls beside it."""
    runs_commands: ClassVar[bool] = False
    """Rules about commands apply to it, and what it runs can be restricted to reading."""
    waits_at_gate: ClassVar[bool] = False
    """Its command does not begin before `processes.record_start` has returned: after the call's start was stored."""
    only_reads: ClassVar[bool] = False
    """It is read-only whatever its input; lists of tools show this."""
    path_rules: ClassVar[tuple[str, ...] | None] = None
    """Tools whose rules about files bind it, where it is given a path; None: Read's, and Edit's where it may write."""

    def description(self, session: SessionView) -> str:
        """The description that the model reads."""
        return render_description(self._description_template, session)

    @cached_property
    def _description_template(self) -> str:
        module = type(self).__module__
        package, _, file = module.rpartition(".")
        return resources.files(package).joinpath(f"{file}.md").read_text("utf-8").strip()

    def input_schema(self, session: SessionView) -> dict[str, Any]:
        """JSON Schema of the input."""
        return self._schema

    @cached_property
    def _schema(self) -> dict[str, Any]:
        schema = self.Input.model_json_schema(by_alias=True)
        # Names that pydantic made up say nothing to a model, and cost tokens in every request.
        slim: dict[str, Any] = _strip_titles(schema)
        return slim

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of the output, as clients get it."""
        kinds: Any = Union[self.output_kinds or (self.Output,)]  # noqa: UP007 - known at run time only
        schema: dict[str, Any] = _strip_titles(TypeAdapter(kinds).json_schema(by_alias=True, mode="serialization"))
        return schema

    def parse(self, given: dict[str, Any]) -> I:
        """The input as the tool takes it; raises pydantic's ValidationError."""
        return self.Input.model_validate(given)  # type: ignore[return-value]  # Input is I, which ClassVar cannot say

    def called_as(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Translates the input of a call by one of the aliases; an input under the tool's own name stays as it is."""
        return given

    def activity(self, given: I) -> Activity:
        return "other"

    def is_enabled(self, session: SessionView) -> bool:
        """Present in this session at all?"""
        return True

    def is_read_only(self, given: I) -> bool:
        return self.only_reads

    def is_concurrency_safe(self, given: I) -> bool:
        """May it run concurrently with other safe calls?"""
        return False

    def is_destructive(self, given: I) -> bool:
        """Is it irreversible: delete, overwrite, send?"""
        return False

    def only_waits(self, given: I) -> bool:
        """Of a command: does it only wait, as `sleep` does, so that it is never moved to the background?"""
        return False

    def writes_files(self, given: I) -> bool:
        """Of a tool with `waits_at_gate`: may this call write files itself, without a command, under Edit's rules?"""
        return False

    def requires_user(self, given: I) -> bool:
        return False

    def path(self, given: I) -> str | None:
        """The path that permission rules match."""
        return None

    def list_paths(self, given: I) -> tuple[str, ...]:
        """The paths that it is given, which rules about files bind: by default `path`, or what is named like one."""
        if (path := self.path(given)) is not None:
            return (path,)
        fields = type(given).model_fields
        values = {info.alias or name: getattr(given, name, None) for name, info in fields.items()}
        values |= given.model_extra or {}
        named = [values.get(name) for name in PATH_PARAMETERS]
        return tuple(path for each in named if isinstance(each, str) and (path := _strip_scheme(each)))

    def list_path_rules(self) -> tuple[str, ...]:
        """The tools whose rules about files bind it."""
        if self.path_rules is not None:
            return self.path_rules
        return ("Read",) if self.only_reads else ("Edit", "Read")

    def server(self, given: I) -> str | None:
        """The MCP server that permission rules match."""
        return None

    def permission_matcher(self, given: I) -> str:
        """The text that the content of a permission rule is compared with."""
        return self.path(given) or ""

    async def subject(self, given: I, session: SessionView) -> Subject:
        """What permission rules with a content are compared with."""
        given_paths = [os.path.join(session.folder, path) for path in self.list_paths(given)]
        places: tuple[AccessedPath, ...] = ()
        if given_paths:
            places = await read_in_thread(_resolve_all, given_paths, not self.only_reads)
        if (server := self.server(given)) is not None:
            return ServerSubject(server, places)
        text = self.permission_matcher(given)
        # A tool that says nothing of itself, and is given a path: its rules are about that path.
        if self.path(given) is None and (text or not places):
            return TextSubject(text, places)
        return PathSubject(places)

    async def validate(self, given: I, context: ToolContext) -> Failure | None:
        """Checks that the schema cannot make."""
        return None

    async def check_permission(self, given: I, context: ToolContext) -> Check:
        return Pass()

    async def bound_to(self, given: I, session: SessionView) -> str | None:
        """A digest of what a person approves beside the input; where it has changed by then, the call does not run."""
        return None

    @abstractmethod
    async def run(self, given: I, context: ToolContext) -> ToolResult[O] | Failure:
        """Does the work; an error that the model can correct is returned as a Failure."""

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
        """What the classifier of mode `auto` sees; empty where there is nothing worth classifying."""
        return ""


def _strip_scheme(path: str) -> str:
    """A file by its address is a path; what else has a scheme is none."""
    if path.startswith("file://"):
        return path.removeprefix("file://")
    return "" if "://" in path else os.path.expanduser(path)


def _resolve_all(given: Sequence[str], writes: bool) -> tuple[AccessedPath, ...]:
    # Of a folder a tool may take everything below it.
    return tuple(resolve_access(path, writes=writes, deep=os.path.isdir(path)) for path in given)


AnyTool = Tool[Any, Any]
Ran = ToolResult
"""Deprecated: its name in an earlier release, for plug-ins."""


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


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
