"""A text of any length as one line, in time that does not depend on how many words it has."""


def one_line(text: str, most: int) -> str:
    """The beginning of the text, with one blank where there were several, or the end of a line."""
    # A word has a character at least: more words than characters never fit.
    return " ".join(text.split(maxsplit=most)[:most])[:most]
