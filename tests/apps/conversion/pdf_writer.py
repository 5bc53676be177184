"""A small writer of valid and invalid PDFs."""

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_PAD = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")
A4 = (595, 842)


@dataclass(frozen=True, slots=True)
class Text:
    """A string at `x` and `y`, in points from the lower left; `turn` in quarter turns."""

    x: float
    y: float
    text: str
    size: float = 12
    turn: int = 0


def document(
    *pages: Iterable[Text],
    size: tuple[float, float] = (612, 792),
    rotate: int = 0,
    info: dict[str, str] | None = None,
    bookmarks: Sequence[str] = (),
    to_unicode: dict[int, str] | None = None,
) -> bytes:
    """Return a PDF with a page for each list of texts.

    With `to_unicode` the font has 500/1000 wide glyphs whose codes mean what the table says.
    """
    objects: list[bytes] = [b"", b"", _font(to_unicode)]
    if to_unicode is not None:
        objects.append(stream(_cmap(to_unicode)))
    kids = []
    for texts in pages:
        content = stream("\n".join(map(_show, texts)).encode("cp1252"))
        objects.append(content)
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %d %d]/Rotate %d/Contents %d 0 R"
            b"/Resources<</Font<</F 3 0 R>>>>>>" % (*map(int, size), rotate, len(objects))
        )
        kids.append(len(objects))
    outline = b""
    if bookmarks:
        outline = b"/Outlines %d 0 R" % (len(objects) + 1)
        objects.extend(_outline(bookmarks, len(objects) + 1, kids[0]))
    objects[0] = b"<</Type/Catalog/Pages 2 0 R%s>>" % outline
    listed = b" ".join(b"%d 0 R" % kid for kid in kids)
    objects[1] = b"<</Type/Pages/Kids[%s]/Count %d>>" % (listed, len(kids))
    trailer = b""
    if info:
        fields = b"".join(
            b"/%s<FEFF%s>" % (name.encode(), _utf16(value)) for name, value in info.items()
        )
        objects.append(b"<<%s>>" % fields)
        trailer = b"/Info %d 0 R" % len(objects)
    return assemble(objects, trailer)


def paragraph(x: float, top: float, lines: Iterable[str], size: float = 12) -> list[Text]:
    """Return lines below each other."""
    return [Text(x, top - 1.2 * size * row, line, size) for row, line in enumerate(lines)]


def assemble(objects: Sequence[bytes], trailer: bytes = b"", version: bytes = b"1.7") -> bytes:
    """Return a file of these objects, numbered from 1; the first is the catalog."""
    out = bytearray(b"%PDF-" + version + b"\n%\xe2\xe3\xcf\xd3\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    for offset in offsets:
        out += b"%010d 00000 n \n" % offset
    out += b"trailer\n<</Size %d/Root 1 0 R%s>>\n" % (len(objects) + 1, trailer)
    out += b"startxref\n%d\n%%%%EOF\n" % start
    return bytes(out)


def stream(data: bytes, *, extra: bytes = b"", compress: bool = False) -> bytes:
    """Return a stream object's body."""
    if compress:
        data, extra = zlib.compress(data), extra + b"/Filter/FlateDecode"
    return b"<</Length %d%s>>stream\n%s\nendstream" % (len(data), extra, data)


def one_page(content: bytes, extra: bytes = b"") -> bytes:
    """Return a PDF whose only page has the stream object `content`."""
    return assemble(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[4 0 R]/Count 1>>",
            _font(None),
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 5 0 R"
            b"/Resources<</Font<</F 3 0 R>>%s>>>>" % extra,
            content,
        ]
    )


def flate_bomb(mebibytes: int, filler: bytes = b" ") -> bytes:
    """Return a short Flate stream that unpacks to so many mebibytes."""
    packer = zlib.compressobj(9)
    mebibyte = filler * (1 << 20)
    first = packer.compress(mebibyte) + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush the same input gives the same bytes again, so they can be repeated.
    again = packer.compress(mebibyte) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + again * (mebibytes - 1) + packer.flush()


def locked(user: bytes = b"secret", owner: bytes = b"owner") -> bytes:
    """Return a PDF that needs the password `user` (RC4, 40 bits)."""
    identity = b"0123456789abcdef"
    owner_key = hashlib.md5((owner + _PAD)[:32]).digest()[:5]
    o_entry = _rc4(owner_key, (user + _PAD)[:32])
    permissions = (-4 & 0xFFFFFFFF).to_bytes(4, "little")
    key = hashlib.md5((user + _PAD)[:32] + o_entry + permissions + identity).digest()[:5]
    u_entry = _rc4(key, _PAD)
    encrypt = b"<</Filter/Standard/V 1/R 2/Length 40/P -4/O<%s>/U<%s>>>" % (
        o_entry.hex().encode(),
        u_entry.hex().encode(),
    )
    return assemble(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]>>",
            encrypt,
        ],
        b"/Encrypt 4 0 R/ID[<%s><%s>]" % (identity.hex().encode(), identity.hex().encode()),
    )


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass").hex().encode()


def _show(text: Text) -> str:
    a, b = {0: (1, 0), 1: (0, 1), 2: (-1, 0), 3: (0, -1)}[text.turn % 4]
    escaped = text.text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return f"BT /F {text.size} Tf {a} {b} {-b} {a} {text.x} {text.y} Tm ({escaped}) Tj ET"


def _font(to_unicode: dict[int, str] | None) -> bytes:
    if to_unicode is None:
        return b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
    widths = b" ".join([b"500"] * 224)
    return (
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/FirstChar 32/LastChar 255/Widths[%s]"
        b"/ToUnicode 4 0 R>>" % widths
    )


def _cmap(to_unicode: dict[int, str]) -> bytes:
    rows = b"".join(b"<%02x> <%s>\n" % (code, _utf16(text)) for code, text in to_unicode.items())
    return (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def\n"
        b"1 begincodespacerange <00> <ff> endcodespacerange\n%d beginbfchar\n%sendbfchar\n"
        b"endcmap end end" % (len(to_unicode), rows)
    )


def _outline(titles: Sequence[str], first: int, page: int) -> list[bytes]:
    last = first + len(titles)
    made = [b"<</Type/Outlines/First %d 0 R/Last %d 0 R>>" % (first + 1, last)]
    for number, title in enumerate(titles, start=first + 1):
        follow = b"/Next %d 0 R" % (number + 1) if number < last else b""
        text = _utf16(title)
        made.append(
            b"<</Title<FEFF%s>/Parent %d 0 R/Dest[%d 0 R/Fit]%s>>" % (text, first, page, follow)
        )
    return made


def _rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out, i, j = bytearray(), 0, 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)
