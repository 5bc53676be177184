"""The figures of the overview, over HTTP."""

from tests.http.live_server import READER, Order


def test_a_reader_sees_the_overview(serve):
    serving = serve(reader_token=READER)
    serving.enqueue()
    serving.enqueue(Order(fails="NO_GRAIN"))
    serving.work()
    serving.enqueue()

    shown = serving.reader().get("/api/ops/overview").json()

    total = shown["total"]
    assert (total["finished"], total["successShare"], total["firstTryShare"]) == (2, 0.5, 0.5)
    assert total["retryOverhead"] == 0.0
    assert shown["retries"] == [[1, 2]]
    assert shown["latency"]["jobs"] == 2
    assert shown["latency"]["withRetries"]["p99"] >= 0
    assert [(queue["name"], queue["ready"]) for queue in shown["queues"]] == [("default", 1)]
    (mill,) = shown["downstreams"]
    assert (mill["name"], mill["state"], mill["ready"]) == ("mill", "CLOSED", 1)
    assert mill["tripsLastHour"] == 0
    assert [kind["kind"] for kind in shown["kinds"]] == ["demo.grind"]
    assert len(shown["tripsByHour"]) == 24


def test_operators_see_the_jobs_that_wait_for_a_downstream(serving):
    serving.enqueue()
    serving.admin().post("/api/downstreams/mill/hold")

    (mill,) = serving.admin().get("/api/downstreams").json()["downstreams"]
    (seen,) = serving.client.get("/api/downstreams").json()["downstreams"]

    assert (mill["ready"], mill["held"], mill["nextTrialAt"]) == (1, True, None)
    assert mill["since"] is not None
    assert mill["oldestReadyAt"] is not None
    assert {name for name, value in seen.items() if value is not None} == {"name", "state", "held"}


def test_workers_say_how_much_they_did_of_late(serving):
    serving.enqueue()
    serving.work()
    (load,) = serving.run(serving.engine.workers.loads()).values()
    serving.run(serving.engine.store.heartbeats().register(load.worker_id))

    workers = serving.admin().get("/api/workers").json()["workers"]

    (worker,) = [each for each in workers if each["id"] == load.worker_id]
    assert (worker["running"], worker["attemptsLately"]) == (0, 1)
    assert worker["busySecondsLately"] == load.seconds >= 0
    assert worker["registeredAt"] is not None
