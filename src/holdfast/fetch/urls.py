"""Read a URL strictly, into the form in which it is checked, resolved and sent.

All parts of the fetcher work with the `Url` read here and never with the text, so no two of them
can understand it differently. Hosts are normalised as browsers do (UTS 46), and whatever a browser
or `inet_aton` would take for an IPv4 address is one: `127.1`, `0x7f000001`, `2130706433`,
`0177.0.0.1`, `①②⑦.0.0.1`.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

import idna

from holdfast.fetch.addresses import Address
from holdfast.fetch.fetch_errors import FetchCode, FetchError, failure

LONGEST_URL = 8000
"""Characters. RFC 9110 asks servers to accept at least so many."""

_PORTS: Final = {"http": 80, "https": 443}
_BAD_PORTS: Final = frozenset(
    (
        *(0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95),
        *(101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179),
        *(389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601),
        *(636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000),
        *(6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
    )
)
"""Ports of mail, chat and other services that would act on lines of an HTTP request; the list of
the Fetch standard, which browsers follow."""

_NEVER_ALLOWED = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ud800-\udfff]")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]+", re.ASCII)
_OCTAL = re.compile(r"[0-7]+", re.ASCII)
_HEXADECIMAL = re.compile(r"0x[0-9a-f]*", re.ASCII)
_PATH_SAFE = "/%:@!$&'()*+,;=~"
_QUERY_SAFE = _PATH_SAFE + "?"


@dataclass(frozen=True, slots=True)
class Url:
    """A URL that is valid; whether its host may be connected to is another question.

    Args:
        scheme: `http` or `https`.
        host: a name in lower-case ASCII, or an address without brackets.
        address: the host where it is an IP address.
        port: the one that was named, else that of the scheme.
        target: path and query as they are sent.
    """

    scheme: str
    host: str
    address: Address | None
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(text: str) -> Url:
    """Read a URL; spaces around it and its fragment are dropped.

    Raises:
        PermanentFetchError: `URL_INVALID`, or `URL_REFUSED` for a port that is not for the web.
    """
    text = text.strip(" \t\r\n")
    if not text or len(text) > LONGEST_URL or _NEVER_ALLOWED.search(text):
        raise failure(FetchCode.URL_INVALID)
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise failure(FetchCode.URL_INVALID) from error
    if parts.scheme not in _PORTS:
        raise _invalid("Only addresses that begin with http:// or https:// can be fetched.")
    if "@" in parts.netloc:
        raise _invalid("An address with a user name or password in it cannot be fetched.")
    host, port = _split_port(parts.netloc)
    name, address = _read_host(host)
    number = _PORTS[parts.scheme] if port is None else port
    if number in _BAD_PORTS:
        raise failure(FetchCode.URL_REFUSED, "This port is not one of a web site.")
    target = quote(parts.path or "/", safe=_PATH_SAFE)
    if parts.query:
        target += "?" + quote(parts.query, safe=_QUERY_SAFE)
    return Url(parts.scheme, name, address, number, target)


def redirect_url(base: Url, location: str) -> Url:
    """Read the `Location` of an answer of `base`.

    Raises:
        PermanentFetchError: as `parse_url`, and `URL_REFUSED` for a step from https to http.
    """
    try:
        joined = urljoin(str(base), location.strip())
    except ValueError as error:
        raise failure(FetchCode.URL_INVALID) from error
    url = parse_url(joined)
    if base.scheme == "https" and url.scheme == "http":
        raise failure(FetchCode.URL_REFUSED, "The site leads from https to plain http.")
    return url


def _invalid(message: str) -> FetchError:
    return failure(FetchCode.URL_INVALID, message)


def _split_port(netloc: str) -> tuple[str, int | None]:
    if netloc.startswith("["):
        host, bracket, rest = netloc.partition("]")
        host += bracket
        colon, port = rest[:1], rest[1:]
    else:
        host, colon, port = netloc.partition(":")
    if not colon:
        return host, None
    if colon != ":" or (port and not _PORT.fullmatch(port)) or int(port or 0) > 65535:
        raise failure(FetchCode.URL_INVALID)
    return host, int(port) if port else None


def _read_host(host: str) -> tuple[str, Address | None]:
    """Return the host as it is sent, and its address where it is one."""
    if host.startswith("["):
        ipv6 = _read_ipv6(host)
        return str(ipv6), ipv6
    try:
        name = host if host.isascii() else idna.encode(host, uts46=True).decode("ascii")
    except idna.IDNAError as error:
        raise failure(FetchCode.URL_INVALID) from error
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise failure(FetchCode.URL_INVALID)
    if not (_DECIMAL.fullmatch(labels[-1]) or _HEXADECIMAL.fullmatch(labels[-1])):
        return name, None
    ipv4 = _read_ipv4(labels)
    return str(ipv4), ipv4


def _read_ipv6(host: str) -> IPv6Address:
    # A zone ("fe80::1%eth0") names an interface of this machine: never part of a URL from outside.
    if not host.endswith("]") or "%" in host:
        raise failure(FetchCode.URL_INVALID)
    try:
        return IPv6Address(host[1:-1])
    except ValueError as error:
        raise failure(FetchCode.URL_INVALID) from error


def _read_ipv4(labels: list[str]) -> IPv4Address:
    """Read one to four numbers as `inet_aton` does: the last one fills the bytes that are left."""
    if len(labels) > 4:
        raise failure(FetchCode.URL_INVALID)
    *first, last = (_read_number(label) for label in labels)
    if any(number > 255 for number in first) or last >= 256 ** (5 - len(labels)):
        raise failure(FetchCode.URL_INVALID)
    value = last
    for position, number in enumerate(first):
        value += number << (8 * (3 - position))
    return IPv4Address(value)


def _read_number(label: str) -> int:
    if _HEXADECIMAL.fullmatch(label):
        return int(label[2:] or "0", 16)
    octal = label.startswith("0") and len(label) > 1
    if not (_OCTAL if octal else _DECIMAL).fullmatch(label):
        raise failure(FetchCode.URL_INVALID)
    return int(label, 8 if octal else 10)
