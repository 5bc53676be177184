"""The pages of submissions as they come from the server."""

import pytest
from tests.apps.grading.grading_server import GradingServer
from tests.apps.grading.samples import ESSAY, RESULT
from tests.apps.grading.sounds import tone
from tests.http.pages.page_reader import Looked

from holdfast_grading.callbacks import receive
from holdfast_grading.messages import CallbackError, GradingCallback, request_id_of
from holdfast_grading.pages import submission_pages
from holdfast_grading.submissions import Submissions

HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def idle(tmp_path_factory):
    folder, url = tmp_path_factory.mktemp("idle"), "http://127.0.0.1:1/v1"
    with GradingServer(folder, working=False, stt_base_url=url) as server:
        yield server


@pytest.fixture
def server(idle):
    """The server with a session of the test's own."""
    idle.client = idle.browser()
    return idle


def look(server, path, status=200):
    return Looked(server.client.get(path, headers=HTML), status)


def send(server, status=303, file=None, **fields):
    parts = {name: (None, value) for name, value in fields.items()}
    if file is not None:
        parts["file"] = ("talk.wav", file, "audio/wav")
    answer = server.client.post("/submissions", headers=HTML, files=parts)
    assert answer.status_code == status, answer.text
    return answer.headers["location"] if status == 303 else Looked(answer, status)


def answer(server, submission_id, *, after=0.0, error=None):
    submission = server.run(Submissions(server.engine).find(submission_id))
    callback = GradingCallback(
        request_id=request_id_of(submission_id, submission.request_id),
        submission_id=submission_id,
        status="completed" if error is None else "error",
        result=RESULT if error is None else None,
        error=None if error is None else CallbackError(*error),
    )
    at = server.engine.clock.wall() + after
    server.run(receive(server.engine, callback, at))


def test_a_text_is_handed_in_by_the_form_and_listed(server):
    assert "No submissions yet" in look(server, "/submissions").text("//main")
    assert send(server, skill="writing", text=ESSAY) == "/submissions?note=added"
    page = look(server, "/submissions?note=added")
    assert "Handed in." in page.text("//*[@id='toast']")
    assert "Pending" in page.text("//*[@id='rows']")
    assert ESSAY[:40] in page.text("//*[@id='rows']")
    assert page.one("//*[@id='board']").get("data-shared") is not None


def test_a_recording_is_handed_in_as_a_file_or_as_an_address(server):
    send(server, skill="speaking", file=tone())
    send(server, skill="speaking", audioUrl="https://site.example/talk.mp3")
    rows = look(server, "/submissions").text("//*[@id='rows']")
    assert "A recording" in rows
    assert "https://site.example/talk.mp3" in rows


@pytest.mark.parametrize(
    "fields, status, line",
    [
        ({"skill": "writing", "text": " "}, 400, "The text is empty."),
        ({"skill": "speaking"}, 400, "Choose a recording."),
        ({"skill": "speaking", "audioUrl": "ftp://x"}, 400, "address"),
        ({"skill": "juggling"}, 400, "There is no skill"),
    ],
)
def test_a_form_that_cannot_be_graded_is_refused_in_words(server, fields, status, line):
    assert line in send(server, status, **fields).text("//main")


def test_a_graded_submission_shows_its_scores_and_counts_in_the_progress(server):
    submission_id = server.hand_in()
    answer(server, submission_id)
    page = look(server, f"/submissions/{submission_id}")
    assert "Graded" in page.text("//article/header")
    assert "7.0 of 10" in page.text("//article/header")
    assert "Task8.0" in page.text("//table").replace(" ", "")
    assert ESSAY in page.text("//div[@class='scroll text']")
    assert page.one("//*[@id='board']").get("data-shared") is None
    assert "7.0 of 10 on average, 1 graded" in look(server, "/submissions").text(
        "//dl[@class='figures']"
    )


def test_a_late_grade_is_shown_apart(server):
    submission_id = server.hand_in()
    answer(server, submission_id, after=1201)
    page = look(server, f"/submissions/{submission_id}")
    assert "Not graded in time" in page.text("//article/header")
    assert "It does not count." in page.text("//article")
    assert "TIMEOUT" in page.text("//dl[@class='about']")


def test_a_failed_submission_says_why(server):
    submission_id = server.hand_in()
    answer(server, submission_id, error=("NO_SPEECH", "There is no speech in the recording."))
    page = look(server, "/submissions?status=FAILED")
    assert "There is no speech in the recording." in page.text("//*[@id='rows']")
    assert "None of your submissions" in look(server, "/submissions?status=COMPLETED").text(
        "//main"
    )


def test_a_long_list_has_pages(server, monkeypatch):
    monkeypatch.setattr(submission_pages, "PAGE_SIZE", 2)
    for number in range(3):
        server.hand_in(text=f"Text number {number}.")
    first = look(server, "/submissions")
    older = first.one("//a[@id='page-older']").get("href")
    second = look(server, older)
    assert "Text number 0." in second.text("//*[@id='rows']")
    assert second.one("//a[@id='page-newer']") is not None


def test_what_a_person_typed_is_escaped(server):
    submission_id = server.hand_in(text="<script>alert(1)</script> & more")
    raw = server.client.get(f"/submissions/{submission_id}", headers=HTML).text
    assert "<script>alert(1)" not in raw
    assert "style=" not in raw


def test_a_submission_of_another_is_refused_in_words(server):
    submission_id = server.hand_in()
    server.client = server.browser()
    page = look(server, f"/submissions/{submission_id}", 403)
    assert "There is no such submission, or it is not yours." in page.text("//main")
