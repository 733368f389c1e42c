"""What a command's call gives back, whichever shell ran it."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from pydantic import PrivateAttr

from ostler.protocol.ids import ResultId, TaskId
from ostler.tools.context import Surroundings
from ostler.tools.files.editing import mutation
from ostler.tools.files.editing.mutation import ChangeOutput
from ostler.tools.formats.terminal_text import for_the_model
from ostler.tools.fs import paths
from ostler.tools.fs.text_file import size_in_words
from ostler.tools.shell.git_effects import GitChanges
from ostler.tools.shell.output.full_output import PrintedText
from ostler.tools.shell.output.long_text import LongOutput, LongText
from ostler.tools.shell.output.output_file import MAX_BYTES
from ostler.tools.shell.output.text import signal_in, signal_name
from ostler.tools.shell.running.command import Backgrounded, BackgroundedBy, Finished
from ostler.tools.shell.running.launch import Order
from ostler.tools.tool import Block, text_block

_DATA_URI: Final = "data:"
_BASE64: Final = ";base64,"
_AT_ONCE: Final = 64 * 1024


class ShellOutput(LongOutput):
    """What it printed and how it ended."""

    stdout: str
    """Both streams, in the order in which they were written; a picture as a data URI."""
    stderr: str = ""
    """Only what we have to say about it."""
    exit_code: int | None
    signal: str | None = None
    interrupted: bool = False
    timed_out: bool = False
    is_image: bool = False
    return_code_interpretation: str | None = None
    no_output_expected: bool = False
    """It is one of those that say nothing when all went well."""
    background_task_id: TaskId | None = None
    """The task as which it goes on."""
    backgrounded_by: BackgroundedBy | None = None
    persisted_result_id: ResultId | None = None
    """Where all of it is, where that is too long to be shown."""
    persisted_size: int | None = None
    """Bytes of it."""
    sandboxed: bool = False
    duration_ms: int
    git: GitChanges | None = None
    """What it did to a repository, or to pull requests."""
    edits: Sequence[ChangeOutput] = ()
    """Of a command that was shown as the edit that it is: what it did to the files."""
    _printed: PrintedText | None = PrivateAttr(None)

    def with_all(self, printed: PrintedText | None) -> Self:
        """The same, and all that was printed where `stdout` is only a part of it."""
        if printed is None:
            return self
        stderr = "\n".join(filter(None, [self.stderr, _lost(printed)]))
        output = self.model_copy(update={"stderr": stderr})
        output._printed = printed
        return output

    def long_text(self) -> LongText | None:
        return _All(self._printed, _endings(self)) if self._printed is not None else None


def gone_on(behind: Backgrounded, order: Order) -> ShellOutput:
    remark = ""
    if behind.by == "budget":
        remark = f"It was still running after {order.seconds:g} s, and goes on without you waiting."
    elif behind.by == "user":
        remark = "The person sent it to the background."
    output = ShellOutput(
        stdout=behind.output,
        stderr=remark,
        exit_code=None,
        background_task_id=behind.task_id,
        backgrounded_by=behind.by,
        sandboxed=behind.sandboxed,
        duration_ms=behind.duration_ms,
    )
    return output.with_all(behind.whole)


def judged(finished: Finished, timeout: int, harmless: str | None) -> tuple[ShellOutput, bool]:
    """The output, and whether it is a failure; `harmless` is what exit code 1 means, where it is none."""
    picture = finished.picture
    output = ShellOutput(
        stdout=f"{_DATA_URI}{picture.media_type}{_BASE64}{picture.data}" if picture else finished.output,
        is_image=picture is not None,
        exit_code=finished.exit_code,
        duration_ms=finished.duration_ms,
        sandboxed=finished.sandboxed,
    ).with_all(finished.whole)
    if finished.timed_out:
        words = f"Timed out after {timeout / 1000:g} s: it was ended, with all that it had started."
        return with_remarks(output.model_copy(update={"timed_out": True}), [words]), True
    if finished.too_much:
        return with_remarks(output, [f"It printed more than {size_in_words(MAX_BYTES)}, and was ended."]), True
    if finished.left_behind:
        names = ", ".join(sorted(set(finished.left_behind))[:5])
        output = with_remarks(output, [f"What it had left running was ended: {names}."])
    code = finished.exit_code
    number = finished.signal or signal_in(code)
    if number is not None:
        return output.model_copy(update={"signal": signal_name(number), "exit_code": 128 + number}), True
    meaning = harmless if code == 1 else None
    return output.model_copy(update={"return_code_interpretation": meaning}), bool(code) and meaning is None


def next_folder(finished: Finished, surroundings: Surroundings) -> tuple[str, list[str]]:
    """Where the next command starts, and what the model must know about that. Blocks."""
    remarks: list[str] = []
    if finished.started_in != surroundings.shell_folder:
        remarks.append(f"The folder {surroundings.shell_folder} is gone: the command ran in {finished.started_in}.")
    place = paths.real(finished.ended_in)
    if not os.path.isdir(place):
        return surroundings.folder, remarks
    back = finished.started_in
    if paths.printable(place) != place:
        remarks.append(f"The folder's name is not UTF-8: the next command starts in {back} again.")
    elif paths.inside_roots(place, surroundings):
        return place, remarks
    else:
        remarks.append(f"{place} is outside the session's folders: the next command starts in {back} again.")
    return back, remarks


def with_remarks(output: ShellOutput, remarks: Sequence[str]) -> ShellOutput:
    return output.model_copy(update={"stderr": "\n".join(filter(None, [output.stderr, *remarks]))})


def _lost(printed: PrintedText) -> str:
    hole = printed.hole
    if not hole:
        return ""
    first, last = size_in_words(hole.start), size_in_words(printed.size - hole.stop)
    return f"{len(hole)} bytes left out: of so much output the first {first} and the last {last} are kept."


@dataclass(frozen=True, slots=True)
class _All:
    """All of the output as `rendered` would show it."""

    printed: PrintedText
    endings: Sequence[str]

    def pieces(self) -> Iterator[str]:
        begun = False
        for piece in _without_last_newlines(self.printed.pieces()):
            begun = begun or piece != ""
            yield piece
        if self.endings:
            yield "\n" * begun + "\n".join(self.endings)

    def close(self) -> None:
        self.printed.close()


def _without_last_newlines(pieces: Iterable[str]) -> Iterator[str]:
    """A piece for each one at least, be it empty: whoever reads it decides how many there are at once."""
    newlines = 0
    for piece in pieces:
        text = piece.rstrip("\n")
        if text:
            while newlines:
                yield "\n" * min(newlines, _AT_ONCE)
                newlines -= min(newlines, _AT_ONCE)
        yield text
        newlines += len(piece) - len(text)


def rendered(output: ShellOutput) -> list[Block]:
    """The output, then, only when it matters, how it ended."""
    if output.is_image:
        return [_image(output.stdout), *_texts(_endings(output))]
    if output.edits:
        return [block for edit in output.edits for block in mutation.rendered(edit)] + _texts(_endings(output))
    return [text_block("\n".join(filter(None, [for_the_model(output.stdout).rstrip("\n"), *_endings(output)])))]


def _texts(parts: Sequence[str]) -> list[Block]:
    return [text_block("\n".join(parts))] if parts else []


def _image(uri: str) -> Block:
    media_type, _, data = uri.removeprefix(_DATA_URI).partition(_BASE64)
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _endings(output: ShellOutput) -> list[str]:
    parts: list[str] = []
    if output.background_task_id is not None:
        parts.append(
            f"Running in background as {output.background_task_id}. "
            "TaskOutput shows what it prints, TaskStop ends it; you are told when it ends."
        )
    if output.return_code_interpretation is not None:
        parts.append(f"(exit code {output.exit_code}: {output.return_code_interpretation})")
    elif output.signal is not None:
        parts.append(f"(ended by {output.signal})")
    elif output.exit_code:
        parts.append(f"(exit code {output.exit_code})")
    if output.stderr:
        parts += [f"({remark})" for remark in output.stderr.split("\n")]
    return parts
