"""A line with loops, conditions and substitutions as what runs in its place, and what that consists of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ostler.tools.commands.safety.composites.arithmetic import NotComposite
from ostler.tools.commands.safety.composites.structure import read_structure
from ostler.tools.commands.safety.composites.unrolling import Leaf, Unrolling
from ostler.tools.commands.safety.glob_expansion import write_word
from ostler.tools.commands.safety.program_table import NotReadOnly
from ostler.tools.commands.syntax.parsed import ParsedCommand, Redirection
from ostler.tools.commands.syntax.parser import parse_command

_MAX_TEXT: Final = 16_000


@dataclass(frozen=True, slots=True)
class CompositeLine:
    """The unrolled line: its simple commands, and the text around them."""

    parsed: ParsedCommand
    """All its simple commands, as they are judged; something harmless stands for each substitution."""
    leaves: tuple[Leaf, ...]
    text: tuple[str | int, ...]

    def write(self, words: Mapping[tuple[int, int], tuple[str, ...]]) -> str:
        """What runs, with what the patterns stand for. Raises NotReadOnly where the syntax tree does not agree."""
        written = self._write(self.text, words)
        if len(written) > _MAX_TEXT:
            raise NotReadOnly("it is too long when its loops are written out")
        again = parse_command(written)
        shown = [self._write_words(number, words) for number, leaf in enumerate(self.leaves) if leaf.shown]
        redirected = [_write_redirection(found) for leaf in self.leaves for found in leaf.part.redirections]
        seen = [" ".join([token.source for token in part.tokens]) for part in again.parts]
        seen_redirected = [_write_redirection(found) for part in again.parts for found in part.redirections]
        agreed = sorted(shown) == sorted(seen) and sorted(redirected) == sorted(seen_redirected)
        if again.problem is not None or not agreed:
            raise NotReadOnly("it can be read in two ways")
        return written

    def _write(
        self, text: "tuple[str | int, ...] | list[str | int]", words: Mapping[tuple[int, int], tuple[str, ...]]
    ) -> str:
        pieces = [
            self.leaves[piece].prefix + self._write_part(piece, words) if isinstance(piece, int) else piece
            for piece in text
        ]
        return "".join(pieces)

    def _write_part(self, number: int, words: Mapping[tuple[int, int], tuple[str, ...]]) -> str:
        leaf = self.leaves[number]
        return " ".join([self._write_words(number, words), *map(_write_redirection, leaf.part.redirections)])

    def _write_words(self, number: int, words: Mapping[tuple[int, int], tuple[str, ...]]) -> str:
        leaf = self.leaves[number]
        return " ".join(
            self._write(leaf.holes[place], words)
            if place in leaf.holes
            else write_word(token, words.get((number, place)))
            for place, token in enumerate(leaf.part.tokens)
        )


def _write_redirection(found: Redirection) -> str:
    return f"{found.fd}{found.operator}{write_word(found.target, None)}"


def read_composite(command: str, folder: str | None) -> CompositeLine:
    """Raises NotComposite or NotReadOnly. Blocks where a folder is given, in which patterns of loops are expanded."""
    unrolling = Unrolling(folder)
    text = unrolling.unroll(read_structure(command))
    parts = tuple(leaf.part for leaf in unrolling.leaves)
    parsed = ParsedCommand(command, parts, None, plain=False, agreed=True)
    return CompositeLine(parsed, tuple(unrolling.leaves), tuple(text))


__all__ = ["CompositeLine", "NotComposite", "read_composite"]
