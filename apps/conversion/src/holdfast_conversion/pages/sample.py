"""A sample PDF of one page."""

_LINES = (
    "Holdfast carries this page from PDF to XML.",
    "It is stored before you are told that it is; it is tried again when the converter",
    "fails, held while the converter is away, and converted exactly once.",
)
_LEFT, _TOP, _LEADING = 72, 700, 22


def sample_pdf(number: str) -> bytes:
    """Return a PDF of one page; another `number` makes it another file."""
    shown = [(24, f"Sample {number}"), *((12, line) for line in _LINES)]
    content = "\n".join(
        f"BT /F {size} Tf {_LEFT} {_TOP - _LEADING * row - (0 if row == 0 else 12)} Td "
        f"({_escaped(line)}) Tj ET"
        for row, (size, line) in enumerate(shown)
    ).encode("ascii")
    title = _escaped(f"Sample {number}").encode("ascii")
    return _assemble(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 5 0 R"
            b"/Resources<</Font<</F 4 0 R>>>>>>",
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
            b"<</Title(%s)/Author(Holdfast)>>" % title,
        ]
    )


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def _assemble(objects: list[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.7\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<</Size %d/Root 1 0 R/Info %d 0 R>>\n" % (len(objects) + 1, len(objects))
    out += b"startxref\n%d\n%%%%EOF\n" % table
    return bytes(out)
