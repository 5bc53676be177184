"""Authentication of operators."""

import pytest
from tests.http.live_server import READER, SECRET, TOKEN

from holdfast.http.admin import AdminAccess
from holdfast.http.operators import Operator, Role
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


def cookie_of(access, token=TOKEN, *, secure=False):
    header = access.header(access.find(token), secure=secure)
    name, _, value = header.split(";")[0].partition("=")
    return Asking(cookies={name: value})


def test_the_cookie_ends_after_half_a_day_and_with_the_token():
    clock = VirtualClock()
    access = AdminAccess(SECRET, TOKEN, clock)
    asking = cookie_of(access)

    assert access.operator(asking) == Operator("admin", Role.FULL)
    assert access.operator(cookie_of(access, secure=True)) is not None
    assert AdminAccess(SECRET, "another token", clock).operator(asking) is None
    assert AdminAccess("another key", TOKEN, clock).operator(asking) is None
    clock.sleep(12 * 3600)
    assert access.operator(asking) is None


def test_a_cookie_of_a_reader_does_not_become_a_full_one():
    access = AdminAccess(SECRET, TOKEN, VirtualClock(), READER)
    asking = cookie_of(access, READER)
    assert access.operator(asking) == Operator("reader", Role.READER)

    ((name, value),) = asking.cookies.items()
    forged = value.replace("reader.reader", "full.admin")

    assert forged != value
    assert access.operator(Asking(cookies={name: forged})) is None


@pytest.mark.parametrize("cookie", ["", ".", "full.admin.1", "full.admin.x.y", "boss.ann.1.z"])
def test_a_cookie_that_was_not_signed_opens_nothing(cookie):
    access = AdminAccess(SECRET, TOKEN, VirtualClock())
    assert access.operator(Asking(cookies={access.name.plain: cookie})) is None


def test_tokens_with_names_name_their_operators():
    access = AdminAccess(SECRET, "ann:token-of-ann,ben@example:token-of-ben", VirtualClock())

    assert access.find("token-of-ann") == Operator("ann", Role.FULL)
    assert access.operator(cookie_of(access, "token-of-ben")) == Operator("ben@example", Role.FULL)
    assert access.find("ann:token-of-ann") is access.find("ann") is access.find("") is None


def test_a_token_that_is_removed_ends_its_own_cookies_only():
    both = AdminAccess(SECRET, "ann:token-of-ann,ben:token-of-ben", VirtualClock())
    left = AdminAccess(SECRET, "ben:token-of-ben", VirtualClock())

    assert left.operator(cookie_of(both, "token-of-ann")) is None
    assert left.operator(cookie_of(both, "token-of-ben")) is not None


def test_old_links_are_forgotten():
    access = AdminAccess(SECRET, TOKEN, VirtualClock())
    first = access.new_link().partition("=")[2]
    last = [access.new_link() for _ in range(100)][-1].partition("=")[2]

    assert access.use_link(first) is None
    assert access.use_link(last) is not None
    assert access.use_link(last) is None


def test_a_link_logs_in_under_a_name_of_its_own():
    access = AdminAccess(SECRET, "ann:token-of-ann,ben:token-of-ben", VirtualClock())
    entered = access.use_link(access.new_link().partition("=")[2])
    name, _, value = access.header(entered, secure=False).split(";")[0].partition("=")
    asking = Asking(cookies={name: value})

    assert entered == Operator("one-time link", Role.FULL)
    assert access.operator(asking) == entered
    assert " " not in value
    for tokens in ("ben:token-of-ben", "ann:token-of-ann,ben:another-of-ben"):
        assert AdminAccess(SECRET, tokens, VirtualClock()).operator(asking) is None


def test_the_audit_log_says_what_was_done_by_a_link(serving):
    client = serving.browser()
    client.get(serving.state.admin.new_link())
    client.post("/api/queues/default/pause")
    (entry,) = client.get("/api/audit").json()["entries"]
    assert (entry["who"], entry["role"]) == ("one-time link", "full")


@pytest.mark.parametrize("path", ["/admin/logout", "/ops/logout"])
def test_a_logout_removes_the_cookies_of_http_and_https(serving, path):
    answer = serving.client.post(path)
    name = serving.state.admin.name
    removed = answer.headers.get_list("set-cookie")
    assert [each.partition("=")[0] for each in removed] == [name.secure, name.plain]
    assert all("=; Max-Age=0; " in each for each in removed)
    assert ["; Secure" in each for each in removed] == [True, False]


def test_a_token_that_is_typed_logs_in_until_the_logout(serve):
    serving = serve(reader_token=READER)
    client = serving.browser()

    entered = client.post("/admin/login", data={"token": f" {READER} "})

    assert (entered.status_code, entered.headers["location"]) == (303, "/ops")
    assert client.get("/api/stats").status_code == 200
    left = client.post("/admin/logout")
    assert (left.status_code, left.headers["location"]) == (303, "/ops/login")
    assert client.get("/api/stats").status_code == 403


def test_a_wrong_token_leads_back_to_the_login(serving):
    refused = serving.client.post("/admin/login", data={"token": "wrong"})

    assert (refused.status_code, refused.headers["location"]) == (303, "/ops/login?failed=1")
    assert "set-cookie" not in refused.headers
    again = {"token": "wrong", "to": "/ops/jobs?status=failed"}
    kept = serving.client.post("/admin/login", data=again).headers["location"]
    assert kept == "/ops/login?failed=1&to=%2Fops%2Fjobs%3Fstatus%3Dfailed"
    page = serving.client.get(kept).text
    assert "This is not a token of an operator." in page
    assert 'value="/ops/jobs?status=failed"' in page


@pytest.mark.parametrize(
    ("asked", "reached"),
    [
        ("/ops/jobs?status=failed", "/ops/jobs?status=failed"),
        ("/ops?x=1", "/ops?x=1"),
        ("//evil.example/ops", "/ops"),
        ("https://evil.example/", "/ops"),
        ("/opsother", "/ops"),
    ],
)
def test_the_login_returns_to_pages_below_ops_only(serving, asked, reached):
    entered = serving.client.post("/admin/login", data={"token": TOKEN, "to": asked})
    assert entered.headers["location"] == reached


def test_a_login_from_another_site_is_refused(serving):
    headers = {"origin": "http://evil.example"}
    refused = serving.client.post("/admin/login", data={"token": TOKEN}, headers=headers)
    assert refused.status_code == 403
