"""Content blocks, as the Messages API has them.

Known kinds are typed; the rest pass through untouched, because a block of a kind that the API adds next
month must survive being stored and sent back.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, SerializerFunctionWrapHandler, Tag, model_serializer

from ostler.protocol.wire import Shape


class Block(Shape):
    """A piece of a message. What the API put into one goes back to it as it was: nothing more, nothing less."""

    model_config = ConfigDict(extra="allow")

    @model_serializer(mode="wrap")
    def _as_given(self, handler: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        # No return type, because the schema shall show the fields and not just any object.
        given = self.model_fields_set
        return {name: value for name, value in handler(self).items() if name == "type" or name in given}


class TextBlock(Block):
    """Words."""

    type: Literal["text"] = "text"
    text: str


class ThinkingBlock(Block):
    """What the model thought before it spoke."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str | None = None
    """The API's proof that the thoughts are its own; sent back as it came."""


class ImageBlock(Block):
    """A picture."""

    type: Literal["image"] = "image"
    source: dict[str, Any]
    """Its data or address, as the Messages API has it."""


class DocumentBlock(Block):
    """A document."""

    type: Literal["document"] = "document"
    source: dict[str, Any]
    """Its data or address, as the Messages API has it."""
    title: str | None = None


class ToolUseBlock(Block):
    """A tool that the model wants to use."""

    type: Literal["tool_use"] = "tool_use"
    id: str
    """The model's own id for it; models repeat these."""
    name: str
    """The tool."""
    input: dict[str, Any]
    """What the tool is given."""


class ToolResultBlock(Block):
    """What a tool gave back."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    """The `id` of the `tool_use` that it answers."""
    content: str | list[dict[str, Any]] = ""
    """Words, or blocks."""
    is_error: bool = False
    """The tool failed, and the content says how."""


class OtherBlock(Block):
    """A block of a kind that this version does not know; it is kept as it came."""

    type: str
    """Any other kind."""


_KNOWN = frozenset({"text", "thinking", "image", "document", "tool_use", "tool_result"})


def _tag_block(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else getattr(block, "type", None)
    return str(kind) if kind in _KNOWN else "other"


ContentBlock = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ThinkingBlock, Tag("thinking")]
    | Annotated[ImageBlock, Tag("image")]
    | Annotated[DocumentBlock, Tag("document")]
    | Annotated[ToolUseBlock, Tag("tool_use")]
    | Annotated[ToolResultBlock, Tag("tool_result")]
    | Annotated[OtherBlock, Tag("other")],
    Discriminator(_tag_block),
]
