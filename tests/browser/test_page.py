"""The page: keyboard, filter, live updates, widths, and no JavaScript."""

import re

from playwright.sync_api import expect
from tests.browser.page_session import PHONE, pdf

HOSTILE = [
    'a "quoted" <script>alert(1)<\\script> name.pdf',
    "x" * 5000 + ".pdf",
    "مستند عربي طويل جدا بلا نهاية ولا بداية.pdf",
    "🎉" * 80 + ".pdf",
    "no-space-" * 40 + "{{ 7*7 }}.pdf",
]


def focused(session):
    return session.page.evaluate("document.activeElement.id || document.activeElement.tagName")


# -- rows ------------------------------------------------------------------------------------------


def test_a_failed_job_is_retried_by_its_button(session, chaos):
    chaos("fail")
    session.upload("unlucky.pdf")
    session.expect_status("unlucky.pdf", "Failed")
    expect(session.row("unlucky.pdf")).to_contain_text("Attempt 3 of 3")
    expect(session.row("unlucky.pdf")).to_contain_text("Converter service is having an issue.")
    chaos()

    session.button("unlucky.pdf", "Retry").click()

    session.expect_status("unlucky.pdf", "Ready")
    expect(session.page.locator("#toast")).to_contain_text("Back in the queue")
    # The button has disappeared; the focus stays in its row.
    assert focused(session).startswith("name-")


def test_a_running_job_is_cancelled_by_its_button(session, chaos):
    chaos("hang")
    session.upload("regretted.pdf")
    session.expect_status("regretted.pdf", "Converting")

    session.button("regretted.pdf", "Cancel").click()

    session.expect_status("regretted.pdf", "Cancelled")
    expect(session.row("regretted.pdf").get_by_role("button")).to_have_count(0)


def test_changes_of_another_tab_are_shown(open_session):
    here = open_session()
    there = here.context.new_page()
    there.goto(here.service.url)

    here.upload("shared.pdf")

    expect(there.locator("#rows > .row", has_text="shared.pdf").locator(".status")).to_have_text(
        "Ready"
    )


def test_a_jobs_page_follows_it_live(session, frozen):
    page = session.page
    with frozen():
        session.upload("watched.pdf")
        session.expect_status("watched.pdf", "Converting")
        session.row("watched.pdf").get_by_role("link", name="watched.pdf", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("watched.pdf")
        expect(page.locator(".step")).to_contain_text("Attempt 1 · Running now")

    expect(page.locator(".step")).to_contain_text("Attempt 1 · Succeeded")
    expect(page.locator(".job-head .status")).to_have_text("Ready")
    assert "UTC" not in page.locator(".events").inner_text()
    page.get_by_role("link", name="All your conversions").click()
    session.expect_status("watched.pdf", "Ready")


# -- filter ----------------------------------------------------------------------------------------


def test_the_filter_is_in_the_address_and_going_back_undoes_it(session):
    session.allow_refusals()
    session.upload("kept.pdf", ("refused.pdf", b"no"))
    session.expect_status("kept.pdf", "Ready")
    session.expect_status("refused.pdf", "Failed")
    page = session.page
    page.evaluate("window.here = true")

    page.get_by_role("link", name="Failed 1").click()

    expect(session.row("kept.pdf")).to_have_count(0)
    expect(session.row("refused.pdf")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"/\?status=failed$"))
    expect(page.locator("#filter-failed")).to_be_focused()
    page.go_back()
    expect(session.row("kept.pdf")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"/$"))
    page.go_forward()
    expect(session.row("kept.pdf")).to_have_count(0)
    assert page.evaluate("window.here") is True
    page.reload()
    expect(session.row("refused.pdf")).to_have_count(1)
    expect(session.row("kept.pdf")).to_have_count(0)
    expect(page.locator("#filter-failed")).to_have_attribute("aria-current", "true")


# -- never in the way ------------------------------------------------------------------------------


def test_updates_keep_focus_choice_and_selection(session):
    page = session.page
    session.upload("first.pdf")
    session.expect_status("first.pdf", "Ready")
    page.get_by_role("radio", name="Text").check()
    link = session.row("first.pdf").get_by_role("link", name="Download")
    link.focus()
    page.evaluate(
        """() => {
             const text = document.querySelector("#rows bdi").firstChild;
             getSelection().setBaseAndExtent(text, 0, text, 5);
             window.row = document.querySelector("#rows > .row");
           }"""
    )

    session.upload_beside("second.pdf")

    session.expect_status("second.pdf", "Ready")
    assert page.evaluate("getSelection().toString()") == "first"
    expect(link).to_be_focused()
    expect(page.get_by_role("radio", name="Text")).to_be_checked()
    assert page.evaluate("window.row.isConnected && window.row.id") == page.evaluate(
        "document.querySelectorAll('#rows > .row')[1].id"
    )


def test_updates_leave_an_open_dialog_open(session):
    page = session.page
    session.upload("first.pdf")
    session.expect_status("first.pdf", "Ready")
    page.keyboard.press("j")
    page.keyboard.press("?")
    page.keyboard.press("Tab")
    inside = focused(session)

    session.upload_beside("second.pdf")

    session.expect_status("second.pdf", "Ready")
    expect(page.locator("#help")).to_be_visible()
    assert focused(session) == inside
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    assert focused(session).startswith("name-")


def test_a_page_has_one_stream(open_session, service):
    session = open_session("/healthz")
    streams = []
    session.page.on(
        "request", lambda request: "/api/events" in request.url and streams.append(request)
    )
    session.page.goto(service.url)
    expect(session.page.locator("#pause")).to_have_text("Live")

    session.upload("streamed.pdf")
    session.expect_status("streamed.pdf", "Ready")

    assert len(streams) == 1


def test_live_updates_are_paused_and_go_on(session):
    page = session.page
    pause = page.locator("#pause")
    expect(pause).to_have_text("Live")
    page.keyboard.press("r")
    expect(pause).to_have_text("Paused")
    expect(pause).to_have_attribute("aria-pressed", "true")

    session.upload_beside("meanwhile.pdf")

    expect(pause).to_have_text(re.compile(r"Paused · \d changes?"))
    assert session.row("meanwhile.pdf").count() == 0
    pause.click()
    session.expect_status("meanwhile.pdf", "Ready")
    expect(pause).to_have_text("Live")


def test_a_hidden_page_closes_its_stream_and_is_current_when_shown_again(session):
    page = session.page
    expect(page.locator("#pause")).to_have_text("Live")
    hide = """hidden => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""

    def is_stream(request):
        return "/api/events" in request.url

    with page.expect_event("requestfailed", is_stream):
        page.evaluate(hide, True)
    page.wait_for_load_state("networkidle")  # an update asked for before may still be answered
    session.upload_beside("unseen.pdf")
    session.service.until(lambda: session.jobs()[0]["status"] == "complete")
    assert session.row("unseen.pdf").count() == 0

    page.evaluate(hide, False)

    session.expect_status("unseen.pdf", "Ready")


def test_where_the_stream_does_not_open_the_page_asks_from_time_to_time(open_session, service):
    session = open_session("/healthz")
    session.allow_refusals()
    refused = {"status": 429, "json": {"error": {"code": "RATE_LIMITED", "message": "No."}}}
    session.page.route("**/api/events*", lambda route: route.fulfill(**refused))
    session.page.goto(service.url)
    expect(session.page.locator("#pause")).to_have_text("Checking")

    session.upload_beside("asked for.pdf")

    session.expect_status("asked for.pdf", "Ready")
    assert "RATE_LIMITED" not in session.page.content()


# -- the user's clicks come first ------------------------------------------------------------------


def update_board(session):
    """Do what an event of the stream does: ask for the board."""
    session.page.evaluate("htmx.trigger('#board', 'refresh')")


def begin_update(session, held):
    """Let an update be in flight: this one, or one of the page's own that was sent before it."""
    update_board(session)
    session.service.until(lambda: session.page.evaluate("1") and held)


def filtered_session(open_session):
    """A session with one job, opened at a filter that leaves it out."""
    session = open_session("/healthz")
    session.upload_beside("first.pdf")
    session.service.until(lambda: session.jobs()[0]["status"] == "complete")
    session.page.goto(session.service.url + "/?status=failed")
    expect(session.page.locator("#pause")).to_have_text("Live")
    return session


def test_a_click_is_followed_while_live_updates_are_in_flight(open_session):
    session = filtered_session(open_session)
    page = session.page
    with session.held_updates() as held:
        begin_update(session, held)
        update_board(session)  # waits for the first
        page.locator("#filter-all").click()
        update_board(session)  # and one that comes after the click

        session.expect_status("first.pdf", "Ready")

    session.upload_beside("second.pdf")
    session.expect_status("second.pdf", "Ready")
    session.expect_status("first.pdf", "Ready")
    expect(page).to_have_url(re.compile(r"/$"))
    expect(page.locator("#filter-all")).to_have_attribute("aria-current", "true")


def test_a_click_is_followed_whose_link_is_gone_before_its_turn(open_session):
    session = filtered_session(open_session)
    page = session.page
    first = []

    def hold(route):
        first.append(route)

    page.route(re.compile("status=complete"), hold)
    with session.held_updates():
        page.locator("#filter-complete").click()
        page.get_by_role("link", name="Show all").click()  # waits for the first click's answer
        session.service.until(lambda: page.evaluate("1") and first)
        update_board(session)  # sent between the two
        first[0].continue_()
        expect(page.locator("#filter-all")).to_have_attribute("aria-current", "true")

    session.upload_beside("second.pdf")
    session.expect_status("second.pdf", "Ready")
    expect(page.locator("#filter-all")).to_have_attribute("aria-current", "true")
    expect(page).to_have_url(re.compile(r"/$"))


def test_going_back_is_followed_while_live_updates_are_in_flight(open_session):
    session = filtered_session(open_session)
    page = session.page
    page.locator("#filter-all").click()
    session.expect_status("first.pdf", "Ready")
    with session.held_updates() as held:
        begin_update(session, held)
        page.go_back()
        update_board(session)

        expect(page.locator("#filter-failed")).to_have_attribute("aria-current", "true")

    expect(session.row("first.pdf")).to_have_count(0)


def test_a_button_is_followed_while_live_updates_are_in_flight(session, chaos):
    chaos("hang")
    session.upload("regretted.pdf")
    session.expect_status("regretted.pdf", "Converting")
    with session.held_updates() as held:
        begin_update(session, held)
        session.button("regretted.pdf", "Cancel").click()
        update_board(session)

        session.service.until(lambda: session.jobs()[0]["status"] == "cancelled")

    session.expect_status("regretted.pdf", "Cancelled")


def test_an_update_between_press_and_release_of_the_mouse_waits_for_the_click(session, chaos):
    page = session.page
    chaos("hang")
    session.upload("regretted.pdf")
    session.expect_status("regretted.pdf", "Converting")
    session.button("regretted.pdf", "Cancel").hover()
    page.mouse.down()
    # The new row takes the place of the old one, under the pointer.
    with page.expect_event("requestfinished", session.is_update):
        session.upload_beside("second.pdf")

    page.mouse.up()

    session.expect_status("regretted.pdf", "Cancelled")
    session.expect_status("second.pdf", "Converting")
    session.button("second.pdf", "Cancel").click()
    session.expect_status("second.pdf", "Cancelled")


def test_a_refused_click_is_followed_by_the_update_that_it_held_up(open_session):
    session = filtered_session(open_session)
    session.allow_refusals()
    page = session.page
    page.route(re.compile(r"/$"), lambda route: route.fulfill(status=503, content_type="text/html"))
    with session.held_updates() as held:
        begin_update(session, held)
        session.upload_beside("second.pdf")
        with page.expect_response(re.compile(r"/$")):
            page.locator("#filter-all").click()

    expect(page.locator("#filter-complete .count")).to_have_text("2")


# -- keys ------------------------------------------------------------------------------------------


def test_keys_move_between_rows_open_help_and_destroy_nothing(session, chaos):
    page = session.page
    session.upload("a.pdf", "b.pdf")
    expect(page.locator("#rows .status", has_text="Ready")).to_have_count(2)
    chaos("hang")
    session.upload("c.pdf")
    session.expect_status("c.pdf", "Converting")
    names = [link.get_attribute("id") for link in page.locator("a.row-name").all()]

    seen_ids = []
    for key in ("j", "j", "k", "j", "j", "j", "k"):
        page.keyboard.press(key)
        seen_ids.append(names.index(focused(session)))
    assert seen_ids == [0, 1, 0, 1, 2, 2, 1]
    page.keyboard.press("/")
    expect(page.locator("#finder-text")).to_be_focused()
    page.keyboard.press("Tab")
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
    statuses = [job["status"] for job in session.jobs()]
    assert statuses == ["processing", "complete", "complete"]
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("c.pdf")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".status")).to_have_text("Cancelled")


def test_keys_can_be_turned_off_and_stay_off(session):
    page = session.page
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


def test_everything_is_reached_by_tab_and_done_by_enter(session, chaos):
    page = session.page
    chaos("hang")
    session.upload("by keyboard.pdf")
    session.expect_status("by keyboard.pdf", "Converting")
    job_id = session.jobs()[0]["id"]
    page.locator("body").focus()
    reached = []
    for _ in range(25):
        page.keyboard.press("Tab")
        reached.append(focused(session))
        if reached[-1] == f"do-cancel-{job_id}":
            break
    for wanted in ("pause", "theme-button", "help-button", "file", "filter-all", f"name-{job_id}"):
        assert wanted in reached, (wanted, reached)
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"

    page.keyboard.press("Enter")

    session.expect_status("by keyboard.pdf", "Cancelled")


# -- looks -----------------------------------------------------------------------------------------


def test_a_phone_shows_the_whole_page_even_with_long_file_names(open_session):
    session = open_session(viewport=PHONE)
    session.upload(*[(name, pdf(str(number))) for number, name in enumerate(HOSTILE)])
    expect(session.page.locator("#rows .status", has_text="Ready")).to_have_count(len(HOSTILE))

    assert session.overflow() == 0
    tall = session.page.evaluate(
        "Math.max(...[...document.querySelectorAll('#rows > .row')].map(row => row.offsetHeight))"
    )
    assert tall < 250
    small = session.page.evaluate(
        """() => [...document.querySelectorAll("a, button, .button, .mapping")]
             .filter(node => node.checkVisibility() && !node.closest(".skip, dialog"))
             .map(node => node.getBoundingClientRect())
             .filter(box => box.height < 24 || box.width < 24).length"""
    )
    assert small == 0
    for link in session.page.locator("a.row-name").all()[:2]:
        href = link.get_attribute("href")
        other = session.context.new_page()
        other.goto(session.service.url + href)
        assert other.evaluate("document.documentElement.scrollWidth <= innerWidth")
        other.close()


def test_the_theme_follows_the_system_until_it_is_chosen(open_session):
    session = open_session(color_scheme="dark")
    page = session.page
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


def test_reduced_motion_is_respected(open_session, frozen):
    moving = "document.getAnimations().length"
    session = open_session()
    with frozen():
        session.upload("moving.pdf")
        session.expect_status("moving.pdf", "Converting")
        assert session.page.evaluate(moving) > 0

        session.page.emulate_media(reduced_motion="reduce")

        assert session.page.evaluate(moving) == 0


# -- without scripts -------------------------------------------------------------------------------


def test_without_htmx_uploads_have_a_progress_bar_and_the_page_is_reloaded(open_session, service):
    session = open_session("/healthz", allow=("net::ERR_FAILED",))
    session.page.route("**/static/h*x*.min.js*", lambda route: route.abort())
    session.page.goto(service.url)
    expect(session.page.locator("#pause")).to_be_hidden()

    session.upload("old-fashioned.pdf", "twice.pdf")

    expect(session.row("old-fashioned.pdf")).to_have_count(1)
    expect(session.row("twice.pdf")).to_have_count(1)
    session.service.until(lambda: {job["status"] for job in session.jobs()} == {"complete"})
    session.page.reload()
    session.expect_status("twice.pdf", "Ready")


def test_all_of_it_works_without_scripts(open_session, chaos):
    session = open_session(java_script_enabled=False)
    page = session.page
    page.set_input_files("#file", [session.file("plain.pdf")])
    page.get_by_role("radio", name="Text").check()
    page.get_by_role("button", name="Convert", exact=True).click()
    expect(page.locator("#toast")).to_contain_text("Uploaded.")
    session.service.until(lambda: session.jobs()[0]["status"] == "complete")
    page.get_by_role("link", name="Refresh").click()
    session.expect_status("plain.pdf", "Ready")
    with page.expect_download() as downloading:
        session.row("plain.pdf").get_by_role("link", name="Download").click()
    assert b"plain" in downloading.value.path().read_bytes()
    chaos("hang")
    page.get_by_role("radio", name="Layout").check()
    page.set_input_files("#file", [session.file("second.pdf")])
    page.get_by_role("button", name="Convert", exact=True).click()
    session.button("second.pdf", "Cancel").click()
    session.service.until(lambda: session.jobs()[0]["status"] == "cancelled")
    page.get_by_role("link", name="Cancelled").click()
    session.expect_status("second.pdf", "Cancelled")
    page.locator("#theme-button").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
