"""Names are resolved once, and refused for any address that is forbidden."""

import asyncio
import socket
import threading

import pytest
from tests.support.fetching import Names

from holdfast.fetch import FetchCode, FetchError
from holdfast.fetch.addresses import AddressPolicy
from holdfast.fetch.resolver import SystemResolver, checked_addresses
from holdfast.fetch.urls import parse_url


def checked(url, names, policy=None):
    found = asyncio.run(checked_addresses(parse_url(url), names, policy or AddressPolicy()))
    return [str(address) for address in found]


def refusal(url, names):
    with pytest.raises(FetchError) as found:
        checked(url, names)
    return found.value


def test_all_addresses_of_a_name_are_returned_in_their_order_and_once():
    names = Names(a_example=["8.8.8.8 2606:4700::1 8.8.8.8 ::ffff:1.1.1.1"])

    assert checked("http://a.example/", names) == ["8.8.8.8", "2606:4700::1", "1.1.1.1"]
    assert names.asked == ["a.example"]


def test_a_translated_address_is_connected_to_as_it_is():
    assert checked("http://a.example/", Names(a_example=["64:ff9b::8.8.8.8"])) == [
        "64:ff9b::808:808"
    ]


@pytest.mark.parametrize(
    "answer",
    ["10.0.0.1", "8.8.8.8 10.0.0.1", "2606:4700::1 ::1", "fe80::1%eth0", "::ffff:127.0.0.1"],
)
def test_one_forbidden_address_refuses_the_whole_name(answer):
    error = refusal("http://a.example/", Names(a_example=[answer]))

    assert error.code == FetchCode.URL_REFUSED
    assert str(error) == "This address is not on the public internet."
    assert "is not public" in str(error.__cause__)


def test_an_address_is_checked_without_asking_the_resolver():
    names = Names()

    assert checked("http://8.8.8.8/", names) == ["8.8.8.8"]
    assert refusal("http://127.1/", names).code == FetchCode.URL_REFUSED
    assert names.asked == []


@pytest.mark.parametrize("names", [Names(), Names(a_example=[""])])
def test_a_name_without_an_address_is_not_found(names):
    error = refusal("http://a.example/", names)

    assert error.code == FetchCode.HOST_NOT_FOUND
    assert not error.permanent


def test_the_system_resolver_knows_this_machine_and_does_not_block_the_loop():
    async def scenario():
        resolver = SystemResolver()
        try:
            return await resolver("localhost", 80)
        finally:
            resolver.close()

    assert set(asyncio.run(scenario())) & {"127.0.0.1", "::1"}


def test_a_name_that_takes_long_occupies_no_thread_of_the_event_loop(monkeypatch):
    released = threading.Event()

    def slow(host, port, **options):
        released.wait(60)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", slow)

    async def scenario():
        resolver = SystemResolver()
        waiting = [asyncio.create_task(resolver(f"{n}.invalid", 80)) for n in range(10)]
        try:
            # The threads of the loop are free: this returns while ten names are being resolved.
            assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 30) == "free"
        finally:
            released.set()
            results = await asyncio.gather(*waiting, return_exceptions=True)
            resolver.close()
        return results

    assert {type(each) for each in asyncio.run(scenario())} == {socket.gaierror}
