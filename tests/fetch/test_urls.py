"""How URLs are read."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.fetch import FetchCode, PermanentFetchError
from holdfast.fetch.urls import LONGEST_URL, parse_url, redirect_url


def wide(text, distance=0xFEE0):
    """Write text in letters and digits of another block of Unicode, that of fullwidth forms."""
    return "".join(chr(ord(each) + distance) if each != "." else each for each in text)


@pytest.mark.parametrize(
    "text, read",
    [
        ("http://example.com", "http://example.com/"),
        ("HTTPS://Example.COM/A?b=C#part", "https://example.com/A?b=C"),
        ("  http://example.com/ \n", "http://example.com/"),
        ("http://example.com:80/", "http://example.com/"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com:/", "http://example.com/"),
        ("http://example.com:08080/", "http://example.com:8080/"),
        ("http://example.com./", "http://example.com/"),
        ("http://example.com?q=1", "http://example.com/?q=1"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        (f"http://{wide('EXAMPLE')}.com/", "http://example.com/"),
        ("http://日本語。example/", "http://xn--wgv71a119e.example/"),
        ("http://my_host.example/", "http://my_host.example/"),
        ("http://example.com/a b/ü?ä=ö c", "http://example.com/a%20b/%C3%BC?%C3%A4=%C3%B6%20c"),
        ("http://example.com/a%20b%2f?x=%zz", "http://example.com/a%20b%2f?x=%zz"),
        ('http://example.com/"<>', "http://example.com/%22%3C%3E"),
        ("http://8.8.8.8:8000/", "http://8.8.8.8:8000/"),
        ("http://[2606:4700::1]:8000/x", "http://[2606:4700::1]:8000/x"),
    ],
)
def test_a_url_is_read_and_written_in_its_normal_form(text, read):
    assert str(parse_url(text)) == read
    assert str(parse_url(read)) == read


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.1", "127.0.1", "0x7f000001", "0X7F000001", "0x7f.1", "127.0x1"),
        *("0x7f.0x0.0x0.0x1", "2130706433", "017700000001", "0177.0.0.1", "0177.0.0.01"),
        *("127.0.0.1.", "0x7F.0.1", "①②⑦.0.0.1", "127。0。0。1", "127｡0｡0｡1", "²130706433"),
        *(wide("127.0.0.1"), wide("0x7f.1"), wide("127.0.0.1", 0x1D7CE - ord("0")), wide("0X7F.1")),
    ],
)
def test_an_odd_spelling_of_an_address_is_that_address(host):
    url = parse_url(f"http://{host}/")

    assert str(url.address) == "127.0.0.1"
    assert str(url) == "http://127.0.0.1/"


@given(st.text("0123456789abxX.-_%①②。|[]:\u00ad", max_size=20) | st.text(max_size=20))
def test_no_host_that_the_system_reads_as_an_address_is_taken_for_a_name(host):
    try:
        url = parse_url(f"http://{host}/")
    except PermanentFetchError:
        return
    if url.address is None:
        with pytest.raises(OSError, match="illegal IP address"):
            socket.inet_aton(url.host)
    assert parse_url(str(url)) == url


@pytest.mark.parametrize("hidden", ["\u00ad", "\u200b", "\u2060", "\ufe0f"])
def test_characters_that_a_name_drops_hide_no_address(hidden):
    assert str(parse_url(f"http://127.0.0{hidden}.1/").address) == "127.0.0.1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "example.com",
        "//example.com/",
        "/etc/passwd",
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com:70/_x",
        "data:text/plain,hello",
        "javascript:alert(1)",
        "ws://example.com/",
        "http:example.com",
        "http:///path",
        "http://",
        "http://:80/",
        "http://user@example.com/",
        "http://user:secret@example.com/",
        "http://@example.com/",
        "http://example.com@127.0.0.1/",
        "http://example.com\\@127.0.0.1/",
        "http://example.com\\.evil.example/",
        "http://exam\nple.com/",
        "http://example.com/\x00",
        "http://example.com/\x7f",
        "http://example.com/\ud800",
        "http://example.com/?q=\udfff",
        "http://example.com:x/",
        "http://example.com:-1/",
        "http://example.com:65536/",
        "http://example.com:123456/",
        "http://example.com:" + wide("80"),
        "http://a:1:2/",
        "http://exa mple.com/",
        "http://example..com/",
        "http://.example.com/",
        "http://-example.com/",
        "http://example-.com/",
        "http://%31%32%37.0.0.1/",
        "http://127.0.0.1%00.example/",
        "http://exam,ple.com/",
        "http://" + "a" * 64 + ".com/",
        "http://" + ".".join(["abcdefgh"] * 30) + "/",
        "http://ex℀mple.com/",
        "http://\u2488example.com/",
        "http://xn--\u00fc.example/",
        "http://1.2.3.4.5/",
        "http://256.1.1.1/",
        "http://1.2.3.256/",
        "http://1.2.65536/",
        "http://1.16777216/",
        "http://4294967296/",
        "http://08.1.1.1/",
        "http://1_0.0.0.1/",
        "http://name.1/",
        "http://name.0x1/",
        "http://[::1/",
        "http://[::1]x/",
        "http://[::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[v1.x]/",
        "http://[127.0.0.1]/",
        "http://[::1]:x/",
        "http://]/",
        "http://example.com/" + "a" * LONGEST_URL,
    ],
)
def test_what_is_no_url_of_the_web_is_invalid(text):
    with pytest.raises(PermanentFetchError) as found:
        parse_url(text)
    assert found.value.code == FetchCode.URL_INVALID


@pytest.mark.parametrize("port", [0, 22, 25, 110, 143, 465, 587, 6000, 6667, 10080])
def test_a_port_of_another_service_is_refused(port):
    with pytest.raises(PermanentFetchError, match="port") as found:
        parse_url(f"http://example.com:{port}/")
    assert found.value.code == FetchCode.URL_REFUSED


def test_messages_name_what_is_wrong_with_the_scheme_and_the_user_name():
    with pytest.raises(PermanentFetchError, match="begin with http:// or https://"):
        parse_url("ftp://example.com/")
    with pytest.raises(PermanentFetchError, match="user name") as found:
        parse_url("http://me:secret@example.com/")
    assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    "location, read",
    [
        ("/b", "https://example.com:8443/b"),
        ("c?d", "https://example.com:8443/a/c?d"),
        ("?x", "https://example.com:8443/a/b?x"),
        ("//other.example/", "https://other.example/"),
        ("https://other.example:9000/ ü", "https://other.example:9000/%20%C3%BC"),
        ("", "https://example.com:8443/a/b"),
    ],
)
def test_a_redirect_is_read_relative_to_the_address_that_answered(location, read):
    assert str(redirect_url(parse_url("https://example.com:8443/a/b"), location)) == read


@pytest.mark.parametrize(
    "location, code",
    [
        ("http://example.com/", FetchCode.URL_REFUSED),
        ("ftp://example.com/", FetchCode.URL_INVALID),
        ("//user@example.com/", FetchCode.URL_INVALID),
        ("http://[::1", FetchCode.URL_INVALID),
        ("https://example.com:25/", FetchCode.URL_REFUSED),
    ],
)
def test_a_redirect_that_leads_from_https_to_http_or_nowhere_is_refused(location, code):
    with pytest.raises(PermanentFetchError) as found:
        redirect_url(parse_url("https://example.com/"), location)
    assert found.value.code == code
