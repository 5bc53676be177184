"""What people are told."""

import pytest

from holdfast_conversion.error_codes import ALL_ERRORS, line_of
from holdfast_conversion.upload_form import too_large_line

TEXTS = {
    "GW_4XX": "Couldn’t convert this file with the selected mapping.",
    "GW_5XX": "Converter service is having an issue. We’ll retry shortly.",
    "GW_TIMEOUT": "Conversion is taking too long. We’ll retry.",
    "IO_ERROR": "Temporary storage issue. We’ll retry.",
    "NOT_READY": "Conversion not finished yet.",
    "EXPIRED": "File was removed by retention. Re-upload to regenerate.",
    "FORBIDDEN": "This file isn’t yours.",
}


@pytest.mark.parametrize("code, text", TEXTS.items())
def test_each_code_has_its_line(code, text):
    assert line_of(code) == text


def test_refused_uploads_have_theirs_with_the_limit_from_the_setting():
    assert ALL_ERRORS["NOT_PDF"].message == "Only PDF files are supported."
    assert too_large_line(50 * 1024 * 1024) == "File exceeds 50 MB limit."
    assert too_large_line(3 * 1024 * 1024) == "File exceeds 3 MB limit."


@pytest.mark.parametrize("code", ["GW_5XX", "GW_TIMEOUT", "GW_UNAVAILABLE", "IO_ERROR"])
def test_what_is_not_tried_again_does_not_promise_to_be(code):
    assert "retry" not in line_of(code, is_retried=False)
    assert line_of(code).startswith(line_of(code, is_retried=False))
