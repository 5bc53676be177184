"""From fragments to lines of words."""

import pytest

from holdfast_conversion.gateway.reading.lines import lines_of
from holdfast_conversion.gateway.reading.page_model import Fragment, PdfPage

MIM, NUN, WAW = "\u0645", "\u0646", "\u0648"


def line(*letters: tuple[str, float, bool]) -> list[str]:
    """Return the words of a line of letters 5 points wide: each with its start and `closed`."""
    fragments = [
        Fragment(letter, start, 90, start + 5, 100, 10, 0, closed)
        for letter, start, closed in letters
    ]
    (found,) = lines_of(PdfPage(1, 612, 792, 0, fragments=fragments))
    return [word.text for word in found.words]


@pytest.mark.parametrize(
    "letters, words",
    [
        # A space follows the second letter, as narrow as it may be: to its right, or to its left.
        ([("a", 10, False), ("b", 15, True), ("c", 20.5, False)], ["ab", "c"]),
        ([(MIM, 20.5, False), (NUN, 15.5, True), (WAW, 10, False)], [MIM + NUN, WAW]),
    ],
)
def test_the_space_after_a_letter_is_on_the_side_of_the_reading_direction(letters, words):
    assert line(*letters) == words
