"""The live event stream."""

import time

import pytest
from tests.http.live_server import SOON, Order


def test_events_of_the_owners_jobs_carry_the_current_job(serving):
    with serving.stream() as (answer, following):
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert following()[0] == "downstreams"
        job_id = serving.enqueue()
        name, sequence, data = following()

        assert name == "job"
        assert int(sequence) > 0
        assert (data["event"], data["jobId"], data["job"]["status"]) == ("queued", job_id, "queued")
        assert data["now"] > "2000"
        serving.work()
        while data["job"]["status"] != "complete":
            _, _, data = following()
        assert data["job"]["id"] == job_id


def test_jobs_of_other_owners_are_not_sent(serving):
    other = serving.browser()
    with serving.stream() as (_, following):
        following()
        serving.enqueue(client=other)
        mine = serving.enqueue()

        assert following()[2]["jobId"] == mine


def test_a_stream_goes_on_where_the_last_one_ended(serving):
    with serving.stream() as (_, following):
        following()
        first = serving.enqueue()
        _, sequence, data = following()
        assert data["jobId"] == first
    missed = [serving.enqueue(), serving.enqueue(Order(fails="GW_4XX"))]
    serving.work()

    with serving.stream(**{"Last-Event-ID": sequence}) as (_, following):
        statuses = {}
        while {statuses.get(each) for each in missed} != {"complete", "failed"}:
            name, _, data = following()
            if name == "job":
                statuses[data["jobId"]] = data["job"]["status"]
    assert set(statuses) == {first, *missed}


@pytest.mark.parametrize("last", ["nonsense", "-5", "9" * 40, "999999999999"])
def test_an_impossible_last_event_id_is_ignored(serving, last):
    with serving.stream(**{"Last-Event-ID": last}) as (_, following):
        following()
        job_id = serving.enqueue()

        assert following()[2]["jobId"] == job_id


def test_an_opening_breaker_is_sent_without_any_job(serving):
    serving.enqueue()
    with serving.stream() as (_, following):
        first = following()
        assert first[2]["downstreams"] == [{"name": "mill", "state": "CLOSED", "held": False}]
        serving.run(serving.engine.downstreams.hold("mill"))

        name, _, data = following()
        while name != "downstreams":
            name, _, data = following()
        assert data["downstreams"] == [{"name": "mill", "state": "OPEN", "held": True}]


def test_a_quiet_stream_gives_signs_of_life(serve):
    serving = serve(stream_beat=0.1)
    serving.owner()
    with serving.client.stream("GET", "/api/events") as answer:
        assert ": alive" in answer.iter_lines()


def test_a_session_has_only_so_many_streams(serve):
    serving = serve(streams_at_once=1)
    with serving.stream() as (_, following):
        following()
        answer = serving.client.get("/api/events")
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "5"
        other = serving.browser()
        with serving.stream(other) as (_, theirs):
            assert theirs()[0] == "downstreams"
    ends = time.monotonic() + SOON
    while (status := first_status(serving)) == 429:
        assert time.monotonic() < ends, "the stream that ended still counts"
    assert status == 200


def test_a_new_session_for_each_stream_escapes_no_limit(serve):
    serving = serve(streams_at_once=1, sessions_per_address=2)
    with serving.stream() as (_, following), serving.stream(serving.browser()) as (_, theirs):
        following(), theirs()

        assert serving.browser().get("/api/events").status_code == 429
        elsewhere = serving.browser(**{"x-forwarded-for": "192.0.2.7"})
        with serving.stream(elsewhere) as (answer, _):
            assert answer.status_code == 200


def test_streams_without_a_session_count_for_their_address(serve):
    serving = serve(streams_at_once=1)
    with serving.browser().stream("GET", "/api/events") as first:
        lines = first.iter_lines()  # it is closed when nothing refers to it any more
        assert next(lines) == "retry: 2000"

        assert serving.browser().get("/api/events").status_code == 429
        with serving.stream() as (answer, _):
            assert answer.status_code == 200


def first_status(serving):
    with serving.stream() as (answer, _):
        return answer.status_code


def test_streams_end_when_the_server_stops(serving):
    with serving.stream() as (_, following):
        following()
        serving.state.stopping.set()

        assert following() is None


def test_a_deleted_job_is_sent_as_deleted(serving):
    job_id = serving.enqueue()
    owner = serving.owner()
    real = serving.engine.get

    async def gone(job):
        return None if job == job_id else await real(job)

    serving.engine.get = gone
    with serving.stream(**{"Last-Event-ID": "0"}) as (_, following):
        following()
        data = following()[2]
    assert (data["jobId"], data["job"]) == (job_id, None)
    assert owner
