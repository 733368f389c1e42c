"""The passage that is shown when an edit found no match: only one that is similar as a whole."""

import pytest

from ostler.tools.files.editing.nearest_passage import find_closest_passage

TEXT = "import os\n\n\ndef first():\n    return os.name\n\n\ndef second(value):\n    print(value)\n    return value\n"


def test_of_two_places_the_one_that_is_near_as_a_whole_is_shown() -> None:
    wanted = "def second(values):\n    print(values)\n    return values"
    shown = "     8\tdef second(value):\n     9\t    print(value)\n    10\t    return value"
    assert find_closest_passage(TEXT, wanted) == shown


def test_one_line_that_is_near_among_others_that_are_not_is_not_close() -> None:
    others = "\n".join(letter * 12 for letter in "klmqwxyz")
    assert find_closest_passage(TEXT, f"{others}\ndef second(value):\n{others}") is None


def test_only_the_first_lines_of_a_very_long_file_are_looked_at() -> None:
    lines = [f"line {number}" for number in range(200_000)]
    lines[199_999], beyond = "the last that is looked at", "zebras graze beyond"
    text = "\n".join([*lines, beyond])
    assert find_closest_passage(text, "the last that is looked at!") == "200000\tthe last that is looked at"
    assert find_closest_passage(text, f"{beyond}!") is None


@pytest.mark.parametrize("wanted", ["", "\n\n", "   ", "\t\n"])
def test_nothing_is_close_to_blanks(wanted: str) -> None:
    assert find_closest_passage(TEXT, wanted) is None


def test_line_ends_of_other_systems_and_long_lines_are_shown_as_lines_are() -> None:
    text = "one\r\n" + "x" * 3000 + "\r\nthree\r\n"
    shown = find_closest_passage(text, "x" * 2990)
    assert shown is not None
    assert shown.startswith("     2\t" + "x" * 2000 + "… (cut after 2000")
    assert "\r" not in shown
