"""Bodies are decoded with bounds on what comes in and goes out."""

import gzip
import os
import tracemalloc
import zlib

import pytest

from holdfast.fetch import FetchCode, FetchError, FetchLimits
from holdfast.fetch.decompression import BodyDecoder

TEXT = b"a body that is sent compressed. " * 200
# Without the time of day, which would be part of the tests' names.
GZIPPED = gzip.compress(TEXT, mtime=0)
LIMITS = FetchLimits(max_bytes=4 * 2**20)


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def decoded(encodings, data, limits=LIMITS, step=None):
    decoder = BodyDecoder(encodings, limits)
    step = step or max(len(data), 1)
    pieces = [
        piece
        for start in range(0, len(data), step)
        for piece in decoder.decode(data[start : start + step])
    ]
    decoder.finish()
    assert all(len(piece) <= 64 * 1024 for piece in pieces)
    return b"".join(pieces)


def consume(decoder, data, sizes):
    """Decode data that comes in pieces of 1000 bytes, and note the sizes of what comes out."""
    for start in range(0, len(data), 1000):
        sizes += map(len, decoder.decode(data[start : start + 1000]))


def code_of(encodings, data, limits=LIMITS, step=None):
    with pytest.raises(FetchError) as found:
        decoded(encodings, data, limits, step)
    return found.value.code, found.value.permanent


@pytest.mark.parametrize("step", [None, 1, 7])
@pytest.mark.parametrize(
    "encodings, data",
    [
        ([], TEXT),
        (["identity"], TEXT),
        (["", "Identity , "], TEXT),
        (["gzip"], GZIPPED),
        (["X-GZIP"], GZIPPED),
        (["identity, gzip"], GZIPPED),
        (["deflate"], zlib.compress(TEXT)),
        (["deflate"], raw_deflate(TEXT)),
    ],
)
def test_a_body_is_decoded_however_it_is_cut_into_pieces(encodings, data, step):
    assert decoded(encodings, data, step=step) == TEXT


@pytest.mark.parametrize("step", [None, 1, 1000])
@pytest.mark.parametrize("padding", [b"", b"\0" * 300])
def test_a_gzip_body_may_have_several_members_with_padding_after_each(padding, step):
    members = (gzip.compress(TEXT, mtime=0) + padding) * 3
    assert decoded(["gzip"], members, step=step) == TEXT * 3
    full_piece = gzip.compress(b"x" * 64 * 1024, mtime=0) + padding
    assert decoded(["gzip"], full_piece * 2, step=step) == b"x" * 128 * 1024


@pytest.mark.parametrize("step", [None, 1, 1000])
@pytest.mark.parametrize("size", [64 * 1024 + more for more in (-1, 0, 1, 100, 258, 64 * 1024)])
def test_a_body_that_compresses_well_is_whole_at_any_size(size, step):
    assert decoded(["gzip"], gzip.compress(b"x" * size), step=step) == b"x" * size
    # Without a checksum behind it, zlib has read all input before all output is out.
    assert decoded(["deflate"], raw_deflate(b"x" * size), step=step) == b"x" * size


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_an_empty_body_needs_no_compressed_form(encoding):
    assert decoded([encoding], b"") == b""


@pytest.mark.parametrize(
    "encodings",
    [
        ["gzip", "gzip"],
        ["gzip, gzip"],
        ["deflate, gzip"],
        ["br"],
        ["zstd"],
        ["gzip, br"],
        ["rot13"],
    ],
)
def test_more_than_one_encoding_and_unknown_ones_are_refused_for_good(encodings):
    assert code_of(encodings, b"") == (FetchCode.FETCH_BAD_ANSWER, True)


@pytest.mark.parametrize(
    "encoding, data",
    [
        ("gzip", TEXT),
        ("gzip", GZIPPED[:-1]),
        ("gzip", GZIPPED[:20]),
        ("gzip", GZIPPED + b"more"),
        ("gzip", GZIPPED + GZIPPED[:-1]),
        ("gzip", GZIPPED + b"\0" + TEXT),
        ("gzip", GZIPPED[:-8] + b"\0" * 8),
        ("deflate", zlib.compress(TEXT)[:-5]),
        ("deflate", b"\x78"),
        ("deflate", b"\xff\xff\xff"),
        ("deflate", zlib.compress(TEXT) + b"more"),
        ("deflate", zlib.compress(TEXT) + b"\0"),
    ],
)
@pytest.mark.parametrize("step", [None, 1])
def test_damaged_data_is_a_bad_answer(encoding, data, step):
    assert code_of([encoding], data, step=step) == (FetchCode.FETCH_BAD_ANSWER, False)


def test_bytes_are_counted_as_they_come():
    limits = FetchLimits(max_bytes=1000)

    assert decoded([], b"x" * 1000, limits) == b"x" * 1000
    assert code_of([], b"x" * 1001, limits) == (FetchCode.FETCH_TOO_LARGE, True)


def test_bytes_are_counted_as_they_are_decompressed():
    limits = FetchLimits(max_bytes=10_000)

    assert len(decoded(["gzip"], gzip.compress(os.urandom(9_000)), limits)) == 9_000
    assert code_of(["gzip"], gzip.compress(b"x" * 10_001), limits)[0] == FetchCode.FETCH_TOO_LARGE


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress, raw_deflate])
def test_a_bomb_is_given_up_by_its_ratio_long_before_the_limit(pack):
    bomb = pack(b"\0" * 50 * 2**20)
    encoding = "gzip" if pack is gzip.compress else "deflate"
    decoder = BodyDecoder([encoding], FetchLimits(max_bytes=2**40))
    sizes = []

    with pytest.raises(FetchError) as found:
        consume(decoder, bomb, sizes)

    assert found.value.code == FetchCode.FETCH_TOO_LARGE
    assert sum(sizes) <= 1.1 * 2**20


def test_a_bomb_takes_no_more_memory_than_one_piece():
    bomb = gzip.compress(b"\0" * 50 * 2**20)
    decoder = BodyDecoder(["gzip"], FetchLimits(max_bytes=20 * 2**20, max_compression_ratio=10**6))
    tracemalloc.start()
    try:
        with pytest.raises(FetchError):
            consume(decoder, bomb, [])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 2**20


def test_a_short_page_of_spaces_may_compress_as_well_as_it_likes():
    assert len(decoded(["gzip"], gzip.compress(b" " * 2**19))) == 2**19


def test_a_body_in_very_many_tiny_pieces_is_given_up():
    decoder = BodyDecoder([], LIMITS)
    for _ in range(10_000):
        assert list(decoder.decode(b"x")) == [b"x"]

    with pytest.raises(FetchError) as found:
        [list(decoder.decode(b"x")) for _ in range(1000)]
    assert found.value.code == FetchCode.FETCH_TOO_LARGE


def test_a_body_may_come_in_any_number_of_pieces_of_some_size():
    decoder = BodyDecoder([], LIMITS)

    assert all(list(decoder.decode(b"x" * 16)) for _ in range(100_000))
