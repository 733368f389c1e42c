"""What a live session knows of its own conversation: nothing here is stored, all of it can be made again."""

from dataclasses import dataclass

from ostler.server.engine.context.repeats import ResultIndex


@dataclass(slots=True)
class ContextState:
    """Of one live session."""

    results: ResultIndex | None = None
    """The long results of the conversation; made when one may repeat another, and anew after a compaction."""
