"""Dead letters: grouped, counted before they are requeued, selected."""

from functools import partial

from tests.support.waiting import until_sync

from holdfast.errors import Permanent
from holdfast.http.ops import dead_letter_pages


def count(dashboard):
    return dashboard.run(dashboard.engine.stats()).dead_letters


def test_they_are_grouped_by_normalised_error_and_listed(shown):
    page = shown.look("/dead-letters")
    assert page.texts("//tbody/tr/th/a") == ["card <n> was declined by its bank"]
    assert page.texts("//td[@data-label='Count']") == ["3"]
    assert len(page.all("//*[@id='rows']/li")) == 3
    group = page.one("//tbody/tr/th/a").get("href")
    assert len(shown.look(group.removeprefix("/ops")).all("//*[@id='rows']/li")) == 3
    assert not shown.look("/dead-letters?code=OTHER").all("//*[@id='rows']/li")


def test_a_requeue_is_counted_first_and_then_runs_at_its_rate(dashboard):
    question = dashboard.look("/dead-letters/requeue?kind=shop.charge")
    assert question.text("//h1") == "Requeue 3 jobs?"
    assert question.texts("//*[@class='facts']//dd") == ["3", "3"]
    assert question.one("//input[@name='kind']").value == "shop.charge"
    assert count(dashboard) == 3

    begun = dashboard.post("/dead-letters/requeue", kind="shop.charge", rate="1000")

    assert begun == "/dead-letters?note=run-begun"
    until_sync(lambda: count(dashboard) == 0)
    until_sync(
        lambda: "has finished. 3 done" in dashboard.look("/dead-letters").text("//*[@id='run']")
    )


def test_a_slow_requeue_can_be_stopped_and_bars_another(dashboard):
    dashboard.post("/dead-letters/requeue", rate="0.1")
    until_sync(lambda: "is under way" in dashboard.look("/dead-letters").text("//*[@id='run']"))
    twice = dashboard.client.post("/ops/dead-letters/requeue", data={"rate": "1"})
    assert twice.status_code == 409
    assert dashboard.post("/dead-letters/stop") == "/dead-letters?note=run-stopped"
    until_sync(lambda: "was stopped" in dashboard.look("/dead-letters").text("//*[@id='run']"))
    assert count(dashboard) > 0


def test_all_that_match_are_discarded_after_a_count(dashboard):
    assert dashboard.look("/dead-letters/discard?code=OTHER").text("//h1") == "Discard 0 jobs?"
    assert dashboard.look("/dead-letters/discard").text("//h1") == "Discard 3 jobs?"
    assert dashboard.post("/dead-letters/discard", code="CARD_DECLINED").endswith("note=run-begun")
    until_sync(lambda: count(dashboard) == 0)
    until_sync(lambda: "Discard of 3" in dashboard.look("/dead-letters").text("//*[@id='run']"))
    log = dashboard.look("/audit").text("//tbody/tr[1]")
    assert "dead-letters.discard" in log
    assert '"total": 3' in log


def test_selected_ones_are_requeued_or_discarded(dashboard):
    one = dashboard.ids["charge"]
    assert dashboard.post("/dead-letters/selected/requeue").endswith("note=nothing-selected")
    requeued = dashboard.post("/dead-letters/selected/requeue", id=[one, one])
    assert dashboard.look(requeued).text("//*[@id='toast']") == "1 requeued."
    assert count(dashboard) == 2
    boxes = dashboard.look("/dead-letters").all("//*[@id='rows']//input[@name='id']")
    ids = [box.get("value") for box in boxes]
    question = dashboard.ask("/dead-letters/selected/discard", id=ids)
    assert question.text("//h1") == "Discard 2 jobs?"
    assert [field.value for field in question.all("//input[@name='id']")] == ids
    dashboard.post("/dead-letters/selected/discard", id=ids, confirmed="1")
    assert count(dashboard) == 0


def audited(dashboard):
    entries = dashboard.run(dashboard.engine.audit.list()).entries
    return [(entry.action, entry.target) for entry in entries]


def test_selected_ones_that_are_skipped_are_counted_and_not_audited(dashboard):
    letters, _ = dashboard.run(dashboard.engine.dead_letters.list())
    gone, refused, one = (letter.job.id for letter in letters)
    dashboard.run(dashboard.engine.dead_letters.discard(gone))

    @dashboard.serving.served.jobs["shop.charge"].before_retry
    def refuse(job):
        if job.id == refused:
            raise Permanent("CARD_EXPIRED")

    ids = [gone, refused, one, "no\0where"]
    requeued = dashboard.post("/dead-letters/selected/requeue", id=ids)
    discarded = dashboard.post("/dead-letters/selected/discard", id=ids, confirmed="1")

    assert dashboard.look(requeued).text("//*[@id='toast']") == "1 requeued, 3 skipped."
    assert dashboard.look(discarded).text("//*[@id='toast']") == "1 discarded, 3 skipped."
    assert audited(dashboard) == [("dead-letters.discard", refused), ("dead-letters.requeue", one)]
    assert dashboard.run(dashboard.engine.get(gone)).status == "failed"


def test_a_question_about_a_discard_asks_no_app(dashboard):
    @dashboard.serving.served.jobs["shop.charge"].before_retry
    def refuse(job):
        raise AssertionError("a discard is no retry")

    assert dashboard.look("/dead-letters/discard").text("//h1") == "Discard 3 jobs?"


def test_a_filter_says_how_far_back_it_looked(shown, monkeypatch):
    assert not shown.look("/dead-letters?error=nowhere").texts("//*[@class='scope']")
    store = shown.engine.store
    search = store.search_dead_letters
    monkeypatch.setattr(store, "search_dead_letters", partial(search, window=2))

    page = shown.look("/dead-letters?error=nowhere")

    assert "Looked at the newest 2,000 dead letters" in page.text("//*[@class='scope']")
    older = page.one("//nav[@class='paging']/a").get("href").removeprefix("/ops")
    assert not shown.look(older).texts("//*[@class='scope']")
    found = shown.serving.admin().get("/api/dead-letters?errorText=nowhere").json()
    assert (found["complete"], found["deadLetters"]) == (False, [])
    assert found["searchedFrom"].endswith("Z")


def test_the_largest_groups_of_the_filter_are_listed(shown, monkeypatch):
    groups = "//*[@aria-labelledby='groups-title']//tbody/tr"
    for query, count in (("kind=shop.charge", 1), ("kind=shop.mail", 0), ("code=TIMEOUT", 0)):
        assert len(shown.look(f"/dead-letters?{query}").texts(groups)) == count

    monkeypatch.setattr(dead_letter_pages, "_MOST_GROUPS", 0)
    page = shown.look("/dead-letters")
    assert "The 0 largest groups" in page.text("//*[@class='scope']")
