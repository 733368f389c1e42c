"""All that a command printed, where that is more than its call's output holds."""

import codecs
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ostler.tools.shell.output.cleaning import Cleaning
from ostler.tools.shell.output.output_file import SHOWN_BYTES, OutputFile, hole_in, left_out

_AT_ONCE: Final = 64 * 1024


@dataclass(slots=True)
class PrintedText:
    """The file of a command, by a descriptor of its own: whoever removes the file takes nothing away from this.

    A call that is cancelled on its way leaves it to nobody; then it goes with the last one who knows of it.
    """

    descriptor: int
    size: int
    """Bytes; of a command that goes on, those that it had printed by then."""

    @property
    def hole(self) -> range:
        """The places that the file does not keep."""
        return hole_in(self.size)

    def pieces(self) -> Iterator[str]:
        """As the model reads it. Blocks; raises OSError."""
        decoder, cleaning, place = codecs.getincrementaldecoder("utf-8")("replace"), Cleaning(), 0
        while place < self.size:
            data = os.pread(self.descriptor, min(_AT_ONCE, self.size - place), place)
            if not data:
                break  # the command itself has cut its file
            # Looked at after reading: where the command goes on, a hole may have come meanwhile.
            hole = hole_in(os.fstat(self.descriptor).st_size)
            if place in hole:
                yield cleaning.take(decoder.decode(b"", final=True)) + cleaning.rest()
                after = min(hole.stop, self.size)
                yield left_out(after - place)
                place = after
            else:
                yield cleaning.take(decoder.decode(data))
                place += len(data)
        yield cleaning.take(decoder.decode(b"", final=True)) + cleaning.rest()

    def close(self) -> None:
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            os.close(descriptor)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()


def all_printed(output: OutputFile) -> PrintedText | None:
    """All of it, where that is more than is shown; null where no descriptor is left for it, too."""
    with contextlib.suppress(OSError):
        size = output.size
        return PrintedText(os.dup(output.descriptor), size) if size > SHOWN_BYTES else None
    return None
