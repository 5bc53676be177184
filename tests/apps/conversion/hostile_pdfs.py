"""Malicious PDFs, by name; none is larger than a few megabytes."""

import zlib
from collections.abc import Callable

from tests.apps.conversion.pdf_writer import (
    Text,
    assemble,
    document,
    flate_bomb,
    locked,
    one_page,
    stream,
)

_CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"


def page_count_bomb() -> bytes:
    """Claim to have two thousand million pages."""
    kid = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>"
    return assemble([_CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count 2000000000>>", kid])


def page_tree_bomb() -> bytes:
    """Nest ten levels of ten kids each, all the same: ten thousand million pages."""
    objects = [_CATALOG]
    for level in range(10):
        kids = b"%d 0 R " % (level + 3) * 10
        objects.append(b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, 10 ** (10 - level)))
    objects.append(b"<</Type/Page/MediaBox[0 0 9 9]>>")
    return assemble(objects)


def page_tree_loop() -> bytes:
    return assemble([_CATALOG, b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2>>"])


def deep_arrays() -> bytes:
    return assemble([_CATALOG.replace(b">>", b"/A " + b"[" * 300_000 + b">>"), b"[" * 300_000])


def deep_dictionaries() -> bytes:
    return assemble([b"<</A" * 200_000, b"<</Type/Pages/Kids[]/Count 0>>"])


def deep_content() -> bytes:
    return one_page(stream(b"q " * 500_000 + b"[" * 500_000 + b"BT /F 9 Tf (x) Tj ET"))


def forms_within_themselves() -> bytes:
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 5 0 R>>>>"
    return one_page(stream(b"/X Do /X Do", extra=form), b"/XObject<</X 5 0 R>>")


def decompression_bomb() -> bytes:
    """Unpack to 3 GB of spaces from 3 MB."""
    data = flate_bomb(3000)
    return one_page(stream(data, extra=b"/Filter/FlateDecode"))


def bomb_in_a_bomb() -> bytes:
    packed = flate_bomb(2000)
    twice = zlib.compress(packed, 9)
    return one_page(stream(twice, extra=b"/Filter[/FlateDecode/FlateDecode]"))


def object_bomb() -> bytes:
    return assemble([_CATALOG, b"<</Type/Pages/Kids[]/Count 0>>", *[b"<<>>"] * 100_000])


def endless_pages() -> bytes:
    """Repeat one full page four thousand times: honest work for a minute."""
    row = b"(" + b"words of some length " * 5 + b") Tj 0 -9 Td\n"
    content = stream(b"BT /F 7 Tf 20 780 Td\n" + row * 80 + b"ET", compress=True)
    page = (
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 3 0 R/Resources"
        b"<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>"
    )
    kids = b" ".join(b"%d 0 R" % number for number in range(4, 4004))
    tree = b"<</Type/Pages/Kids[%s]/Count 4000>>" % kids
    return assemble([_CATALOG, tree, content, *[page] * 4000])


def huge_numbers() -> bytes:
    large = b"BT /F 1e38 Tf 1e38 0 0 1e38 1e38 -1e38 Tm (big) Tj ET "
    body = large + b"BT /F 9 Tf 1e-38 0 0 0 9 9 Tm (a) Tj ET"
    return one_page(stream(body)).replace(b"[0 0 612 792]", b"[-1e38 -1e38 1e38 1e38]")


def xref_size_bomb() -> bytes:
    good = document([Text(72, 700, "x")])
    return good.replace(b"/Size ", b"/Size 2147483647 /Was ")


def stream_length_lie() -> bytes:
    return document([Text(72, 700, "x")]).replace(b"/Length ", b"/Length 2147483647 /Was ")


def xref_loop() -> bytes:
    good = document([Text(72, 700, "x")])
    start = good.rindex(b"startxref\n") + 10
    offset = good[start:].split(b"\n")[0]
    return good.replace(b"/Root 1 0 R", b"/Root 1 0 R/Prev " + offset)


def only_a_header() -> bytes:
    return b"%PDF-1.7\n"


def header_and_noise() -> bytes:
    return b"%PDF-1.4\n" + bytes(range(256)) * 400


def no_pages() -> bytes:
    return assemble([_CATALOG, b"<</Type/Pages/Kids[]/Count 0>>"])


def cut_in_half() -> bytes:
    good = document([Text(72, 700, "x")])
    return good[: len(good) // 2]


def not_even_a_catalog() -> bytes:
    return assemble([b"null"])


BUILDERS: dict[str, Callable[[], bytes]] = {
    build.__name__: build
    for build in (
        page_count_bomb,
        page_tree_bomb,
        page_tree_loop,
        deep_arrays,
        deep_dictionaries,
        deep_content,
        forms_within_themselves,
        decompression_bomb,
        bomb_in_a_bomb,
        object_bomb,
        huge_numbers,
        xref_size_bomb,
        stream_length_lie,
        xref_loop,
        only_a_header,
        header_and_noise,
        no_pages,
        cut_in_half,
        not_even_a_catalog,
        locked,
    )
}
