"""HTML, PDF and DOCX are read in child processes; no file can do harm."""

import asyncio
import functools
import io
import os
import signal
import zipfile

import docx
import pytest
from tests.apps.conversion.gateway_process import ticks
from tests.apps.conversion.pdf_writer import Text
from tests.apps.conversion.pdf_writer import document as pdf
from tests.support.waiting import until

from holdfast import Permanent, SystemClock
from holdfast_ingestion.extraction.extractor import (
    ExtractionLimits,
    ExtractionStopped,
    Extractor,
)
from holdfast_ingestion.formats import Format


def with_extractor(scenario, **limits):
    async def run():
        async with Extractor(ExtractionLimits(**limits), SystemClock()) as extractor:
            await scenario(extractor)

    asyncio.run(run())


def word_document():
    document = docx.Document()
    document.core_properties.title = "A Word document"
    document.add_paragraph("First paragraph.")
    table = document.add_table(1, 2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "left", "right"
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


@functools.cache
def bomb():
    """Return an archive that is far larger unpacked."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("word/document.xml", b"\0" * (210 * 2**20))
    return file.getvalue()


SLOW = b"<table>" + b"<tr><td>word word word<b>x</b></td></tr>" * 40_000
PAGE = b"""<html><head><title>Otters &amp; rivers</title></head><body><nav>Home About Contact</nav>
<article><h1>Otters</h1><p>They swim in cold rivers, and they like to play all day long. In winter
they slide down the snow, and in summer they rest in the shade of the trees along the banks.</p>
<p>Their fur keeps them warm, since it traps the air between its many hairs.</p></article>
<footer>Copyright</footer><script>alert("no")</script></body></html>"""


def test_every_format_is_read():
    async def scenario(extractor):
        page = await extractor.extract(PAGE, Format.HTML, None)
        assert page.title == "Otters & rivers"
        assert "swim in cold rivers" in page.text
        assert not any(word in page.text for word in ("Contact", "Copyright", "alert"))

        latin = "<meta charset=iso-8859-1><p>Caf\u00e9 au lait</p>".encode("latin-1")
        assert (await extractor.extract(latin, Format.HTML, None)).text == "Caf\u00e9 au lait"
        japanese = "<p>\u304b\u308f\u3046\u305d</p>".encode("shift_jis")
        found = await extractor.extract(japanese, Format.HTML, "shift_jis")
        assert found.text == "\u304b\u308f\u3046\u305d"

        found = await extractor.extract(pdf([Text(72, 700, "Words of a PDF.")]), Format.PDF, None)
        assert found.text == "Words of a PDF."
        found = await extractor.extract(word_document(), Format.DOCX, None)
        assert (found.title, found.text) == ("A Word document", "First paragraph.\n\nleft | right")
        found = await extractor.extract(b"# Title\n\nText", Format.MARKDOWN, None)
        assert (found.title, found.text) == ("Title", "# Title\n\nText")

    with_extractor(scenario)


UNREADABLE = [
    (b"", Format.HTML, "NOTHING_TO_READ"),
    (b"<html><body><script>x</script></body></html>", Format.HTML, "NOTHING_TO_READ"),
    (b"<div>" * 100_000, Format.HTML, "NOTHING_TO_READ"),
    (b"%PDF-1.4 damaged", Format.PDF, "PARSE_ERROR"),
    (b"no pdf at all", Format.PDF, "NOT_PDF"),
    (pdf([]), Format.PDF, "NOTHING_TO_READ"),
    (b"PK\x03\x04 damaged", Format.DOCX, "PARSE_ERROR"),
    (bomb(), Format.DOCX, "TOO_LARGE"),
    (b" \n ", Format.TEXT, "NOTHING_TO_READ"),
    (b"<p>" + b"x" * 2000, Format.HTML, "TOO_LARGE"),
]


def test_what_cannot_be_read_is_refused_for_good_and_the_next_file_is_read():
    async def scenario(extractor):
        found = []
        for data, chosen, _ in UNREADABLE:
            with pytest.raises(Permanent) as refused:
                await extractor.extract(data, chosen, None)
            assert str(refused.value)
            found.append((data, chosen, refused.value.code))
        assert found == UNREADABLE
        assert (await extractor.extract(b"<p>Fine.</p>", Format.HTML, None)).text == "Fine."

    with_extractor(scenario, most_characters=1000)


def test_a_plain_text_may_be_as_long_as_its_file_and_others_are_refused_with_the_limit():
    async def scenario(extractor):
        for chosen in (Format.TEXT, Format.MARKDOWN):
            assert (await extractor.extract(b"x" * 2000, chosen, None)).text == "x" * 2000
        with pytest.raises(Permanent, match=r"more than 1,000 characters, the limit\."):
            await extractor.extract(b"<p>" + b"x" * 2000, Format.HTML, None)

    with_extractor(scenario, most_characters=1000)


def test_a_document_that_takes_too_long_is_refused():
    async def scenario(extractor):
        await extractor.extract(b"<p>Warm.</p>", Format.HTML, None)
        with pytest.raises(Permanent) as refused:
            await extractor.extract(SLOW, Format.HTML, None)
        assert refused.value.code in {"TIMEOUT", "PARSE_ERROR"}
        assert (await extractor.extract(b"<p>Fine.</p>", Format.HTML, None)).text == "Fine."

    with_extractor(scenario, wall_seconds=0.5)


def test_a_reader_that_is_killed_from_outside_is_another_attempts_work():
    async def scenario(extractor):
        await extractor.extract(b"<p>Warm.</p>", Format.HTML, None)
        (pid,) = extractor._function.pids()
        rest = ticks(pid)
        reading = asyncio.create_task(extractor.extract(SLOW, Format.HTML, None))
        await until(lambda: ticks(pid) > rest + 5)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ExtractionStopped):
            await reading

    with_extractor(scenario)
