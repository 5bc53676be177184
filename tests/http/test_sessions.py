"""Session cookies."""

import pytest

from holdfast.http.sessions import Sessions, Signer
from holdfast.testing import VirtualClock


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def sessions(clock):
    return Sessions("a key", clock, secure=False)


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
    assert not sessions.read(Sessions("other", clock, secure=False).cookie("me")).known
    assert not sessions.read(Signer("a key", "admin").sign("me.0")).known


def test_two_strangers_are_two_owners(sessions):
    assert sessions.read(None).owner != sessions.read(None).owner


def test_a_session_is_renewed_after_a_month_and_ends_after_a_year(sessions, clock):
    cookie = sessions.cookie("me")
    clock.sleep(31 * 86_400)
    assert sessions.read(cookie).stale
    clock.sleep(400 * 86_400)
    assert not sessions.read(cookie).known


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(clock):
    plain = Sessions("a key", clock, secure=False).header("me")
    secure = Sessions("a key", clock, secure=True).header("me")

    for word in ("HttpOnly", "SameSite=Lax", "Path=/"):
        assert word in plain
    assert "Secure" not in plain
    assert secure.endswith("; Secure")


def test_a_cookie_is_set_once_and_kept(serving):
    first = serving.client.get("/api/jobs")
    second = serving.client.get("/api/jobs")

    assert "HttpOnly" in first.headers["set-cookie"]
    assert "set-cookie" not in second.headers


def test_a_forged_cookie_opens_nothing(serving):
    theirs = serving.enqueue()
    owner = serving.owner()
    forger = serving.browser(cookie=f"holdfast_session={owner}.9999999999.x")

    assert forger.get(f"/api/jobs/{theirs}").status_code == 403
