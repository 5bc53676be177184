"""Where requests come from, with and without a proxy."""

import pytest
from starlette.requests import HTTPConnection

from holdfast.http.proxies import TrustedProxies


def connection(peer, scheme="http", **headers):
    named = [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()]
    client = None if peer is None else (peer, 1234)
    return HTTPConnection({"type": "http", "scheme": scheme, "client": client, "headers": named})


@pytest.mark.parametrize(
    "peer, forwarded, address",
    [
        ("192.0.2.1", None, "192.0.2.1"),
        ("192.0.2.1", "198.51.100.9", "192.0.2.1"),
        ("127.0.0.1", None, "127.0.0.1"),
        ("127.0.0.1", "192.0.2.1", "192.0.2.1"),
        ("::1", "192.0.2.1", "192.0.2.1"),
        ("::ffff:127.0.0.1", "192.0.2.1", "192.0.2.1"),
        # What stands left of an address that is not trusted was written by that client.
        ("127.0.0.1", "198.51.100.9, 192.0.2.1", "192.0.2.1"),
        ("127.0.0.1", "192.0.2.1, 127.0.0.1", "192.0.2.1"),
        ("127.0.0.1", "192.0.2.1, unknown", "127.0.0.1"),
        ("127.0.0.1", "", "127.0.0.1"),
        # Some proxies add the port that they were called from.
        ("127.0.0.1", "192.0.2.1:5678", "192.0.2.1"),
        ("127.0.0.1", "192.0.2.1, [::1]:80", "192.0.2.1"),
        ("127.0.0.1", "[2001:db8:1:2:3:4:5:6]:443", "2001:db8:1:2::/64"),
        ("127.0.0.1", "[2001:db8:1:2:3:4:5:6]", "2001:db8:1:2::/64"),
        ("127.0.0.1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("127.0.0.1", "192.0.2.1:port", "127.0.0.1"),
        ("127.0.0.1", "192.0.2.1:", "127.0.0.1"),
        ("127.0.0.1", "[192.0.2.1]:80", "127.0.0.1"),
        ("127.0.0.1", "[::1", "127.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", None, "2001:db8:1:2::/64"),
        ("not an address", "192.0.2.1", "nowhere"),
        (None, "192.0.2.1", "nowhere"),
    ],
)
def test_the_address_is_the_one_that_a_trusted_proxy_was_called_from(peer, forwarded, address):
    headers = {} if forwarded is None else {"x_forwarded_for": forwarded}

    assert TrustedProxies().address(connection(peer, **headers)) == address


def test_a_header_that_is_sent_twice_is_read_as_one():
    request = connection("127.0.0.1", x_forwarded_for="198.51.100.9")
    request.scope["headers"].append((b"x-forwarded-for", b"192.0.2.1"))

    assert TrustedProxies().address(request) == "192.0.2.1"


def test_addresses_beyond_the_last_of_many_hops_are_not_read():
    request = connection("127.0.0.1", x_forwarded_for=", ".join(["127.0.0.1"] * 500))

    assert TrustedProxies().address(request) == "127.0.0.1"


@pytest.mark.parametrize(
    "peer, scheme, said, https",
    [
        ("192.0.2.1", "https", "http", True),
        ("192.0.2.1", "http", "https", False),
        ("10.0.0.7", "http", "https", True),
        ("10.0.0.7", "http", "http, HTTPS", True),
        ("10.0.0.7", "http", "https, http", False),
        ("127.0.0.1", "http", "https", False),
        (None, "http", "https", False),
    ],
)
def test_the_scheme_is_believed_to_a_trusted_proxy_alone(peer, scheme, said, https):
    proxies = TrustedProxies(["10.0.0.0/8"])

    assert proxies.is_https(connection(peer, scheme, x_forwarded_proto=said)) is https
