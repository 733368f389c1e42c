"""The stages of a call: each is a value, which the next step takes and replaces by another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ostler.protocol.shapes import Call
from ostler.server.engine.session.file_reads import CallFileReads
from ostler.server.observability import logs
from ostler.tools.context import PeopleAnswer, ToolContext
from ostler.tools.tool import AnyTool, Block, Change, ToolInput


@dataclass(frozen=True, slots=True)
class Unusable:
    """After step 1 or 2: no tool has the name, or the tool cannot use the input. It ends with an error that says so."""

    call: Call
    problem: str
    """For the model."""
    tool: AnyTool | None = None
    """None where no tool has the name."""

    @property
    def is_safe(self) -> bool:
        """One that no tool has the name of ends at once with an error, and holds back nobody."""
        return self.tool is None


@dataclass(frozen=True, slots=True)
class Parsed:
    """After steps 1 and 2: its tool is found, and its input has passed the schema; steps 4 and 5 may change it."""

    call: Call
    tool: AnyTool
    input: ToolInput
    changed_by_person: bool = False
    """Its input is not the model's: the person who allowed it has changed it."""
    answer: PeopleAnswer | None = None
    """What the people answered, where only they can say how it goes on."""

    @property
    def is_safe(self) -> bool:
        """Whether it may run concurrently with other safe calls."""
        try:
            return self.tool.is_concurrency_safe(self.input)
        except Exception as error:  # noqa: BLE001 - an error of a plug-in makes its call unsafe, and nothing worse
            logs.log.warning("safety_check_failed", tool=self.tool.name, exc_info=error)
            return False

    @property
    def allowed_as_read_only(self) -> bool:
        """A command that was allowed because it only reads; one that a person allowed may do more."""
        return self.call.decision is not None and self.call.decision.by == "read_only"

    def has_effect(self) -> bool:
        """Whether it may change something. Of a command the decision says so: to parse it would hold up the loop."""
        return not (self.allowed_as_read_only if self.tool.shell.runs_commands else self.tool.is_read_only(self.input))


@dataclass(frozen=True, slots=True)
class Authorized:
    """After steps 3 to 5: it may run, with this input and in this context, as soon as it is safe to."""

    parsed: Parsed
    context: ToolContext
    reads: CallFileReads
    """The file reads that are stored with it."""


@dataclass(frozen=True, slots=True)
class Running:
    """In step 6: its start is stored, and the tool works."""

    call: Call
    tool: AnyTool
    input: ToolInput
    has_effect: bool
    """It may change something."""
    began: float
    """On the clock of `time.perf_counter`."""


@dataclass(frozen=True, slots=True)
class Ended:
    """After step 8: its result is stored, or one that says why there is none."""

    call: Call
    tool: AnyTool | None = None
    """None where no tool has the name, and for one that had ended before a restart."""
    has_run: bool = False
    had_effect: bool = False
    """It may have changed something."""
    changes: Sequence[Change] = ()
    """Changes of the session that are applied in the order of the calls."""
    changed_files: Sequence[str] = ()
    messages: Sequence[Sequence[Block]] = ()
    """Further user messages that it gave, for the history after the results."""


Stage = Unusable | Parsed | Running | Ended
"""What is known of a call at any moment."""


def set_input(tool: AnyTool, parsed_input: ToolInput, call: Call, as_json: dict[str, Any]) -> Parsed:
    """A call with an input that has passed the schema."""
    shown = call.changed(input=as_json, summary=tool.summary(parsed_input), activity=tool.activity(parsed_input))
    return Parsed(shown, tool, parsed_input)
