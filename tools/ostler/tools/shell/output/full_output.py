"""The full output of a command, where that is more than its call's output holds."""

import codecs
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ostler.tools.shell.output.cleaning import StreamCleaner
from ostler.tools.shell.output.output_file import SHOWN_BYTES, OutputFile, compute_hole, format_left_out

_CHUNK_BYTES: Final = 64 * 1024


@dataclass(slots=True)
class FullOutput:
    """The output file of a command, by a descriptor of its own: it stays readable when the file is removed.

    Where nobody closes it, as after a call that is cancelled, it is closed when it is garbage collected.
    """

    descriptor: int
    size: int
    """Bytes; of a command that goes on, those that it had printed by then."""

    @property
    def hole(self) -> range:
        """The byte range that the file does not keep."""
        return compute_hole(self.size)

    def pieces(self) -> Iterator[str]:
        """The text for the model, in pieces. Blocks; raises OSError."""
        decoder, cleaning, place = codecs.getincrementaldecoder("utf-8")("replace"), StreamCleaner(), 0
        while place < self.size:
            data = os.pread(self.descriptor, min(_CHUNK_BYTES, self.size - place), place)
            if not data:
                break  # the command itself has truncated its file
            # Looked at after reading: where the command goes on, a hole may have come meanwhile.
            hole = compute_hole(os.fstat(self.descriptor).st_size)
            if place in hole:
                yield cleaning.feed(decoder.decode(b"", final=True)) + cleaning.flush()
                after = min(hole.stop, self.size)
                yield format_left_out(after - place)
                place = after
            else:
                yield cleaning.feed(decoder.decode(data))
                place += len(data)
        yield cleaning.feed(decoder.decode(b"", final=True)) + cleaning.flush()

    def close(self) -> None:
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            os.close(descriptor)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()


def open_full_output(output: OutputFile) -> FullOutput | None:
    """The full output, where that is more than is shown; null also where no descriptor is left for it."""
    with contextlib.suppress(OSError):
        size = output.size
        return FullOutput(os.dup(output.descriptor), size) if size > SHOWN_BYTES else None
    return None
