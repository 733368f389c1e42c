"""The result of a shell call: its output, whether it failed, the next folder, and how it is rendered for the model."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from pydantic import PrivateAttr

from ostler.protocol.ids import ResultId, TaskId
from ostler.tools.context import SessionView
from ostler.tools.files.editing import mutation
from ostler.tools.files.editing.mutation import ChangeOutput
from ostler.tools.formats.terminal_text import clean_for_model
from ostler.tools.fs import paths
from ostler.tools.fs.text_file import format_size
from ostler.tools.services import BackgroundedBy
from ostler.tools.shell.git_effects import GitChanges
from ostler.tools.shell.output.full_output import FullOutput
from ostler.tools.shell.output.long_text import LongOutput, LongText
from ostler.tools.shell.output.output_file import MAX_BYTES
from ostler.tools.shell.output.text import format_signal, parse_signal
from ostler.tools.shell.running.command import BackgroundedCommand, FinishedCommand
from ostler.tools.shell.running.launch import CommandSpec
from ostler.tools.tool import Block, text_block

_DATA_URI: Final = "data:"
_BASE64: Final = ";base64,"
_MAX_SET_ASIDE: Final = 5
_AT_ONCE: Final = 64 * 1024


class ShellOutput(LongOutput):
    """What it printed and how it ended."""

    stdout: str
    """Both streams, in the order in which they were written; a picture as a data URI."""
    stderr: str = ""
    """Only remarks of ours about the command."""
    exit_code: int | None
    signal: str | None = None
    interrupted: bool = False
    timed_out: bool = False
    is_image: bool = False
    return_code_interpretation: str | None = None
    no_output_expected: bool = False
    """It is one of the commands that print nothing when all goes well."""
    background_task_id: TaskId | None = None
    """The background task as which it goes on."""
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
    """Of a `sed -i` that was carried out as an edit: what it did to the files."""
    _printed: FullOutput | None = PrivateAttr(None)

    def attach_full_output(self, printed: FullOutput | None) -> Self:
        """The same with the full output, where `stdout` is only a part of it."""
        if printed is None:
            return self
        stderr = "\n".join(filter(None, [self.stderr, _describe_hole(printed)]))
        output = self.model_copy(update={"stderr": stderr})
        output._printed = printed
        return output

    def open_long_text(self) -> LongText | None:
        return _FullShellText(self._printed, _describe_ending(self)) if self._printed is not None else None


def build_backgrounded_output(backgrounded: BackgroundedCommand, spec: CommandSpec) -> ShellOutput:
    remark = ""
    if backgrounded.by == "budget":
        remark = f"It was still running after {spec.seconds:g} s, and goes on without you waiting."
    elif backgrounded.by == "user":
        remark = "The person sent it to the background."
    output = ShellOutput(
        stdout=backgrounded.output,
        stderr=remark,
        exit_code=None,
        background_task_id=backgrounded.task_id,
        backgrounded_by=backgrounded.by,
        sandboxed=backgrounded.sandboxed,
        duration_ms=backgrounded.duration_ms,
    )
    return output.attach_full_output(backgrounded.full_output)


def build_finished_output(finished: FinishedCommand, timeout: int, harmless: str | None) -> tuple[ShellOutput, bool]:
    """The output, and whether it is a failure; `harmless` is what exit code 1 means, where it is none."""
    picture = finished.picture
    output = ShellOutput(
        stdout=f"{_DATA_URI}{picture.media_type}{_BASE64}{picture.data}" if picture else finished.output,
        is_image=picture is not None,
        exit_code=finished.exit_code,
        duration_ms=finished.duration_ms,
        sandboxed=finished.sandboxed,
    ).attach_full_output(finished.full_output)
    if finished.set_aside:
        output = add_remarks(output, [describe_set_aside(finished.set_aside)])
    if finished.limit is not None:
        return add_remarks(output, [finished.limit]), True
    if finished.timed_out:
        words = f"Timed out after {timeout / 1000:g} s: it was ended, with all that it had started."
        return add_remarks(output.model_copy(update={"timed_out": True}), [words]), True
    if finished.too_much:
        return add_remarks(output, [f"It printed more than {format_size(MAX_BYTES)}, and was ended."]), True
    if finished.left_behind:
        names = ", ".join(sorted(set(finished.left_behind))[:5])
        output = add_remarks(output, [f"What it had left running was ended: {names}."])
    code = finished.exit_code
    number = finished.signal or parse_signal(code)
    if number is not None:
        return output.model_copy(update={"signal": format_signal(number), "exit_code": 128 + number}), True
    meaning = harmless if code == 1 else None
    return output.model_copy(update={"return_code_interpretation": meaning}), bool(code) and meaning is None


def describe_set_aside(lines: Sequence[str]) -> str:
    """One line about the guarded names that a command made or changed in the sandbox."""
    # A name may hold anything, line ends too.
    shown = "; ".join("".join(each if each.isprintable() else "?" for each in line) for line in lines[:_MAX_SET_ASIDE])
    more = f"; and {len(lines) - _MAX_SET_ASIDE} more" if len(lines) > _MAX_SET_ASIDE else ""
    return (
        "Guarded names that it made or changed in the sandbox were set aside, for they decide what runs: "
        f"{paths.make_printable(shown)}{more}. Write them with a tool, which asks the person."
    )


def choose_next_folder(finished: FinishedCommand, session: SessionView) -> tuple[str, list[str]]:
    """The folder where the next command starts, and remarks about it for the model. Blocks."""
    remarks: list[str] = []
    if finished.started_in != session.shell_folder:
        remarks.append(f"The folder {session.shell_folder} is gone: the command ran in {finished.started_in}.")
    place = paths.resolve_path(finished.ended_in)
    if not os.path.isdir(place):
        return session.folder, remarks
    back = finished.started_in
    if paths.make_printable(place) != place:
        remarks.append(f"The folder's name is not UTF-8: the next command starts in {back} again.")
    elif paths.is_inside_roots(place, session):
        return place, remarks
    else:
        remarks.append(f"{place} is outside the session's folders: the next command starts in {back} again.")
    return back, remarks


def add_remarks(output: ShellOutput, remarks: Sequence[str]) -> ShellOutput:
    return output.model_copy(update={"stderr": "\n".join(filter(None, [output.stderr, *remarks]))})


def _describe_hole(printed: FullOutput) -> str:
    hole = printed.hole
    if not hole:
        return ""
    first, last = format_size(hole.start), format_size(printed.size - hole.stop)
    return f"{len(hole)} bytes left out: of so much output the first {first} and the last {last} are kept."


@dataclass(frozen=True, slots=True)
class _FullShellText:
    """The full output as `render_output` would render it."""

    printed: FullOutput
    endings: Sequence[str]

    def pieces(self) -> Iterator[str]:
        begun = False
        for piece in _strip_last_newlines(self.printed.pieces()):
            begun = begun or piece != ""
            yield piece
        if self.endings:
            yield "\n" * begun + "\n".join(self.endings)

    def close(self) -> None:
        self.printed.close()


def _strip_last_newlines(pieces: Iterable[str]) -> Iterator[str]:
    """At least one piece for each piece, be it empty, so that the reader decides how many there are at once."""
    newlines = 0
    for piece in pieces:
        text = piece.rstrip("\n")
        if text:
            while newlines:
                yield "\n" * min(newlines, _AT_ONCE)
                newlines -= min(newlines, _AT_ONCE)
        yield text
        newlines += len(piece) - len(text)


def render_output(output: ShellOutput) -> list[Block]:
    """The output for the model, then, only when it matters, how the command ended."""
    if output.is_image:
        return [_build_image_block(output.stdout), *_build_text_blocks(_describe_ending(output))]
    if output.edits:
        return [block for edit in output.edits for block in mutation.render_output(edit)] + _build_text_blocks(
            _describe_ending(output)
        )
    return [
        text_block("\n".join(filter(None, [clean_for_model(output.stdout).rstrip("\n"), *_describe_ending(output)])))
    ]


def _build_text_blocks(parts: Sequence[str]) -> list[Block]:
    return [text_block("\n".join(parts))] if parts else []


def _build_image_block(uri: str) -> Block:
    media_type, _, data = uri.removeprefix(_DATA_URI).partition(_BASE64)
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _describe_ending(output: ShellOutput) -> list[str]:
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
