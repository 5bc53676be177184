"""The files that pages load."""

import pytest
from tests.http.pages.page_reader import Looked
from tests.http.pages.sample_app import SampleApp

from holdfast.http.pages import assets as assets_module
from holdfast.http.pages.assets import Assets, common_assets


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "static").mkdir()
    (tmp_path / "static/a.css").write_text("a {}")
    return tmp_path / "static"


def test_an_address_changes_with_the_content(folder):
    first = Assets()
    first.add(folder)
    (folder / "a.css").write_text("b {}")
    second = Assets()
    second.add(folder)

    assert first.url("a.css") != second.url("a.css")
    assert first.url("a.css").startswith("/static/a.css?v=")


def test_an_unknown_asset_name_is_an_error_when_the_page_is_rendered(folder):
    with pytest.raises(KeyError):
        common_assets().url("nothing.css")


def test_an_asset_requested_by_its_hash_is_immutable(serving):
    page = Looked(serving.client.get("/"))
    (url,) = page.all("//link[@rel='stylesheet']/@href")

    answer = serving.client.get(url)

    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in serving.browser().get(url).headers


def test_an_asset_requested_without_its_hash_is_revalidated(serving):
    answer = serving.client.get("/static/holdfast.css")

    assert answer.headers["cache-control"] == "no-cache"
    again = serving.client.get(
        "/static/holdfast.css", headers={"if-none-match": answer.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == answer.headers["etag"]


@pytest.mark.parametrize(
    "path",
    [
        "/static/nothing.css",
        "/static/../renderer.py",
        "/static/%2e%2e/renderer.py",
        "/static/..%2fframe.py",
        "/static//etc/passwd",
        "/static/",
        "/static/demo/notes.txt",
        "/static/demo/../notes.txt",
    ],
)
def test_nothing_else_is_served(serve, tmp_path, path):
    serving = serve(served=SampleApp(tmp_path / "press"))

    answer = serving.client.get(path)

    assert answer.status_code == 404
    assert "import" not in answer.text


def test_an_apps_files_are_served_below_its_name(serve, tmp_path):
    serving = serve(served=SampleApp(tmp_path / "press"))

    assert serving.client.get("/static/demo/press.js").text == "export {};"


def test_the_icon_is_where_browsers_look_for_it(serving):
    answer = serving.client.get("/favicon.ico")

    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.content == serving.client.get("/static/favicon.svg").content


def test_every_file_of_the_frame_that_a_page_names_is_there(serving):
    page = Looked(serving.client.get("/"))

    for url in page.all("//link/@href | //script/@src"):
        assert serving.client.get(url).status_code == 200, url


def test_without_htmx_pages_are_forms_and_the_log_has_advice(serve, monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(assets_module, "_HERE", tmp_path)
    (tmp_path / "static").mkdir()
    for name in ("holdfast.css", "holdfast.js", "selection.js", "favicon.svg"):
        (tmp_path / "static" / name).write_text("")
    serving = serve()
    job_id = serving.enqueue()

    page = Looked(serving.client.get("/"))

    assert "make assets" in caplog.text
    assert len(page.all("//script")) == 2
    assert page.all("//*[@id='live']/@*[name() = 'hx-sse:connect']") == []
    assert page.all(f"//form[@action='/jobs/{job_id}/cancel'][@method='post']//button")
