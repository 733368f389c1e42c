"""The outputs of Read, one for each kind of file, and their rendering for the model."""

from typing import Final, Literal

from pydantic import Field

from ostler.tools.formats.image import MediaType, Picture, image_block
from ostler.tools.formats.notebook import Cell, RenderedOutput
from ostler.tools.formats.pdf import Document, Page
from ostler.tools.fs.text_file import format_size
from ostler.tools.text import number_line
from ostler.tools.tool import Block, ToolOutput, text_block

ReadKind = Literal["text", "image", "notebook", "pdf", "parts", "file_unchanged"]


class ReadOutput(ToolOutput):
    """What a file holds, or why nothing of it is shown."""

    kind: ReadKind
    file_path: str
    warning: str | None = None
    """Stands in the place of the content."""


class TextOutput(ReadOutput):
    """Lines."""

    kind: ReadKind = "text"
    content: str = ""
    num_lines: int = 0
    start_line: int = 1
    total_lines: int = 0


class UnchangedOutput(ReadOutput):
    """The conversation has it already."""

    kind: ReadKind = "file_unchanged"
    total_lines: int = 0
    """Or pages of a document, or cells of a notebook."""


class PictureOutput(ToolOutput):
    """A picture as it was sent; its data stands only in the image block of the result."""

    media_type: MediaType
    original_width: int
    original_height: int
    width: int
    height: int
    animated: bool = False
    """Only its first frame was sent."""
    data: str = Field(exclude=True, repr=False)

    @classmethod
    def of(cls, picture: Picture) -> "PictureOutput":
        return cls(
            media_type=picture.media_type,
            original_width=picture.original[0],
            original_height=picture.original[1],
            width=picture.size[0],
            height=picture.size[1],
            animated=picture.animated,
            data=picture.data,
        )

    @property
    def block(self) -> Block:
        return image_block(self.media_type, self.data)


class ImageOutput(ReadOutput):
    """An image."""

    kind: ReadKind = "image"
    file_bytes: int
    image: PictureOutput


class CellResult(ToolOutput):
    """What a cell printed or drew."""

    kind: str
    """`stdout`, `stderr`, `error`, or the output_type that the notebook says."""
    text: str
    pictures: list[PictureOutput]

    @classmethod
    def of(cls, shown: RenderedOutput) -> "CellResult":
        return cls(kind=shown.kind, text=shown.text, pictures=[PictureOutput.of(each) for each in shown.pictures])


class CellOutput(ToolOutput):
    """A cell of a notebook."""

    id: str
    cell_type: str
    source: str
    execution_count: int | None
    outputs: list[CellResult]

    @classmethod
    def of(cls, cell: Cell) -> "CellOutput":
        return cls(
            id=cell.id,
            cell_type=cell.kind,
            source=cell.source,
            execution_count=cell.execution_count,
            outputs=[CellResult.of(each) for each in cell.outputs],
        )


class NotebookOutput(ReadOutput):
    """Cells."""

    kind: ReadKind = "notebook"
    language: str = ""
    cells: list[CellOutput] = Field(default_factory=list)
    start_cell: int = 1
    total_cells: int = 0


class PageOutput(ToolOutput):
    """A page of a document."""

    number: int
    text: str
    cut: bool = False
    """There is more text on it."""
    picture: PictureOutput | None = None
    """Of a page with hardly any text."""
    trouble: str | None = None
    """Why it cannot be shown."""

    @classmethod
    def of(cls, page: Page) -> "PageOutput":
        return cls(
            number=page.number,
            text=page.text,
            cut=page.cut,
            picture=PictureOutput.of(page.picture) if page.picture else None,
            trouble=page.trouble,
        )


class DocumentOutput(ReadOutput):
    """A PDF document, or some of its pages."""

    file_bytes: int
    total_pages: int
    pages: list[PageOutput]

    @classmethod
    def of(cls, path: str, document: Document, *, whole: bool) -> "DocumentOutput":
        return cls(
            kind="pdf" if whole else "parts",
            file_path=path,
            file_bytes=document.status.st_size,
            total_pages=document.total,
            pages=[PageOutput.of(each) for each in document.pages],
        )


OUTPUT_KINDS: Final[tuple[type[ReadOutput], ...]] = (
    TextOutput,
    UnchangedOutput,
    ImageOutput,
    NotebookOutput,
    DocumentOutput,
)


def render_output(output: ReadOutput) -> list[Block]:
    """Renders the output as content blocks of the result."""
    if output.warning is not None:
        return [text_block(f"({output.warning})")]
    match output:
        case TextOutput():
            return [text_block(_render_lines(output))]
        case ImageOutput():
            return [text_block(_describe_image(output)), output.image.block]
        case NotebookOutput():
            return _join_texts(_render_notebook(output))
        case DocumentOutput():
            return _join_texts(_render_document(output))
        case _:
            raise AssertionError(f"an output of kind {output.kind} is a warning")


def _render_lines(output: TextOutput) -> str:
    lines = output.content.split("\n")
    parts = [number_line(number, line) for number, line in enumerate(lines, output.start_line)]
    last = output.start_line + output.num_lines - 1
    if last < output.total_lines:
        parts.append(f"({output.total_lines - last} more lines; go on with offset {last + 1})")
    return "\n".join(parts)


def _describe_image(output: ImageOutput) -> str:
    """Describes an image with both sizes: a model that gives coordinates has to know how far it was scaled down."""
    image = output.image
    size = f"{image.original_width}x{image.original_height}"
    if (image.width, image.height) != (image.original_width, image.original_height):
        size += f", shown as {image.width}x{image.height}"
    frames = ", animated: the first frame" if image.animated else ""
    return f"Image {output.file_path} ({size} pixels{frames}, {format_size(output.file_bytes)})"


def _render_notebook(output: NotebookOutput) -> list[str | Block]:
    parts: list[str | Block] = []
    for cell in output.cells:
        run = f' run="{cell.execution_count}"' if cell.execution_count is not None else ""
        kind = output.language if cell.cell_type == "code" else cell.cell_type
        parts.append(f'<cell id="{cell.id}" type="{kind}"{run}>\n{cell.source}\n</cell>\n')
        for result in cell.outputs:
            parts.append(f'<output kind="{result.kind}">\n{result.text}\n')
            parts += [picture.block for picture in result.pictures]
            parts.append("</output>\n")
    last = output.start_cell + len(output.cells) - 1
    if last < output.total_cells:
        parts.append(f"({output.total_cells - last} more cells; go on with offset {last + 1})")
    return parts


def _render_document(output: DocumentOutput) -> list[str | Block]:
    parts: list[str | Block] = [f"PDF document {output.file_path} ({output.total_pages} pages)\n"]
    for page in output.pages:
        parts.append(f'<page number="{page.number}">\n')
        if page.text or (page.picture is None and page.trouble is None):
            parts.append(f"{page.text or '(nothing)'}\n")
        if page.cut:
            parts.append("(cut: there is more text on this page)\n")
        if page.trouble is not None:
            parts.append(f"(not shown: {page.trouble})\n")
        if page.picture is not None:
            parts += ["(as a picture)\n", page.picture.block]
        parts.append("</page>\n")
    return parts


def _join_texts(parts: list[str | Block]) -> list[Block]:
    """Joins neighbouring texts into one block."""
    blocks: list[Block] = []
    for part in parts:
        if not isinstance(part, str):
            blocks.append(part)
        elif blocks and blocks[-1]["type"] == "text":
            blocks[-1] = text_block(blocks[-1]["text"] + part)
        else:
            blocks.append(text_block(part))
    if blocks and blocks[-1]["type"] == "text":
        blocks[-1] = text_block(blocks[-1]["text"].rstrip("\n"))
    return blocks
