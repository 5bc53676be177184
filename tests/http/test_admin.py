"""Authentication of operators."""

import pytest
from tests.http.live_server import SECRET, TOKEN

from holdfast.http.admin import AdminAccess
from holdfast.testing import VirtualClock


def test_a_link_opens_once_and_leaves_a_cookie(serving):
    link = serving.state.admin.new_link()
    client = serving.browser()
    assert client.get("/api/stats").status_code == 403

    entered = client.get(link)

    assert (entered.status_code, entered.headers["location"]) == (303, "/ops/")
    assert "HttpOnly" in entered.headers["set-cookie"]
    assert client.get("/api/stats").status_code == 200
    late = serving.browser()
    assert late.get(link).status_code == 403
    assert late.get("/api/stats").status_code == 403


@pytest.mark.parametrize("token", ["", "x", "é", "%00"])
def test_a_forged_link_opens_nothing(serving, token):
    assert serving.client.get(f"/admin/enter?token={token}").status_code == 403


def test_the_bearer_token_opens(serving):
    assert serving.admin().get("/api/stats").status_code == 200


class Asking:
    """A request with these headers and cookies."""

    def __init__(self, headers=None, cookies=None):
        self.headers, self.cookies = headers or {}, cookies or {}


def cookie_of(access, secure=False):
    name, _, value = access.header(secure=secure).split(";")[0].partition("=")
    return Asking(cookies={name: value})


def test_the_cookie_ends_after_half_a_day_and_with_the_token():
    clock = VirtualClock()
    access = AdminAccess(SECRET, TOKEN, clock)
    asking = cookie_of(access)

    assert access.allows(asking)
    assert access.allows(cookie_of(access, secure=True))
    assert not AdminAccess(SECRET, "another token", clock).allows(asking)
    assert not AdminAccess("another key", TOKEN, clock).allows(asking)
    clock.sleep(12 * 3600)
    assert not access.allows(asking)


def test_old_links_are_forgotten():
    access = AdminAccess(SECRET, TOKEN, VirtualClock())
    first = access.new_link().partition("=")[2]
    last = [access.new_link() for _ in range(100)][-1].partition("=")[2]

    assert not access.use_link(first)
    assert access.use_link(last)
    assert not access.use_link(last)
