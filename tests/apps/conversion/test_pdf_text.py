"""The text of a PDF, for other apps."""

import pytest
from tests.apps.conversion.pdf_writer import Text, document

from holdfast_conversion import pdf_text
from holdfast_conversion.pdf_text import PdfRefused, PdfText, read_pdf_text, warm_up_pdf


def test_paragraphs_are_in_the_order_of_reading():
    data = document([Text(72, 600, "Second."), Text(72, 700, "First.")], [Text(72, 700, "Third.")])

    assert read_pdf_text(data) == PdfText(None, ("First.", "Second.", "Third."))


@pytest.mark.parametrize(
    "data, code",
    [(b"", "NOT_PDF"), (b"words", "NOT_PDF"), (b"%PDF-1.4 damaged", "PARSE_ERROR")],
)
def test_what_is_no_pdf_is_refused_with_a_code_and_a_line(data, code):
    with pytest.raises(PdfRefused) as refused:
        read_pdf_text(data)
    assert refused.value.code == code
    assert str(refused.value).endswith(".")


def test_a_pdf_of_too_many_pages_is_refused(monkeypatch):
    monkeypatch.setattr(pdf_text, "MOST_PAGES", 1)
    with pytest.raises(PdfRefused) as refused:
        read_pdf_text(document([Text(72, 700, "One.")], [Text(72, 700, "Two.")]))
    assert refused.value.code == "TOO_LARGE"


def test_the_exports_are_reviewed():
    assert pdf_text.__all__ == ["PdfRefused", "PdfText", "read_pdf_text", "warm_up_pdf"]
    warm_up_pdf()
