"""The offsets of what a running command prints: characters since its start, whatever was cut or left out."""

import os
from pathlib import Path

import pytest

from ostler.tools.shell.output.output_file import OutputFile
from ostler.tools.shell.output.progress import OutputProgress


@pytest.mark.parametrize("word", ["oats\n", "größer\n", "馬\n", "🐴🐴\n"])
@pytest.mark.parametrize("step", [1, 2, 3, 97, 250])
def test_the_offset_of_a_piece_counts_characters_also_where_some_were_cut_or_left_out(
    tmp_path: Path, word: str, step: int
) -> None:
    file = OutputFile.create(tmp_path, "call-", may_be_used_again=False)
    whole, progress, end, gaps, lines = word * 100, OutputProgress(), 0, 0, 0
    printed = whole.encode()
    for place in range(0, len(printed), step):
        os.write(file.descriptor, printed[place : place + step])
        report = progress.add(file.read_newest(progress.reported_bytes, most=100))
        output, offset = report["output"], report["offset"]
        assert output == whole[offset : offset + len(output)]
        assert offset >= end
        gaps += offset > end
        end, lines = offset + len(output), report["lines"]
    assert end == len(whole)
    assert lines == 100
    assert (gaps > 0) == (step > 100)
    file.remove()
