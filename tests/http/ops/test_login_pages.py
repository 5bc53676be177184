"""Logging in and out, and the theme."""

import pytest
from tests.http.live_server import TOKEN
from tests.http.pages.page_reader import Looked


def test_the_token_opens_the_page_that_was_asked_for(shown):
    client = shown.serving.browser(accept="text/html")
    form = Looked(client.get("/ops/login?to=/ops/jobs"))
    assert form.one("//input[@name='to']").value == "/ops/jobs"
    assert not form.all("//nav[@aria-label='Operations']")

    answer = client.post("/ops/login", data={"token": f" {TOKEN} ", "to": "/ops/jobs"})

    assert (answer.status_code, answer.headers["location"]) == (303, "/ops/jobs")
    assert client.get("/ops/jobs").status_code == 200
    left = client.post("/ops/logout")
    assert (left.status_code, left.headers["location"]) == (303, "/ops/login")
    assert client.get("/ops/jobs").status_code == 303


def test_a_wrong_token_is_said_on_the_form(shown):
    client = shown.serving.browser(accept="text/html")
    page = Looked(client.post("/ops/login", data={"token": "wrong"}), 403)
    assert page.text("//*[@id='login-line']") == "This is not a token of an operator."
    assert client.get("/ops/").status_code == 303


def test_the_login_keeps_the_query_of_the_page_that_was_asked_for(shown):
    client = shown.serving.browser(accept="text/html")
    asked = "/ops/jobs?status=failed&q=a+b"
    form = Looked(client.get(client.get(asked).headers["location"]))
    to = form.one("//input[@name='to']").value
    assert to == asked
    assert client.post("/ops/login", data={"token": TOKEN, "to": to}).headers["location"] == asked


def test_a_query_that_the_form_cannot_hold_is_left_out(shown):
    answer = shown.serving.browser(accept="text/html").get(f"/ops/jobs?q={'x' * 1000}")
    assert answer.headers["location"] == "/ops/login?to=/ops/jobs"


@pytest.mark.parametrize(
    "to", ["//evil.example", "https://evil.example", "/jobs", "/ops/../x", "/?/ops/", ""]
)
def test_the_login_leads_nowhere_else(shown, to):
    answer = shown.serving.browser().post("/ops/login", data={"token": TOKEN, "to": to})
    assert answer.headers["location"] == "/ops/"


def test_the_theme_is_remembered(shown):
    client = shown.serving.browser(accept="text/html")
    chosen = client.post("/ops/theme", data={"theme": "dark", "back": "/ops/login"})
    assert chosen.headers["location"] == "/ops/login"
    assert Looked(client.get("/ops/login")).one("//html").get("data-theme") == "dark"
