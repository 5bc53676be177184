"""The common parts of every page."""

from tests.http.pages.page_reader import Looked
from tests.http.pages.sample_app import SampleApp


def press(serve, tmp_path):
    return serve(served=SampleApp(tmp_path / "press"))


def test_without_an_apps_part_the_front_page_is_the_rows(serving):
    page = Looked(serving.client.get("/"))

    assert page.text("//h1") == "Your jobs"
    assert "Nothing here yet." in page.text("//*[@id='board']")


def test_an_apps_part_is_above_the_rows_with_its_own_texts(serve, tmp_path):
    serving = press(serve, tmp_path)

    page = Looked(serving.client.get("/"))

    assert page.text("//title") == "Press things · Holdfast"
    assert page.text("//h1") == "Press apples & pears"
    assert page.text("//h2[@id='board-title']") == "Your pressings"
    assert "Press something." in page.text("//*[@id='empty']")
    assert any("/static/demo/press.js" in url for url in page.all("//script/@src"))
    assert any("/static/demo/press.css" in url for url in page.all("//link/@href"))


def test_a_part_without_an_empty_state_shows_none(serve, tmp_path):
    serving = serve(served=SampleApp(tmp_path / "press").without_empty())

    assert Looked(serving.client.get("/")).text("//*[@id='empty']") == ""


def test_statuses_have_the_labels_of_their_app(serve, tmp_path):
    serving = press(serve, tmp_path)
    job_id = serving.enqueue(meta={"filename": "a"})
    serving.work()

    page = Looked(serving.client.get("/"))

    assert "Flat" in page.row(job_id)
    assert "Flat 1" in page.texts("//nav[@aria-label='Filter by status']//a")


def test_a_note_of_the_app_is_shown_once_and_nothing_else_can_be_put_there(serve, tmp_path):
    serving = press(serve, tmp_path)

    def note(key):
        return Looked(serving.client.get("/", params={"note": key})).text("//*[@id='toast']")

    assert note("pressed") == "Pressed."
    assert note("NOT_READY") == "The result is not ready yet; please come back shortly."
    assert note("<b>You have won</b>") == ""
    assert note("__class__") == ""


def test_pages_are_private_and_have_the_strict_policy(serving):
    headers = serving.client.get("/").headers

    assert headers["cache-control"] == "private, no-cache"
    assert headers["vary"] == "HX-Request-Type, Cookie"
    policy = headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "style-src 'self';" in policy
    assert "unsafe" not in policy


def test_no_page_violates_the_content_security_policy(serving):
    job_id = serving.enqueue()
    for path in ("/", f"/jobs/{job_id}", "/jobs/nothing"):
        page = Looked(serving.client.get(path), 403 if "nothing" in path else 200)

        assert page.all("//script[not(@src)] | //style | //*[@style]") == []
        assert page.all("//@*[starts-with(name(), 'on') or starts-with(name(), 'hx-on')]") == []
        assert page.all("//@*[starts-with(., 'javascript:') or starts-with(., 'js:')]") == []


def test_the_theme_is_kept_in_a_cookie_and_works_without_script(serving):
    page = Looked(serving.client.get("/"))
    assert page.one("//html").get("data-theme") == "auto"
    assert page.one("//*[@id='theme-button']").get("value") == "light"

    answer = serving.client.post("/theme", data={"theme": "dark", "back": "/jobs/a-1"})

    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs/a-1")
    assert "SameSite=Lax" in answer.headers["set-cookie"]
    page = Looked(serving.client.get("/"))
    assert page.one("//html").get("data-theme") == "dark"
    assert page.one("//*[@id='theme-button']").get("value") == "auto"


def test_an_unknown_theme_is_the_first_and_does_not_redirect_elsewhere(serving):
    for back in ("https://evil", "//evil", "/\\evil", "/jobs/../x", "javascript:1"):
        answer = serving.client.post("/theme", data={"theme": "<x>", "back": back})

        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "holdfast_theme=auto" in answer.headers["set-cookie"]
    stranger = serving.browser(cookie="holdfast_theme=<script>")
    assert Looked(stranger.get("/")).one("//html").get("data-theme") == "auto"
