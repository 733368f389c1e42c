"""WordCount: how long a text is."""

from pathlib import Path

from pydantic import Field

from ostler.tools import (
    Activity,
    Block,
    Failure,
    PermissionTraits,
    Tool,
    ToolContext,
    ToolInput,
    ToolOutput,
    ToolResult,
    check_path,
    read_in_thread,
    text_block,
)


class WordCountInput(ToolInput):
    """Which file."""

    file_path: str = Field(description="Absolute path of a text file.")


class WordCountOutput(ToolOutput):
    """How long it is."""

    lines: int
    words: int
    characters: int


class WordCount(Tool[WordCountInput, WordCountOutput]):
    """Counts lines, words and characters."""

    name = "WordCount"
    Input = WordCountInput
    Output = WordCountOutput
    title = "Counts the words of a file"
    search_hint = "length size statistics lines characters text"
    strict = True
    input_examples = ({"file_path": "/home/me/essay.txt"},)
    only_reads = True
    permissions = PermissionTraits(path="file_path")

    def activity(self, given: WordCountInput) -> Activity:
        return "read"

    def is_concurrency_safe(self, given: WordCountInput) -> bool:
        return True

    def summary(self, given: WordCountInput) -> str:
        return f"Count the words of {given.file_path}"

    async def validate(self, given: WordCountInput, context: ToolContext) -> Failure | None:
        problem = check_path(given.file_path)
        return Failure(problem) if problem is not None else None

    async def run(self, given: WordCountInput, context: ToolContext) -> ToolResult[WordCountOutput] | Failure:
        try:
            return ToolResult(await read_in_thread(_count_words, given.file_path))
        except OSError as error:
            return Failure(f"{given.file_path} cannot be read: {error.strerror}.")

    def render(self, output: WordCountOutput) -> list[Block]:
        return [text_block(f"{output.lines} lines, {output.words} words, {output.characters} characters")]


def _count_words(path: str) -> WordCountOutput:
    text = Path(path).read_text("utf-8", "replace")
    return WordCountOutput(lines=text.count("\n"), words=len(text.split()), characters=len(text))
