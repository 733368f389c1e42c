"""What every client says when the model is only a rehearsal."""

from typing import Final

REHEARSAL: Final = (
    "The model is `rehearsal`: it needs no key and understands only plain requests. "
    "`ostler auth login` keeps a key for a real one."
)
EXAMPLES: Final = (
    "read README.md",
    "find TODO in src",
    "run pytest -q",
    "replace colour with color in style.css then run git diff",
)


def is_rehearsal(model: str) -> bool:
    return model == "rehearsal"
