"""Two services on two ports of one host, which share the browser's cookies."""

from playwright.sync_api import expect
from tests.apps.conversion.service import pdf


def upload(page, name):
    page.set_input_files("input[type=file]", {
        "name": name, "mimeType": "application/pdf", "buffer": pdf(name),
    })  # fmt: skip


def test_two_services_on_one_host_keep_their_sessions_in_one_browser(browser, service, serve):
    context = browser.new_context()
    pages = [context.new_page() for _ in range(2)]
    for page, each in zip(pages, (service, serve()), strict=True):
        page.goto(each.url)
    for page, name in zip(pages, ("first.pdf", "second.pdf"), strict=True):
        upload(page, name)
        expect(page.get_by_text(name).first).to_be_visible()

    for page in pages:
        page.reload()

    expect(pages[0].get_by_text("first.pdf").first).to_be_visible()
    expect(pages[1].get_by_text("second.pdf").first).to_be_visible()
    assert len(context.cookies()) == 2
    context.close()
