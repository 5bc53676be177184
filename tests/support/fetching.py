"""What tests of the fetcher put in the place of the network outside."""

import asyncio
import socket
from collections.abc import Sequence

import httpcore
import pytest

from holdfast.fetch import Fetched, Fetcher, FetchError, FetchLimits
from holdfast.fetch.fetch_errors import FetchCode

SITE = "site.example"
"""A name whose address, 127.0.0.1, stands for one on the public internet."""
STANDS_FOR_PUBLIC = ("127.0.0.1/32",)
"""The rest of the loopback network, 127.0.0.2 say, stays private."""
SMALL = FetchLimits(max_bytes=256 * 1024, max_seconds=20.0, connect_seconds=5.0)


class RecordingBackend(httpcore.AsyncNetworkBackend):
    """Opens sockets on the loopback interface, and notes every address that it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._real = httpcore.AnyIOBackend()

    async def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):
        self.asked.append(host)
        assert host == "127.0.0.1", f"a test must not send anything to {host}"
        return await self._real.connect_tcp(host, port, timeout, local_address, socket_options)


class Names:
    """A resolver from a table: each look-up of a name consumes one answer, the last one repeats.

    An answer is a text of addresses with spaces between them; a name without one is unknown.
    """

    def __init__(self, **answers: Sequence[str]) -> None:
        self.asked: list[str] = []
        self._answers = {name.replace("_", "."): list(each) for name, each in answers.items()}

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._answers.get(host)
        if answers is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return (answers.pop(0) if len(answers) > 1 else answers[0]).split()


def guarded(backend: RecordingBackend, limits: FetchLimits = SMALL, **options: object) -> Fetcher:
    """Return a fetcher to which 127.0.0.1 is public and `SITE` is there."""
    options.setdefault("resolver", Names(site_example=["127.0.0.1"]))
    return Fetcher(limits, allowed_networks=STANDS_FOR_PUBLIC, backend=backend, **options)


def fetched(fetcher: Fetcher, url: str, **options: str) -> Fetched:
    """Fetch `url`."""
    return asyncio.run(fetcher.get(url, **options))


def refused(fetcher: Fetcher, url: str, code: FetchCode | str | None = None) -> FetchError:
    """Return the error of a fetch that must fail, with `code` if it is given."""
    with pytest.raises(FetchError) as found:
        fetched(fetcher, url)
    assert code is None or found.value.code == code
    return found.value


def site_url(server_url: str, path: str = "/") -> str:
    """Return the address of a scripted server under the name of `SITE`."""
    return server_url.replace("127.0.0.1", SITE) + path
