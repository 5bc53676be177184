"""The sample: a real PDF that the real gateway converts."""

from xml.etree import ElementTree as ET

from holdfast_conversion.pages.sample import sample_pdf


def test_the_gateway_reads_the_text_of_the_sample(gateway):
    answer = gateway.convert(sample_pdf("ab(c)\\1"), "text")

    assert answer.status_code == 200
    words = " ".join(" ".join(ET.fromstring(answer.content).itertext()).split())
    assert words.startswith("Sample ab(c)\\1")
    assert "converted exactly once." in words


def test_its_metadata_has_a_title(gateway):
    assert "Sample 7" in gateway.convert(sample_pdf("7"), "metadata").text
