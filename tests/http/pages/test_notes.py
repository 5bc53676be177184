"""The lines that a page shows once."""

import pytest
from tests.http.pages.page_reader import Looked
from tests.http.pages.sample_app import SampleApp

from holdfast.http.pages.notes import count_in


@pytest.fixture
def press(serve, tmp_path):
    return serve(served=SampleApp(tmp_path / "press"))


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("note=retried", "Back in the queue; its attempts are counted from one."),
        ("note=pressed", "Pressed."),
        ("note=removed-many&done=1", "1 leaf removed."),
        (
            "note=removed-many&done=2&left=1",
            "2 leaves removed. 1 leaf still being stopped: remove again in a moment.",
        ),
        ("note=removed-many&done=x", "Nothing was changed."),
        ("note=nobody-knows-it", ""),
        ("", ""),
    ],
)
def test_an_address_names_a_line_and_its_counts(press, query, line):
    page = Looked(press.client.get(f"/?{query}"))

    assert page.text("//*[@id='toast']") == line


@pytest.mark.parametrize(
    ("text", "count"),
    [("3", 3), (None, 0), ("", 0), ("-1", 0), ("3.5", 0), ("²", 0), ("9" * 30, 0)],
)
def test_only_a_whole_number_is_a_count(text, count):
    assert count_in(text) == count
