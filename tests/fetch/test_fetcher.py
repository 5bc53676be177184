"""The fetcher's requests, redirects, conditions, retries and settings."""

import asyncio
import subprocess
import sys

import pytest
from tests.support.fetching import (
    SMALL,
    Names,
    RecordingBackend,
    fetched,
    guarded,
    refused,
    site_url,
)
from tests.support.waiting import SOON

from holdfast import ErrorCode
from holdfast.fetch import FetchCode, Fetcher, FetchError, FetchLimits
from holdfast.settings import BadSetting, Environment
from holdfast.testing import VirtualClock
from holdfast.testing.downstream import close_early, hang, ok, status


def redirect(location, code=302):
    return status(code, headers={"Location": location})


def test_a_request_carries_only_what_the_fetcher_sets(scripted_downstream, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    scripted_downstream.script(ok(b"", headers={"Set-Cookie": "a=b"}))
    fetcher = guarded(RecordingBackend(), user_agent="Reader/2 (+https://reader.example)")
    for _ in range(2):
        fetched(fetcher, site_url(scripted_downstream.url))

    for request in scripted_downstream.requests:
        assert request.headers == {
            "host": site_url(scripted_downstream.url, "").removeprefix("http://"),
            "accept": "*/*",
            "accept-encoding": "gzip, deflate",
            "connection": "close",
            "user-agent": "Reader/2 (+https://reader.example)",
        }


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed(scripted_downstream, code):
    scripted_downstream.script(redirect("/new?x=ü", code), ok(b"here"))
    answer = fetched(guarded(RecordingBackend()), site_url(scripted_downstream.url, "/old"))

    assert answer.body == b"here"
    assert answer.url == site_url(scripted_downstream.url, "/new?x=%C3%BC")


def test_three_redirects_are_followed_and_no_more(scripted_downstream):
    hops = [redirect(f"/{number}") for number in range(3)]
    scripted_downstream.script(*hops, ok(b"here"))
    assert fetched(guarded(RecordingBackend()), site_url(scripted_downstream.url)).body == b"here"

    scripted_downstream.script(redirect("/again"))
    error = refused(guarded(RecordingBackend()), site_url(scripted_downstream.url))
    assert error.code == FetchCode.FETCH_TOO_MANY_REDIRECTS
    assert len(scripted_downstream.requests) == 4 + 4


def test_an_error_names_the_site_that_failed(scripted_downstream):
    names = Names(site_example=["127.0.0.1"])
    own = site_url(scripted_downstream.url, "").removeprefix("http://")
    scripted_downstream.script(status(503), redirect("http://gone.example/"), hang())
    fetcher = guarded(RecordingBackend(), resolver=names)
    assert refused(fetcher, site_url(scripted_downstream.url), FetchCode.FETCH_5XX).site == own
    url = site_url(scripted_downstream.url)
    assert refused(fetcher, url, FetchCode.HOST_NOT_FOUND).site == "gone.example"
    hasty = guarded(RecordingBackend(), FetchLimits(max_seconds=0.3), resolver=names)
    assert refused(hasty, url, FetchCode.FETCH_TIMEOUT).site == own
    assert refused(fetcher, "ftp://site.example/", FetchCode.URL_INVALID).site is None


def test_every_hop_is_resolved_and_checked_anew(scripted_downstream):
    names = Names(site_example=["127.0.0.1"], inside_example=["10.0.0.1"])
    backend = RecordingBackend()
    scripted_downstream.script(redirect("http://inside.example/"))
    error = refused(guarded(backend, resolver=names), site_url(scripted_downstream.url))

    assert error.code == FetchCode.URL_REFUSED
    assert names.asked == ["site.example", "inside.example"]
    assert backend.asked == ["127.0.0.1"]


def test_a_name_that_rebinds_is_connected_to_where_it_was_checked(scripted_downstream):
    names = Names(site_example=["127.0.0.1", "10.0.0.1"])
    backend = RecordingBackend()
    scripted_downstream.script(ok(b"public"))
    fetcher = guarded(backend, resolver=names)

    assert fetched(fetcher, site_url(scripted_downstream.url)).body == b"public"
    assert names.asked == ["site.example"]
    refused(fetcher, site_url(scripted_downstream.url), FetchCode.URL_REFUSED)
    assert backend.asked == ["127.0.0.1"]


def test_a_name_that_rebinds_between_two_hops_is_refused(scripted_downstream):
    backend = RecordingBackend()
    scripted_downstream.script(redirect("/same-name"))
    fetcher = guarded(backend, resolver=Names(site_example=["127.0.0.1", "127.0.0.2"]))

    refused(fetcher, site_url(scripted_downstream.url), FetchCode.URL_REFUSED)
    assert backend.asked == ["127.0.0.1"]
    assert len(scripted_downstream.requests) == 1


def test_a_condition_is_sent_through_redirects_and_nothing_new_is_a_success(scripted_downstream):
    headers = {"ETag": '"7"', "Content-Encoding": "br", "Content-Length": "99999999"}
    scripted_downstream.script(redirect("/b"), status(304, headers=headers))
    day = "Sat, 01 Jan 2022 00:00:00 GMT"
    answer = fetched(
        guarded(RecordingBackend()),
        site_url(scripted_downstream.url),
        etag='"7"',
        last_modified=day,
    )

    assert (answer.not_modified, answer.status, answer.body) == (True, 304, b"")
    assert answer.etag == '"7"'
    for request in scripted_downstream.requests:
        assert request.headers["if-none-match"] == '"7"'
        assert request.headers["if-modified-since"] == day


def test_a_newer_answer_to_a_condition_is_whole(scripted_downstream):
    scripted_downstream.script(ok(b"new", headers={"ETag": '"8"'}))
    url = site_url(scripted_downstream.url)
    answer = fetched(guarded(RecordingBackend()), url, etag='"7"')

    assert (answer.not_modified, answer.body, answer.etag) == (False, b"new", '"8"')


def test_a_condition_that_would_be_a_second_header_is_refused(scripted_downstream):
    with pytest.raises(ValueError, match="If-None-Match"):
        fetched(guarded(RecordingBackend()), site_url(scripted_downstream.url), etag="a\r\nX: y")
    with pytest.raises(ValueError, match="User-Agent"):
        Fetcher(user_agent="a\nb")


def test_the_wait_of_a_429_is_on_the_error(scripted_downstream):
    scripted_downstream.script(status(429, retry_after=17))
    error = refused(guarded(RecordingBackend()), site_url(scripted_downstream.url))

    assert (error.code, error.status) == (ErrorCode.RATE_LIMITED, 429)
    assert error.retry_after == 17.0
    assert str(error) == "The site asks for fewer requests (HTTP 429)."


def test_a_wait_until_a_date_is_counted_from_the_clock(scripted_downstream):
    clock = VirtualClock(start_wall=1_000_000_000.0)
    scripted_downstream.script(status(503, retry_after="Sun, 09 Sep 2001 01:47:40 GMT"))
    fetcher = guarded(RecordingBackend(), clock=clock)

    assert refused(fetcher, site_url(scripted_downstream.url)).retry_after == 60.0


def test_a_name_without_an_address_is_not_found():
    backend = RecordingBackend()

    assert refused(guarded(backend), "http://nowhere.invalid/").code == FetchCode.HOST_NOT_FOUND
    assert backend.asked == []


def test_a_post_sends_its_body_and_headers_and_returns_the_answer(scripted_downstream):
    scripted_downstream.script(status(202, b'{"ok": true}'))

    async def scenario():
        async with guarded(RecordingBackend()) as fetcher:
            return await fetcher.post(
                site_url(scripted_downstream.url, "/hook"),
                b'{"event": 1}',
                {"Content-Type": "application/json", "webhook-id": "msg_1"},
            )

    answer = asyncio.run(scenario())
    (request,) = scripted_downstream.requests
    assert (answer.status, answer.body) == (202, b'{"ok": true}')
    assert (request.method, request.path, request.json()) == ("POST", "/hook", {"event": 1})
    assert request.headers["webhook-id"] == "msg_1"
    assert request.headers["content-length"] == "12"


def test_a_post_that_reads_no_body_returns_once_the_status_is_there(scripted_downstream):
    scripted_downstream.script(close_early(b"x"))

    url = site_url(scripted_downstream.url)
    answer = asyncio.run(guarded(RecordingBackend()).post(url, b"", read_body=False))

    assert (answer.status, answer.body) == (200, b"")


def test_a_post_that_reads_no_body_takes_every_status_of_success(scripted_downstream):
    scripted_downstream.script(status(206))

    url = site_url(scripted_downstream.url)
    answer = asyncio.run(guarded(RecordingBackend()).post(url, b"", read_body=False))

    assert answer.status == 206


def test_a_post_that_reads_no_body_refuses_an_error_like_any_other(scripted_downstream):
    scripted_downstream.script(status(503))
    with pytest.raises(FetchError) as found:
        asyncio.run(
            guarded(RecordingBackend()).post(
                site_url(scripted_downstream.url), b"", read_body=False
            )
        )

    assert (found.value.code, found.value.status) == (FetchCode.FETCH_5XX, 503)


def post_error(fetcher, url, headers=None):
    with pytest.raises(FetchError) as found:
        asyncio.run(fetcher.post(url, b"", headers))
    return found.value.code


def test_a_post_follows_no_redirect_and_is_guarded_like_a_get(scripted_downstream):
    backend = RecordingBackend()
    fetcher = guarded(backend)
    url = site_url(scripted_downstream.url)

    scripted_downstream.script(redirect("/elsewhere", 307))
    assert post_error(fetcher, url) == FetchCode.FETCH_TOO_MANY_REDIRECTS
    assert len(scripted_downstream.requests) == 1
    scripted_downstream.script(status(410))
    assert post_error(fetcher, url) == FetchCode.FETCH_4XX
    scripted_downstream.script(hang())
    hasty = guarded(backend, FetchLimits(max_seconds=0.2))
    assert post_error(hasty, url) == FetchCode.FETCH_TIMEOUT
    assert post_error(fetcher, "http://169.254.169.254/latest") == FetchCode.URL_REFUSED
    assert set(backend.asked) == {"127.0.0.1"}


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "inside"},
        {"Content-Length": "3"},
        {"transfer-encoding": "chunked"},
        {"X-A": "b\r\nHost: inside"},
        {"X A": "b"},
        {"X-A": "ü"},
    ],
)
def test_a_header_that_would_change_the_request_is_refused(headers):
    backend = RecordingBackend()
    with pytest.raises(ValueError, match="header"):
        asyncio.run(guarded(backend).post("http://site.example/", b"", headers))
    assert backend.asked == []


def test_private_addresses_are_fetched_in_development(scripted_downstream):
    scripted_downstream.script(ok(b"mine"))
    fetcher = Fetcher(SMALL, allow_private=True)

    assert fetched(fetcher, scripted_downstream.url).body == b"mine"
    assert "development" in fetcher.start_warning
    assert "FETCH_ALLOW_PRIVATE" in fetcher.start_warning
    asyncio.run(fetcher.aclose())


def test_this_machine_is_refused_by_name_with_the_real_resolver(scripted_downstream):
    async def scenario():
        async with Fetcher(SMALL) as fetcher:
            await fetcher.get(scripted_downstream.url.replace("127.0.0.1", "localhost"))

    with pytest.raises(FetchError) as found:
        asyncio.run(scenario())
    assert found.value.code == FetchCode.URL_REFUSED
    assert scripted_downstream.requests == ()


def test_the_environment_decides_about_private_addresses():
    strict = Fetcher.from_environment(Environment({}))
    assert strict.start_warning is None
    assert strict.limits == FetchLimits()
    assert Fetcher.from_environment(Environment({"FETCH_ALLOW_PRIVATE": "0"})).start_warning is None
    lax = Fetcher.from_environment(Environment({"FETCH_ALLOW_PRIVATE": "1"}), SMALL)
    assert lax.start_warning is not None
    assert lax.limits is SMALL
    with pytest.raises(BadSetting, match="FETCH_ALLOW_PRIVATE"):
        Fetcher.from_environment(Environment({"FETCH_ALLOW_PRIVATE": "maybe"}))


def test_a_fetch_that_is_cancelled_closes_its_connection():
    async def scenario():
        asked, closed = asyncio.Event(), asyncio.Event()

        async def answer(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            asked.set()
            assert await reader.read() == b""
            closed.set()
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://site.example:{server.sockets[0].getsockname()[1]}/"
            fetch = asyncio.create_task(guarded(RecordingBackend()).get(url))
            await asyncio.wait_for(asked.wait(), SOON)
            fetch.cancel()
            with pytest.raises(asyncio.CancelledError):
                await fetch
            await asyncio.wait_for(closed.wait(), SOON)

    asyncio.run(scenario())


def test_a_missing_library_is_named_with_the_extra_that_brings_it():
    code = "import sys; sys.modules['httpcore'] = None; import holdfast.fetch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "pip install 'holdfast[fetch]'" in done.stderr


def test_a_url_is_checked_without_any_request():
    backend, names = RecordingBackend(), Names()
    fetcher = guarded(backend, resolver=names)

    assert str(fetcher.check(" HTTP://Site.Example:80/a#b")) == "http://site.example/a"
    assert fetcher.check("http://127.0.0.1:8080/").authority == "127.0.0.1:8080"
    for url, code in (
        ("http://10.255.255.1", FetchCode.URL_REFUSED),
        ("http://0x7f.2/", FetchCode.URL_REFUSED),
        ("ftp://site.example/", FetchCode.URL_INVALID),
    ):
        with pytest.raises(FetchError) as refusal:
            fetcher.check(url)
        assert (refusal.value.code, refusal.value.permanent) == (code, True)
    assert backend.asked == names.asked == []
