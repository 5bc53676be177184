"""The service's part of the front page, as the server renders it."""

import pytest
from tests.http.live_server import Serving
from tests.http.pages.page_reader import Looked

from holdfast_conversion.app import Conversion
from holdfast_conversion.pages import conversion_page
from holdfast_conversion.service_settings import ConversionSettings


@pytest.fixture
def serving(tmp_path):
    settings = ConversionSettings(files=tmp_path / "files", gateway_url="http://127.0.0.1:9")
    with Serving(tmp_path, served=Conversion(settings)) as serving:
        yield serving


def test_a_new_user_sees_what_to_do(serving):
    page = Looked(serving.client.get("/"))

    assert page.text("//h1") == "Convert PDFs to XML"
    empty = page.text("//*[@id='empty']")
    assert "Choose what the XML should hold." in empty
    assert "Download the XML when its row says Ready" in empty
    assert page.text("//*[@id='sample']") == "Convert a sample"


def test_each_mapping_has_a_description(serving):
    page = Looked(serving.client.get("/"))

    mappings = dict(
        zip(
            page.all("//input[@name='mapping']/@value"),
            page.texts("//label[@class='mapping']"),
            strict=True,
        )
    )
    assert mappings == {
        "layout": "LayoutPages, blocks, lines and words, each with its place",
        "text": "TextParagraphs in the order of reading",
        "metadata": "MetadataTitle, author, outline and page sizes",
    }
    assert page.all("//input[@name='mapping'][@checked]/@value") == ["layout"]


def test_the_form_works_without_script(serving):
    form = Looked(serving.client.get("/")).one("//form[@id='upload']")

    assert (form.get("method"), form.get("action")) == ("post", "/upload")
    assert form.get("enctype") == "multipart/form-data"
    # Without JavaScript a form sends one file.
    assert form.xpath(".//input[@type='file']/@name") == ["file"]
    assert form.xpath(".//input[@type='file']/@multiple") == []
    assert form.xpath(".//button[not(@type)]")


def test_the_limits_are_those_of_the_settings(tmp_path):
    page = conversion_page(
        ConversionSettings(files=tmp_path, max_upload_bytes=3 * 1024 * 1024, artifact_ttl=7200)
    )

    assert page.values["most"] == "3 MB"
    assert page.values["too_large"] == "File exceeds 3 MB limit."
    assert page.values["kept"] == "2 hours"


@pytest.mark.parametrize(
    "seconds, said",
    [(86_400, "24 hours"), (604_800, "7 days"), (600, "10 minutes"), (90, "90 seconds")],
)
def test_the_retention_of_results_is_shown_in_a_suitable_unit(tmp_path, seconds, said):
    assert (
        conversion_page(ConversionSettings(tmp_path, artifact_ttl=seconds)).values["kept"] == said
    )
