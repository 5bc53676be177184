"""PDFs that are made to harm their reader, by name."""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.apps.conversion.hostile_pdfs import BUILDERS
from tests.apps.conversion.pdf_writer import Text, assemble, document, one_page, paragraph, stream

from holdfast_conversion.gateway.formats import Mapping

_CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
_PAGES = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
_ROW = "The quick brown fox jumps over the lazy dog and back again."


class HostileFile(NamedTuple):
    """A PDF and the mapping that it is to be converted with."""

    name: str
    pdf: bytes
    mapping: str


def huge_page() -> bytes:
    """Have a page of 14 million points a side, with text in its far corner."""
    body = b"BT /F 100000 Tf 13900000 13900000 Td (far away) Tj ET"
    return one_page(stream(body)).replace(b"[0 0 612 792]", b"[0 0 14000000 14000000]")


def empty_page_box() -> bytes:
    """Have a page without width, the corners of its box in the wrong order."""
    return one_page(stream(b"BT /F 9 Tf (x) Tj ET")).replace(b"[0 0 612 792]", b"[9 9 9 -9]")


def thousands_of_pages() -> bytes:
    """Have three thousand pages with one line each."""
    return document(*[[Text(72, 700, f"page {number}")] for number in range(3000)])


def one_line_of_a_million_letters() -> bytes:
    """Have one line that is a thousand times as wide as its page."""
    return one_page(stream(b"BT /F 9 Tf (" + b"abcdefghi " * 100_000 + b") Tj ET"))


def letters_upon_each_other() -> bytes:
    """Print fifty thousand letters at one place."""
    return one_page(stream(b"BT /F 9 Tf " + b"1 0 0 1 72 700 Tm (x) Tj " * 50_000 + b"ET"))


def font_loop() -> bytes:
    """Have a composite font whose descendant is itself."""
    font = b"/Font<</F 5 0 R>>"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<<%s>>>>" % font
    looping = b"<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/DescendantFonts[5 0 R]>>"
    return assemble([_CATALOG, _PAGES, page, stream(b"BT /F 9 Tf <00010002> Tj ET"), looping])


def broken_font_file() -> bytes:
    """Embed noise as a TrueType font, with widths that are no numbers."""
    font = (
        b"<</Type/Font/Subtype/TrueType/BaseFont/X/FirstChar -5/LastChar 2147483647"
        b"/Widths[/a (b) null 1e99]/FontDescriptor 6 0 R/ToUnicode 7 0 R>>"
    )
    descriptor = b"<</Type/FontDescriptor/FontName/X/Flags -1/FontFile2 7 0 R/FontBBox[1 2]>>"
    page = (
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R"
        b"/Resources<</Font<</F 5 0 R>>>>>>"
    )
    noise = stream(b"\0\1\0\0" + bytes(range(256)) * 64)
    shown = stream(b"BT /F 9 Tf 9 9 Td (some text) Tj ET")
    return assemble([_CATALOG, _PAGES, page, shown, font, descriptor, noise])


def character_map_bomb() -> bytes:
    """Map every character to a kilobyte of text."""
    return document(
        [Text(72, 700, "abc" * 200)], to_unicode={ord(letter): "x" * 1000 for letter in "abc"}
    )


def outline_loop() -> bytes:
    """Have a bookmark that follows itself and contains itself."""
    good = document([Text(72, 700, "x")], bookmarks=["one", "two"])
    return good.replace(b"/Next 8 0 R", b"/Next 7 0 R/First 7 0 R")


def thousands_of_bookmarks() -> bytes:
    """Have twenty thousand bookmarks."""
    return document([Text(72, 700, "x")], bookmarks=[f"title {number}" for number in range(20_000)])


def lone_surrogates() -> bytes:
    """Have halves of surrogate pairs in a title and a bookmark."""
    return document([Text(72, 700, "x")], info={"Title": "a\udc00"}, bookmarks=["\ud800b"])


_MORE: tuple[Callable[[], bytes], ...] = (
    huge_page, empty_page_box, thousands_of_pages, one_line_of_a_million_letters,
    letters_upon_each_other, font_loop, broken_font_file, character_map_bomb, outline_loop,
    thousands_of_bookmarks, lone_surrogates,
)  # fmt: skip


def hostile_files(rng: random.Random, *, damaged: int, full: bool) -> Iterator[HostileFile]:
    """Yield the files: each with every mapping in the full form, and `damaged` others.

    The damaged ones are sound documents in which bytes were changed, cut out or repeated.
    """
    mappings = list(Mapping)
    builders = {**BUILDERS, **{build.__name__: build for build in _MORE}}
    for number, (name, build) in enumerate(builders.items()):
        pdf = build()
        for mapping in mappings if full else [mappings[number % len(mappings)]]:
            yield HostileFile(f"{name} as {mapping}", pdf, mapping)
    sound = document(
        *[paragraph(72, 700, [_ROW] * 9) for _ in range(3)],
        info={"Title": "sound"},
        bookmarks=["one", "two", "three"],
    )
    for number in range(damaged):
        yield HostileFile(f"damaged {number}", _damaged(sound, rng), rng.choice(mappings))


def _damaged(pdf: bytes, rng: random.Random) -> bytes:
    data = bytearray(pdf)
    for _ in range(rng.randint(1, 30)):
        # The first bytes stay: without them it is refused at once.
        at = rng.randrange(9, len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randint(1, 40)]
            case 2:
                data[at:at] = data[at : at + rng.randint(1, 200)] * rng.randint(1, 5)
            case _:
                data[at:at] = rng.choice([b"9" * 12, b"<<" * 99, b"-1", b"/Kids", b"endobj\n"])
    return bytes(data)
