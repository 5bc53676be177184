"""The names of sessions' owners: what they share a downstream's places by."""

from holdfast.http.sessions import Sessions
from holdfast.testing import VirtualClock

SESSIONS = Sessions("a key", VirtualClock())


def levels(address, reads=False):
    network, first, own = SESSIONS.new_owner(address, reads=reads).split("/")
    return network, first, own


def test_two_sessions_of_one_address_are_two_owners_with_one_first_level():
    one, two = levels("192.0.2.1"), levels("192.0.2.1")
    assert one[:2] == two[:2]
    assert one[2] != two[2]


def test_a_session_that_began_with_a_page_has_a_second_level_of_its_own():
    page, post = levels("192.0.2.1", reads=True), levels("192.0.2.1")
    assert page[0] == post[0]
    assert (page[1], post[1]) == ("page", "post")


def test_two_addresses_have_two_first_levels():
    assert levels("192.0.2.1")[0] != levels("192.0.2.2")[0]


def test_the_address_cannot_be_read_from_the_name():
    assert "192" not in levels("192.0.2.1")[0]
    other = Sessions("another key", VirtualClock())
    assert other.new_owner("192.0.2.1", reads=True).split("/")[0] != levels("192.0.2.1")[0]


def test_visitors_of_one_address_are_owners_of_one_level(serving):
    owners = [serving.owner(serving.browser()).rpartition("/") for _ in range(2)]
    assert owners[0][0] == owners[1][0]
    assert owners[0][0].endswith("/page")
    assert owners[0][2] != owners[1][2]
