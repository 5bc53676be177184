"""Forms, parsed in chunks of any size."""

import asyncio
import errno
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ErrorCode
from holdfast.files import ArtifactStore
from holdfast_conversion.upload_form import (
    Form,
    UploadLimits,
    UploadRefused,
    clean_filename,
    readable,
    receive,
    shown_size,
)

KIND = "multipart/form-data; boundary=b"
PDF = b"%PDF-1.7\n" + bytes(range(256)) * 20 + b"\r\n--b" + b"\r\n--" + b"-" * 50
LIMITS = UploadLimits(most_bytes=100_000, stall_seconds=5, total_seconds=10)


def form_of(content, mapping=b"text", filename=b'"a.pdf"'):
    return (
        b'--b\r\nContent-Disposition: form-data; name="mapping"\r\n\r\n' + mapping + b"\r\n"
        b'--b\r\ncontent-disposition: form-data; name="file"; filename=' + filename + b"\r\n\r\n"
        + content + b"\r\n--b--\r\n"
    )  # fmt: skip


async def pieces(*parts, wait=0.0):
    for part in parts:
        await asyncio.sleep(wait)
        yield part


def read(store, *parts, kind=KIND, limits=LIMITS, wait=0.0):
    form = Form()

    async def scenario():
        with store.draft() as draft:
            await receive(pieces(*parts, wait=wait), kind, draft, form, limits)
            draft.publish("uploads/x.pdf")
        with store.open("uploads/x.pdf") as file:
            return file.read()

    return form, asyncio.run(scenario())


@pytest.fixture
def store(tmp_path):
    store = ArtifactStore(tmp_path)
    store.prepare()
    return store


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory):
    return ArtifactStore(tmp_path_factory.mktemp("files"))


def test_a_form_is_read_counted_and_hashed(store):
    inside = PDF.replace(b"\r\n--b", b"")
    form, content = read(store, form_of(inside))

    assert content == inside
    assert (form.bytes, form.sha256) == (len(inside), hashlib.sha256(inside).hexdigest())
    assert (form.mapping, form.filename) == ("text", "a.pdf")


@given(st.lists(st.integers(1, 300), max_size=60))
def test_it_does_not_matter_how_a_form_is_cut(shared_store, cuts):
    inside = PDF.replace(b"\r\n--b", b"\r\n--c")
    body, parts = form_of(inside), []
    for cut in cuts:
        parts.append(body[:cut])
        body = body[cut:]

    form, content = read(shared_store, *parts, body)

    assert content == inside
    assert form.sha256 == hashlib.sha256(inside).hexdigest()


def test_a_large_piece_is_written_a_little_at_a_time(store):
    inside = b"%PDF-" + b"x" * 3_000_000
    limits = UploadLimits(most_bytes=4_000_000, stall_seconds=5, total_seconds=10)

    form, content = read(store, form_of(inside), limits=limits)

    assert form.bytes == len(inside)
    assert content == inside


def refused(store, *parts, **options):
    with pytest.raises(UploadRefused) as found:
        read(store, *parts, **options)
    assert list((store.root / ".drafts").iterdir()) == []
    assert list(store.list("uploads")) == []
    return found.value


def test_a_stalled_upload_is_given_up(store):
    limits = UploadLimits(most_bytes=100, stall_seconds=0.05, total_seconds=10)

    error = refused(store, form_of(PDF), limits=limits, wait=1)

    assert (error.code, error.status, error.recorded) == (ErrorCode.TIMEOUT, 408, False)


def test_an_upload_that_trickles_times_out(store):
    limits = UploadLimits(most_bytes=100_000, stall_seconds=5, total_seconds=0.2)

    error = refused(store, *(bytes([byte]) for byte in form_of(PDF)), limits=limits, wait=0.01)

    assert (error.code, error.status) == (ErrorCode.TIMEOUT, 408)


@pytest.mark.parametrize(
    "number, line",
    [
        (errno.EIO, "Temporary storage issue. We’ll retry."),
        (errno.ENOSPC, "There is no room left to store files."),
    ],
)
def test_a_failing_disk_is_answered_and_recorded(store, monkeypatch, number, line):
    def broken(self, data):
        raise OSError(number, "broken")

    monkeypatch.setattr("holdfast.files.artifacts.Draft.write", broken)
    inside = PDF.replace(b"\r\n--b", b"")

    error = refused(store, form_of(inside))

    assert (error.code, error.status, error.recorded) == (ErrorCode.IO_ERROR, 500, True)
    assert str(error) == line


def test_the_limit_is_shown_in_a_readable_unit(store):
    limits = UploadLimits(
        most_bytes=50 * 1024 * 1024, stall_seconds=5, total_seconds=5, declared=10**9
    )

    error = refused(store, form_of(PDF), limits=limits)

    assert str(error) == "File exceeds 50 MB limit."
    assert (shown_size(2048), shown_size(10)) == ("2 kB", "10 bytes")


@pytest.mark.parametrize("where", ["before", "after"])
def test_text_around_the_form_counts_too(store, where):
    form = form_of(b"%PDF-1.4")
    junk = [b"\r\n" * 32_000] * 50
    sent, taken = [*junk, form] if where == "before" else [form, *junk], []

    async def counted():
        for part in sent:
            taken.append(len(part))
            yield part

    async def scenario():
        with store.draft() as draft:
            await receive(counted(), KIND, draft, Form(), LIMITS)

    with pytest.raises(UploadRefused) as found:
        asyncio.run(scenario())

    assert (found.value.code, found.value.status) == (ErrorCode.TOO_LARGE, 413)
    assert sum(taken) < 100_000 + 400_000


def test_a_little_around_the_form_does_no_harm(store):
    _, content = read(store, b"\r\n", form_of(b"%PDF-1.4"), b"\r\nan epilogue")

    assert content == b"%PDF-1.4"


def test_a_very_long_unknown_mapping_is_refused(store):
    error = refused(store, form_of(PDF, mapping=b"x" * 1000))

    assert (error.code, error.recorded) == ("INVALID_MAPPING", True)


@pytest.mark.parametrize(
    "raw, shown",
    [
        (b"plain.pdf", "plain.pdf"),
        (b"", "document.pdf"),
        (b"/", "document.pdf"),
        (b"a\0b\x1bc.pdf", "abc.pdf"),
        (b"\xff\xfe.pdf", "\ufffd\ufffd.pdf"),
        ("a\u2028b\u00a0c.pdf".encode(), "a b c.pdf"),
        (b"%0D%0Aset-cookie.pdf", "set-cookie.pdf"),
        (b"x" * 300, "x" * 199 + "…"),
        (b"x" * 300 + b".pdf", "x" * 195 + "….pdf"),
        (b"." + b"y" * 300, "y" * 199 + "…"),
    ],
)
def test_a_file_name_is_made_fit_to_be_shown(raw, shown):
    assert clean_filename(raw) == shown


@given(st.binary(max_size=400))
def test_no_file_name_is_dangerous(raw):
    name = clean_filename(raw)

    assert 0 < len(name) <= 200
    assert not set(name) & set("/\\\r\n\0")
    assert name == name.strip()
    assert readable(name, 200) == name
