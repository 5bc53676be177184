"""Pages of an app's own: rendered in the common frame, joined by the navigation."""

import pytest
from tests.http.live_server import Order
from tests.http.pages.page_reader import Looked
from tests.http.pages.papers_app import PapersApp
from tests.http.pages.sample_app import SampleApp

from holdfast.http import Look, NavItem
from holdfast.http.pages.own_pages import OwnPages
from holdfast.http.pages.renderer import Renderer

HTMX = {"hx-request": "true", "hx-request-type": "partial"}


@pytest.fixture
def papers(tmp_path):
    return PapersApp(tmp_path / "papers")


@pytest.fixture
def serving(serve, tmp_path, papers):
    return serve(served=SampleApp(tmp_path / "sample"), others=[papers])


def look(serving, path):
    return Looked(serving.client.get(path, headers={"accept": "text/html"}))


def links(page):
    return [
        (each.text, each.get("href"), each.get("aria-current"))
        for each in page.all("//nav[@aria-label='Apps']//a")
    ]


def test_the_navigation_joins_all_apps_and_marks_the_current_page(serving):
    front, own, search = ("Pressings", "/"), ("Papers", "/papers"), ("Search", "/papers/search")

    assert links(look(serving, "/")) == [(*front, "page"), (*own, None), (*search, None)]
    assert links(look(serving, "/papers")) == [(*front, None), (*own, "page"), (*search, None)]
    assert links(look(serving, "/papers/7")) == [(*front, None), (*own, "true"), (*search, None)]
    assert links(look(serving, "/papers/search"))[2] == (*search, "page")


def test_without_pages_of_apps_there_is_no_navigation(serve):
    assert links(look(serve(), "/")) == []


def test_a_page_of_an_app_is_rendered_in_the_frame_and_escaped(serving):
    page = look(serving, "/papers")

    assert page.one("//title").text == "Papers · Holdfast"
    assert page.one("//section[@id='board']/p").text == "<b>"
    assert serving.client.get(page.one("//link[contains(@href, 'papers.css')]").get("href")).text


def test_htmx_gets_the_part_alone_and_the_note_beside_it(serving):
    answer = serving.client.get("/papers/7", headers=HTMX)

    assert answer.text.startswith('<section id="board">')
    assert '"text": "7"' in answer.headers["hx-trigger"]


def test_the_theme_is_chosen_on_the_page_of_an_app(serving):
    page = look(serving, "/papers/7")
    back = page.one("//form[@id='theme-form']/input[@name='back']").get("value")
    answer = serving.client.post(
        "/theme", data={"theme": "dark", "back": back}, follow_redirects=False
    )

    assert answer.headers["location"] == "/papers/7"


@pytest.mark.parametrize("back", ["//evil.example", "/\\evil", "https://evil", "/a//b", "/é"])
def test_the_theme_leads_to_no_other_server(serving, back):
    answer = serving.client.post("/theme", data={"back": back}, follow_redirects=False)

    assert answer.headers["location"] == "/"


def test_jobs_of_an_app_with_pages_of_its_own_are_not_on_the_front_page(serving):
    owner = serving.owner()
    own = serving.run(serving.engine.enqueue("papers.read", Order(), owner=owner)).id
    common = serving.enqueue()

    page = look(serving, "/")
    assert [row.get("id") for row in page.all("//li[@class='row']")] == [f"job-{common}"]
    assert "1" in page.one("//a[@id='filter-all']/span").text
    assert look(serving, f"/jobs/{own}").one("//h1") is not None


def test_where_no_app_is_on_the_front_page_it_leads_to_the_first_of_the_navigation(serve, papers):
    serving = serve(served=papers)
    answer = serving.client.get("/", follow_redirects=False)

    assert (answer.status_code, answer.headers["location"]) == (307, "/papers")
    assert [label for label, _, _ in links(look(serving, "/papers"))] == ["Papers", "Search"]


def test_an_app_without_pages_keeps_its_jobs_on_the_front_page(serve, papers):
    serving = serve(others=[papers])
    job = serving.enqueue()

    assert look(serving, "/").one(f"//li[@id='job-{job}']") is not None


@pytest.mark.parametrize("path", ["/", "papers", "//papers", ""])
def test_an_item_of_the_navigation_is_a_path_below_the_front_page(path):
    with pytest.raises(ValueError, match="path"):
        NavItem("Papers", path)


def test_an_app_shows_jobs_and_their_attempts_as_the_front_page_does(serving):
    held = serving.run(serving.engine.enqueue("papers.read", Order()))
    job = serving.run(serving.engine.get(held.id))
    pages = OwnPages(Renderer(serving.state), "papers")

    shown = serving.run(pages.jobs([job]))

    assert (shown.rows[job.id].label, shown.rows[job.id].look) == ("Queued", Look.QUEUED)
    assert shown.now > job.created_at - 60
    assert serving.run(pages.jobs([])).rows == {}
    assert serving.run(pages.steps(job)) == []
    serving.work()
    (step,) = serving.run(pages.steps(job))
    assert (step.title, step.outcome) == ("Attempt 1", "Succeeded")


def test_the_front_page_has_no_banner_for_what_only_other_pages_call(serving):
    serving.run(serving.engine.downstreams.hold("shelf"))
    assert look(serving, "/").all("//p[@role='alert']") == []

    serving.run(serving.engine.downstreams.hold("mill"))
    assert "Mill busy" in look(serving, "/").text("//p[@role='alert']")
