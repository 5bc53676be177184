"""The page itself: keys, filter, live updates that are never in the way, widths, no scripts."""

import re

from playwright.sync_api import expect
from tests.browser.seeing import PHONE, pdf

HOSTILE = [
    'a "quoted" <script>alert(1)<\\script> name.pdf',
    "x" * 5000 + ".pdf",
    "مستند عربي طويل جدا بلا نهاية ولا بداية.pdf",
    "🎉" * 80 + ".pdf",
    "no-space-" * 40 + "{{ 7*7 }}.pdf",
]


def focused(seen):
    return seen.page.evaluate("document.activeElement.id || document.activeElement.tagName")


# -- rows ------------------------------------------------------------------------------------------


def test_a_failed_job_is_retried_by_its_button(seen, chaos):
    chaos("fail")
    seen.upload("unlucky.pdf")
    seen.expect_status("unlucky.pdf", "Failed")
    expect(seen.row("unlucky.pdf")).to_contain_text("Attempt 3 of 3")
    expect(seen.row("unlucky.pdf")).to_contain_text("The service ran into a problem of its own.")
    chaos()

    seen.button("unlucky.pdf", "Retry").click()

    seen.expect_status("unlucky.pdf", "Ready")
    expect(seen.page.locator("#toast")).to_contain_text("Back in the queue")
    # The button is gone; the keyboard is still at its row.
    assert focused(seen).startswith("name-")


def test_a_running_job_is_cancelled_by_its_button(seen, chaos):
    chaos("hang")
    seen.upload("regretted.pdf")
    seen.expect_status("regretted.pdf", "Converting")

    seen.button("regretted.pdf", "Cancel").click()

    seen.expect_status("regretted.pdf", "Cancelled")
    expect(seen.row("regretted.pdf").get_by_role("button")).to_have_count(0)


def test_what_another_tab_does_is_seen_here(see):
    here = see()
    there = here.context.new_page()
    there.goto(here.service.url)

    here.upload("shared.pdf")

    expect(there.locator("#rows > .row", has_text="shared.pdf").locator(".status")).to_have_text(
        "Ready"
    )


def test_a_jobs_page_follows_it_live(seen, frozen):
    page = seen.page
    with frozen():
        seen.upload("watched.pdf")
        seen.expect_status("watched.pdf", "Converting")
        seen.row("watched.pdf").get_by_role("link", name="watched.pdf", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("watched.pdf")
        expect(page.locator(".step")).to_contain_text("Attempt 1 · Running now")

    expect(page.locator(".step")).to_contain_text("Attempt 1 · Succeeded")
    expect(page.locator(".job-head .status")).to_have_text("Ready")
    assert "UTC" not in page.locator(".events").inner_text()
    page.get_by_role("link", name="All your conversions").click()
    seen.expect_status("watched.pdf", "Ready")


# -- filter ----------------------------------------------------------------------------------------


def test_the_filter_is_in_the_address_and_going_back_undoes_it(seen):
    seen.allow_refusals()
    seen.upload("kept.pdf", ("refused.pdf", b"no"))
    seen.expect_status("kept.pdf", "Ready")
    seen.expect_status("refused.pdf", "Failed")
    page = seen.page
    page.evaluate("window.here = true")

    page.get_by_role("link", name="Failed 1").click()

    expect(seen.row("kept.pdf")).to_have_count(0)
    expect(seen.row("refused.pdf")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"/\?status=failed$"))
    expect(page.locator("#filter-failed")).to_be_focused()
    page.go_back()
    expect(seen.row("kept.pdf")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"/$"))
    page.go_forward()
    expect(seen.row("kept.pdf")).to_have_count(0)
    assert page.evaluate("window.here") is True
    page.reload()
    expect(seen.row("refused.pdf")).to_have_count(1)
    expect(seen.row("kept.pdf")).to_have_count(0)
    expect(page.locator("#filter-failed")).to_have_attribute("aria-current", "true")


# -- never in the way ------------------------------------------------------------------------------


def test_updates_keep_focus_choice_and_selection(seen):
    page = seen.page
    seen.upload("first.pdf")
    seen.expect_status("first.pdf", "Ready")
    page.get_by_role("radio", name="Text").check()
    link = seen.row("first.pdf").get_by_role("link", name="Download")
    link.focus()
    page.evaluate(
        """() => {
             const text = document.querySelector("#rows bdi").firstChild;
             getSelection().setBaseAndExtent(text, 0, text, 5);
             window.row = document.querySelector("#rows > .row");
           }"""
    )

    seen.upload_beside("second.pdf")

    seen.expect_status("second.pdf", "Ready")
    assert page.evaluate("getSelection().toString()") == "first"
    expect(link).to_be_focused()
    expect(page.get_by_role("radio", name="Text")).to_be_checked()
    assert page.evaluate("window.row.isConnected && window.row.id") == page.evaluate(
        "document.querySelectorAll('#rows > .row')[1].id"
    )


def test_updates_leave_an_open_dialog_open(seen):
    page = seen.page
    seen.upload("first.pdf")
    seen.expect_status("first.pdf", "Ready")
    page.keyboard.press("j")
    page.keyboard.press("?")
    page.keyboard.press("Tab")
    inside = focused(seen)

    seen.upload_beside("second.pdf")

    seen.expect_status("second.pdf", "Ready")
    expect(page.locator("#help")).to_be_visible()
    assert focused(seen) == inside
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    assert focused(seen).startswith("name-")


def test_a_page_has_one_stream(see, service):
    seen = see("/healthz")
    streams = []
    seen.page.on(
        "request", lambda request: "/api/events" in request.url and streams.append(request)
    )
    seen.page.goto(service.url)
    expect(seen.page.locator("#pause")).to_have_text("Live")

    seen.upload("streamed.pdf")
    seen.expect_status("streamed.pdf", "Ready")

    assert len(streams) == 1


def test_live_updates_are_paused_and_go_on(seen):
    page = seen.page
    pause = page.locator("#pause")
    expect(pause).to_have_text("Live")
    page.keyboard.press("r")
    expect(pause).to_have_text("Paused")
    expect(pause).to_have_attribute("aria-pressed", "true")

    seen.upload_beside("meanwhile.pdf")

    expect(pause).to_have_text(re.compile(r"Paused · \d changes?"))
    assert seen.row("meanwhile.pdf").count() == 0
    pause.click()
    seen.expect_status("meanwhile.pdf", "Ready")
    expect(pause).to_have_text("Live")


def test_a_page_that_nobody_sees_closes_its_stream_and_comes_back_up_to_date(seen):
    page = seen.page
    expect(page.locator("#pause")).to_have_text("Live")
    hide = """hidden => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""

    def is_stream(request):
        return "/api/events" in request.url

    with page.expect_event("requestfailed", is_stream):
        page.evaluate(hide, True)
    seen.upload_beside("unseen.pdf")
    seen.service.until(lambda: seen.jobs()[0]["status"] == "complete")
    assert seen.row("unseen.pdf").count() == 0

    page.evaluate(hide, False)

    seen.expect_status("unseen.pdf", "Ready")


def test_where_the_stream_does_not_open_the_page_asks_from_time_to_time(see, service):
    seen = see("/healthz")
    seen.allow_refusals()
    refused = {"status": 429, "json": {"error": {"code": "RATE_LIMITED", "message": "No."}}}
    seen.page.route("**/api/events*", lambda route: route.fulfill(**refused))
    seen.page.goto(service.url)
    expect(seen.page.locator("#pause")).to_have_text("Checking")

    seen.upload_beside("asked for.pdf")

    seen.expect_status("asked for.pdf", "Ready")
    assert "RATE_LIMITED" not in seen.page.content()


# -- keys ------------------------------------------------------------------------------------------


def test_keys_move_between_rows_open_help_and_destroy_nothing(seen, chaos):
    page = seen.page
    seen.upload("a.pdf", "b.pdf")
    expect(page.locator("#rows .status", has_text="Ready")).to_have_count(2)
    chaos("hang")
    seen.upload("c.pdf")
    seen.expect_status("c.pdf", "Converting")
    names = [link.get_attribute("id") for link in page.locator("a.row-name").all()]

    seen_ids = []
    for key in ("j", "j", "k", "j", "j", "j", "k"):
        page.keyboard.press(key)
        seen_ids.append(names.index(focused(seen)))
    assert seen_ids == [0, 1, 0, 1, 2, 2, 1]
    page.keyboard.press("/")
    expect(page.locator("#filter-all")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    page.evaluate(
        "document.getElementById('file').onclick = () => { window.asked = true; return false; }"
    )
    page.keyboard.press("u")
    page.wait_for_function("window.asked")
    page.keyboard.press("j")
    for key in (*"abcdefghilmnopqstvwxyz0123456789", "Delete", "Backspace"):
        page.keyboard.press(key)
    statuses = [job["status"] for job in seen.jobs()]
    assert statuses == ["processing", "complete", "complete"]
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("c.pdf")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".status")).to_have_text("Cancelled")


def test_keys_can_be_turned_off_and_stay_off(seen):
    page = seen.page
    page.keyboard.press("?")
    page.locator("#keys-on").uncheck()
    page.keyboard.press("Escape")

    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_hidden()
    page.reload()
    expect(page.locator("#pause")).to_have_text("Live")
    page.keyboard.press("r")
    expect(page.locator("#pause")).to_have_text("Live")
    page.get_by_role("button", name="Keyboard shortcuts").click()
    expect(page.locator("#keys-on")).not_to_be_checked()


def test_everything_is_reached_by_tab_and_done_by_enter(seen, chaos):
    page = seen.page
    chaos("hang")
    seen.upload("by keyboard.pdf")
    seen.expect_status("by keyboard.pdf", "Converting")
    job_id = seen.jobs()[0]["id"]
    page.locator("body").focus()
    reached = []
    for _ in range(25):
        page.keyboard.press("Tab")
        reached.append(focused(seen))
        if reached[-1] == f"do-cancel-{job_id}":
            break
    for wanted in ("pause", "theme-button", "help-button", "file", "filter-all", f"name-{job_id}"):
        assert wanted in reached, (wanted, reached)
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"

    page.keyboard.press("Enter")

    seen.expect_status("by keyboard.pdf", "Cancelled")


# -- looks -----------------------------------------------------------------------------------------


def test_a_phone_shows_all_of_it_whatever_the_files_are_called(see):
    seen = see(viewport=PHONE)
    seen.upload(*[(name, pdf(str(number))) for number, name in enumerate(HOSTILE)])
    expect(seen.page.locator("#rows .status", has_text="Ready")).to_have_count(len(HOSTILE))

    assert seen.overflow() == 0
    tall = seen.page.evaluate(
        "Math.max(...[...document.querySelectorAll('#rows > .row')].map(row => row.offsetHeight))"
    )
    assert tall < 250
    small = seen.page.evaluate(
        """() => [...document.querySelectorAll("a, button, .button, .mapping")]
             .filter(node => node.checkVisibility() && !node.closest(".skip, dialog"))
             .map(node => node.getBoundingClientRect())
             .filter(box => box.height < 24 || box.width < 24).length"""
    )
    assert small == 0
    for link in seen.page.locator("a.row-name").all()[:2]:
        href = link.get_attribute("href")
        other = seen.context.new_page()
        other.goto(seen.service.url + href)
        assert other.evaluate("document.documentElement.scrollWidth <= innerWidth")
        other.close()


def test_the_theme_follows_the_system_until_it_is_chosen(see):
    seen = see(color_scheme="dark")
    page = seen.page
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    assert dark != light
    button = page.locator("#theme-button")
    button.click()
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) == light
    button.click()
    page.emulate_media(color_scheme="light")
    page.reload()

    assert page.evaluate(ground) == dark


def test_who_wants_less_motion_gets_none(see, frozen):
    moving = "document.getAnimations().length"
    seen = see()
    with frozen():
        seen.upload("moving.pdf")
        seen.expect_status("moving.pdf", "Converting")
        assert seen.page.evaluate(moving) > 0

        seen.page.emulate_media(reduced_motion="reduce")

        assert seen.page.evaluate(moving) == 0


# -- without scripts -------------------------------------------------------------------------------


def test_without_htmx_uploads_have_their_bar_and_the_page_is_loaded_anew(see, service):
    seen = see("/healthz", allow=("net::ERR_FAILED",))
    seen.page.route("**/static/h*x*.min.js*", lambda route: route.abort())
    seen.page.goto(service.url)
    expect(seen.page.locator("#pause")).to_be_hidden()

    seen.upload("old-fashioned.pdf", "twice.pdf")

    expect(seen.row("old-fashioned.pdf")).to_have_count(1)
    expect(seen.row("twice.pdf")).to_have_count(1)
    seen.service.until(lambda: {job["status"] for job in seen.jobs()} == {"complete"})
    seen.page.reload()
    seen.expect_status("twice.pdf", "Ready")


def test_all_of_it_works_without_scripts(see, chaos):
    seen = see(java_script_enabled=False)
    page = seen.page
    page.set_input_files("#file", [seen.file("plain.pdf")])
    page.get_by_role("radio", name="Text").check()
    page.get_by_role("button", name="Convert", exact=True).click()
    expect(page.locator("#toast")).to_contain_text("Uploaded.")
    seen.service.until(lambda: seen.jobs()[0]["status"] == "complete")
    page.get_by_role("link", name="Refresh").click()
    seen.expect_status("plain.pdf", "Ready")
    with page.expect_download() as downloading:
        seen.row("plain.pdf").get_by_role("link", name="Download").click()
    assert b"plain" in downloading.value.path().read_bytes()
    chaos("hang")
    page.get_by_role("radio", name="Layout").check()
    page.set_input_files("#file", [seen.file("second.pdf")])
    page.get_by_role("button", name="Convert", exact=True).click()
    seen.button("second.pdf", "Cancel").click()
    seen.service.until(lambda: seen.jobs()[0]["status"] == "cancelled")
    page.get_by_role("link", name="Cancelled").click()
    seen.expect_status("second.pdf", "Cancelled")
    page.locator("#theme-button").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
