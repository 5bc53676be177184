"""Session cookies."""

import pytest

from holdfast.http.cookies import CookieName
from holdfast.http.sessions import Sessions, Signer
from holdfast.testing import VirtualClock


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def sessions(clock):
    return Sessions("a key", clock)


def test_a_cookie_names_its_owner(sessions):
    session = sessions.read(sessions.cookie("me"))

    assert (session.owner, session.known, session.stale) == ("me", True, False)


@pytest.mark.parametrize(
    "change",
    [
        lambda cookie: cookie[:-1],
        lambda cookie: "you" + cookie[2:],
        lambda cookie: cookie.replace(".", ""),
        lambda cookie: cookie + "x",
        lambda cookie: "",
        lambda cookie: "." * 50,
        lambda cookie: "é.1.x",
        lambda cookie: "x" * 5000,
        lambda cookie: None,
    ],
)
def test_a_cookie_with_another_signature_has_no_owner(sessions, change):
    session = sessions.read(change(sessions.cookie("me")))

    assert not session.known
    assert session.owner != "me"


def test_a_cookie_of_another_key_or_purpose_has_no_owner(sessions, clock):
    assert not sessions.read(Sessions("other", clock).cookie("me")).known
    assert not sessions.read(Signer("a key", "admin").sign("me.0")).known


def test_two_strangers_are_two_owners(sessions):
    assert sessions.read(None).owner != sessions.read(None).owner


def test_a_session_is_renewed_after_a_month_and_ends_after_a_year(sessions, clock):
    cookie = sessions.cookie("me")
    clock.sleep(31 * 86_400)
    assert sessions.read(cookie).stale
    clock.sleep(400 * 86_400)
    assert not sessions.read(cookie).known


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(sessions):
    plain = sessions.header("me", secure=False)
    secure = sessions.header("me", secure=True)

    for word in ("HttpOnly", "SameSite=Lax", "Path=/"):
        assert word in plain
    assert "Secure" not in plain
    assert secure.endswith("; Secure")
    assert secure.startswith("__Host-")


def test_the_name_of_a_cookie_tells_keys_and_purposes_apart():
    names = {
        CookieName(purpose, key).plain for purpose in ("session", "admin") for key in ("a", "b")
    }

    assert len(names) == 4


def test_a_cookie_of_the_earlier_name_is_read_and_set_under_the_new_one(sessions):
    session = sessions.find({"holdfast_session": sessions.cookie("me")}, secure=False)

    assert (session.owner, session.known, session.stale) == ("me", True, True)


def test_a_session_from_before_https_is_kept_and_set_for_https(sessions):
    cookies = {sessions.name.plain: sessions.cookie("me")}

    assert not sessions.find(cookies, secure=False).stale
    assert sessions.find(cookies, secure=True).stale
    cookies[sessions.name.secure] = sessions.cookie("me as well")
    session = sessions.find(cookies, secure=True)
    assert (session.owner, session.stale) == ("me as well", False)


def test_a_session_for_https_is_kept_where_https_is_not_seen_any_more(sessions):
    cookies = {sessions.name.secure: sessions.cookie("me")}

    session = sessions.find(cookies, secure=False)

    assert (session.owner, session.known, session.stale) == ("me", True, True)


def test_a_cookie_is_set_once_and_kept(serving):
    first = serving.client.get("/api/jobs")
    second = serving.client.get("/api/jobs")

    assert "HttpOnly" in first.headers["set-cookie"]
    assert "set-cookie" not in second.headers


def test_a_forged_cookie_opens_nothing(serving):
    theirs = serving.enqueue()
    owner = serving.owner()
    name = serving.state.sessions.name.plain
    forger = serving.browser(cookie=f"{name}={owner}.9999999999.x")

    assert forger.get(f"/api/jobs/{theirs}").status_code == 403


FORWARDED = {"x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.7"}


def is_secure(answer):
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-") == cookie.endswith("; Secure")
    return cookie.endswith("; Secure")


def test_cookies_are_secure_by_themselves_behind_a_trusted_proxy_with_https(serve):
    serving = serve()

    assert not is_secure(serving.browser().get("/api/jobs"))
    assert is_secure(serving.browser(**FORWARDED).get("/api/jobs"))
    assert is_secure(serving.browser(**FORWARDED).get(serving.state.admin.new_link()))


def test_a_stranger_cannot_claim_https(serve):
    serving = serve(trusted_proxies=())

    assert not is_secure(serving.browser(**FORWARDED).get("/api/jobs"))


@pytest.mark.parametrize("chosen", [True, False])
def test_the_setting_decides_whether_cookies_are_secure(serve, chosen):
    serving = serve(secure_cookies=chosen)

    for headers in ({}, FORWARDED):
        assert is_secure(serving.browser(**headers).get("/api/jobs")) is chosen
