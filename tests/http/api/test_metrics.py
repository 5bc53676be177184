"""Metrics for Prometheus."""

import re

from tests.http.live_server import Order

LINE = re.compile(r"^(?P<name>[a-z_]+)(\{(?P<labels>[^}]*)\})? (?P<value>-?[0-9.e+]+)$")


def scraped(serving):
    """Return the samples by name and set of labels; check the format of each line."""
    answer = serving.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples, described = {}, set()
    for line in answer.text.splitlines():
        if line.startswith("# "):
            described.add(line.split()[2])
            continue
        found = LINE.match(line)
        assert found, line
        assert found["name"] in described
        labels = frozenset(filter(None, (found["labels"] or "").split(",")))
        samples[found["name"], labels] = float(found["value"])
    assert answer.text.endswith("\n")
    return samples


def test_jobs_are_counted_by_status_and_outcome(serving):
    serving.enqueue()
    serving.work()
    serving.enqueue(Order(fails="GW_4XX"))
    serving.work()
    serving.enqueue()

    samples = scraped(serving)

    lane = frozenset({'queue="default"', 'downstream="mill"', 'kind="demo.grind"'})
    assert samples["holdfast_jobs", lane | {'status="complete"'}] == 1
    assert samples["holdfast_jobs", lane | {'status="failed"'}] == 1
    assert samples["holdfast_jobs", lane | {'status="ready"'}] == 1
    ended = frozenset({'kind="demo.grind"', 'status="complete"', 'attempts="1"'})
    assert samples["holdfast_jobs_finished_total", ended] == 1
    assert samples["holdfast_dead_letters", frozenset()] == 1
    queue = frozenset({'queue="default"'})
    assert 0 <= samples["holdfast_oldest_ready_seconds", queue] < 60
    assert samples["queue_depth", queue] == 1
    assert samples["jobs_active", queue] == 0


def test_every_downstream_has_the_state_of_its_breaker(serving):
    serving.admin().post("/api/downstreams/mill/hold")

    samples = scraped(serving)

    mill = frozenset({'downstream="mill"'})
    assert samples["holdfast_downstream_state", mill | {'state="OPEN"'}] == 1
    assert samples["holdfast_downstream_state", mill | {'state="CLOSED"'}] == 0
    assert samples["holdfast_downstream_trips_total", mill] == 1


def test_named_totals_have_their_names(serving):
    job_id = serving.enqueue(Order(fails="GW_4XX"))
    serving.work()
    serving.client.post(f"/api/jobs/{job_id}/retry")

    samples = scraped(serving)
    assert samples["holdfast_events_total", frozenset({'event="manual_retries"'})] == 1
    assert samples["manual_retry_total", frozenset()] == 1


def test_without_a_token_nothing_of_a_job_is_shown_but_counts_by_declared_names(serving):
    for order in (Order(number=4711), Order(number=4711, fails="GW_4XX")):
        serving.enqueue(order, owner="ann-7", id=f"secret-{order.fails}", meta={"card": "4242"})
        serving.work()

    text = serving.client.get("/metrics").text

    assert set(re.findall(r'[{,]([a-z]+)="', text)) <= {
        "queue", "downstream", "kind", "status", "attempts", "event", "state",
    }  # fmt: skip
    for secret in ("4711", "ann-7", "secret", "4242", "GW_4XX"):
        assert secret not in text
