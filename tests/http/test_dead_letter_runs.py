"""Runs over dead letters: counted first, stopped by anyone, explained after a crash."""

import asyncio

import pytest
from tests.http.live_server import READER, Order, Serving
from tests.support.waiting import until_sync

from holdfast import App, Downstream, JobContext, Permanent
from holdfast.http import dead_letter_runs
from holdfast.http.api import dead_letters
from holdfast.http.dead_letter_runs import STALE_AFTER
from holdfast.jobs.operations_port import DeadLetterRun, RunAction
from holdfast.jobs.store_port import StoreBusy
from holdfast.jobs.views import EVERY_JOB


@pytest.fixture
def serving(serve):
    return serve(reader_token=READER)


def failed_jobs(serving, count, code="NO_GRAIN"):
    made = [serving.enqueue(Order(fails=code)) for _ in range(count)]
    serving.work()
    return made


def newest(serving):
    return serving.reader().get("/api/ops/dead-letters/runs").json()["runs"][0]


def ended(serving):
    run = newest(serving)
    return run if run["state"] != "running" else None


def test_a_run_is_counted_first_and_its_end_is_stored(serving):
    failed_jobs(serving, 3)
    failed_jobs(serving, 1, "NO_MILL")
    order = {"filter": {"errorCode": "NO_GRAIN"}, "ratePerSecond": 1000}

    dry = serving.admin().post("/api/dead-letters/retry", json={**order, "dryRun": True}).json()
    begun = serving.admin().post("/api/dead-letters/retry", json=order).json()

    assert (dry["matched"], dry["requeued"], dry["run"]) == (3, 3, None)
    assert (begun["run"]["total"], begun["run"]["who"]) == (3, "admin")
    run = until_sync(lambda: ended(serving))
    assert (run["state"], run["done"], run["matched"]) == ("finished", 3, 3)
    assert run["filter"] == {"error_code": "NO_GRAIN"}
    entries = serving.admin().get("/api/audit").json()["entries"]
    assert [(entry["action"], entry["detail"]["run"]) for entry in entries] == [
        ("dead-letters.retry", run["id"])
    ]


def test_a_discard_of_all_that_match_leaves_the_others(serving):
    failed_jobs(serving, 2)
    (other,) = failed_jobs(serving, 1, "NO_MILL")
    order = {"filter": {"errorCode": "NO_GRAIN"}}
    admin = serving.admin()

    dry = admin.post("/api/ops/dead-letters/discard", json={**order, "dryRun": True}).json()
    done = admin.post("/api/ops/dead-letters/discard", json=order).json()
    admin.post("/api/ops/dead-letters/discard", json={"ratePerSecond": 1000})

    assert (dry["matched"], dry["dryRun"]) == (2, True)
    assert (done["matched"], done["requeued"], done["done"]) == (2, 2, True)
    run = until_sync(lambda: ended(serving))
    assert (run["action"], run["state"], run["done"]) == ("discard", "finished", 1)
    assert serving.run(serving.engine.dead_letters.count()) == 0
    assert serving.run(serving.engine.get(other)).status == "failed"


@pytest.mark.parametrize("path", ["/api/dead-letters/retry", "/api/ops/dead-letters/discard"])
def test_a_run_without_a_rate_is_answered_when_it_has_ended(serving, path):
    failed_jobs(serving, 2)

    answer = serving.admin().post(path, json={})

    assert answer.status_code == 200
    assert (answer.json()["requeued"], answer.json()["done"]) == (2, True)
    assert answer.json()["run"]["state"] == "finished"


def test_a_run_that_waits_for_an_open_downstream_is_answered_soon_and_goes_on_later(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(dead_letters, "_PATIENCE", 0.01)
    app = App("demo")

    @app.job(downstream=Downstream("mill", mode="fail_fast"))
    async def grind(ctx: JobContext, args: Order) -> None:
        raise Permanent("NO_GRAIN", "ground to a halt")

    with Serving(tmp_path, app) as serving:
        failed_jobs(serving, 1)
        serving.run(serving.engine.downstreams.hold("mill"))

        answer = serving.admin().post("/api/dead-letters/retry", json={})

        assert (answer.status_code, answer.json()["done"]) == (202, False)
        assert answer.json()["run"]["state"] == "running"
        serving.run(serving.engine.downstreams.reset("mill"))
        shown = "/api/ops/dead-letters/runs"
        until_sync(lambda: serving.admin().get(shown).json()["runs"][0]["state"] == "finished")


def test_a_run_that_is_stopped_says_how_far_it_came(serving):
    failed_jobs(serving, 4)
    admin = serving.admin()
    admin.post("/api/dead-letters/retry", json={"ratePerSecond": 0.5})
    until_sync(lambda: newest(serving)["done"] == 1)

    admin.delete("/api/dead-letters/retry")

    run = until_sync(lambda: ended(serving))
    assert (run["state"], run["done"], run["total"]) == ("stopped", 1, 4)
    assert run["stopRequested"]
    actions = [entry["action"] for entry in admin.get("/api/audit").json()["entries"]]
    assert actions == ["dead-letters.stop", "dead-letters.retry"]


def test_another_server_stops_a_run_too(serving):
    failed_jobs(serving, 3)
    serving.admin().post("/api/dead-letters/retry", json={"ratePerSecond": 0.5})

    serving.run(serving.engine.store.request_run_stop())

    assert until_sync(lambda: ended(serving))["state"] == "stopped"


def test_a_run_whose_server_died_is_failed_and_can_be_begun_again(serving):
    failed_jobs(serving, 2)
    store = serving.engine.store
    began = serving.run(store.ping()) - 2 * STALE_AFTER
    dead = DeadLetterRun("r1", RunAction.REQUEUE, {}, "ann", 5.0, 10, began)
    serving.run(store.begin_run(dead, stale_after=STALE_AFTER))

    run = newest(serving)
    again = serving.admin().post("/api/dead-letters/retry", json={"ratePerSecond": 1000})

    assert (run["id"], run["state"], run["done"], run["total"]) == ("r1", "failed", 0, 10)
    assert again.status_code == 202
    assert until_sync(lambda: ended(serving))["done"] == 2


def test_a_server_that_stops_ends_its_run(serving):
    failed_jobs(serving, 3)
    serving.admin().post("/api/dead-letters/retry", json={"ratePerSecond": 0.5})

    serving.run(serving.state.runs.close())

    assert newest(serving)["state"] == "stopped"
    serving.run(serving.state.runs.close())


def test_a_run_that_meets_an_error_is_failed(serving, monkeypatch):
    failed_jobs(serving, 1)

    async def broken(*_, **__):
        raise RuntimeError("out of order")

    monkeypatch.setattr(serving.engine.dead_letters, "requeue", broken)
    runs = serving.state.runs
    serving.run(runs.begin(RunAction.REQUEUE, EVERY_JOB, rate=1.0, who="ann"))

    assert until_sync(lambda: ended(serving))["state"] == "failed"


def test_a_run_that_fails_at_once_is_not_answered_as_begun(serving, monkeypatch):
    failed_jobs(serving, 1)

    async def broken(*_, **__):
        raise RuntimeError("out of order")

    monkeypatch.setattr(serving.engine.dead_letters, "requeue", broken)
    answer = serving.admin().post("/api/dead-letters/retry", json={})

    assert answer.status_code == 200
    assert (answer.json()["done"], answer.json()["run"]["state"]) == (True, "failed")


def test_a_store_that_is_away_for_a_moment_does_not_end_a_run(serving, monkeypatch):
    failed_jobs(serving, 2)
    store = serving.engine.store
    write, refused = store.update_run, []

    async def busy_once(run, **options):
        if not refused:
            refused.append(run)
            raise StoreBusy("busy")
        return await write(run, **options)

    monkeypatch.setattr(store, "update_run", busy_once)
    serving.admin().post("/api/dead-letters/retry", json={"ratePerSecond": 0.8})

    run = until_sync(lambda: ended(serving))
    assert (run["state"], run["done"]) == ("finished", 2)
    assert refused


def test_a_long_count_does_not_make_a_run_stale(serving, monkeypatch):
    letters, store = serving.engine.dead_letters, serving.engine.store
    counted_at = []

    async def count(where):
        counted_at.append(await store.ping())
        return 0

    monkeypatch.setattr(letters, "count", count)
    run = serving.run(serving.state.runs.begin(RunAction.REQUEUE, EVERY_JOB, rate=1.0, who="ann"))

    assert run.started_at == run.updated_at >= counted_at[0]
    until_sync(lambda: ended(serving))


def test_the_end_of_a_run_is_written_again_if_the_store_was_away(serving, monkeypatch):
    failed_jobs(serving, 1)
    store = serving.engine.store
    write, refused = store.update_run, []

    async def busy_at_the_end(run, **options):
        if run.state != "running" and not refused:
            refused.append(run)
            raise StoreBusy("busy")
        return await write(run, **options)

    monkeypatch.setattr(store, "update_run", busy_at_the_end)
    serving.admin().post("/api/dead-letters/retry", json={"ratePerSecond": 1000})

    run = until_sync(lambda: ended(serving))
    assert (run["state"], run["done"]) == ("finished", 1)
    assert refused


def test_a_run_that_cannot_be_followed_ends_as_failed(serving, monkeypatch):
    failed_jobs(serving, 3)
    store = serving.engine.store
    write, broken = store.update_run, []

    async def broken_once(run, **options):
        if not broken:
            broken.append(run)
            raise RuntimeError("out of order")
        return await write(run, **options)

    monkeypatch.setattr(store, "update_run", broken_once)
    serving.admin().post("/api/dead-letters/retry", json={"ratePerSecond": 0.1})

    run = until_sync(lambda: ended(serving))
    assert (run["state"], run["done"]) == ("failed", 1)
    assert serving.run(serving.engine.dead_letters.count()) == 2


def test_a_stop_lets_the_batch_that_is_being_written_finish(serving, monkeypatch):
    failed_jobs(serving, 3)
    store = serving.engine.store
    retry, written, go_on = store.retry, [], asyncio.Event()

    async def slow(ids, **options):
        written.extend(await retry(ids, **options))
        await go_on.wait()
        return tuple(written)

    async def release():
        go_on.set()

    monkeypatch.setattr(store, "retry", slow)
    serving.admin().post("/api/dead-letters/retry", json={"ratePerSecond": 0.5})
    until_sync(lambda: written)
    serving.admin().delete("/api/dead-letters/retry")
    serving.run(release())

    run = until_sync(lambda: ended(serving))
    assert (run["state"], run["done"]) == ("stopped", 1)


def test_a_run_that_was_given_up_leaves_its_successor_alone(serving, monkeypatch):
    failed_jobs(serving, 4)
    runs, store = serving.state.runs, serving.engine.store
    write, ends = store.update_run, []

    async def watched(run, **options):
        if run.state != "running":
            ends.append(run.id)
        return await write(run, **options)

    monkeypatch.setattr(store, "update_run", watched)
    with monkeypatch.context() as patch:
        patch.setattr(dead_letter_runs, "STALE_AFTER", -1.0)
        old = serving.run(runs.begin(RunAction.REQUEUE, EVERY_JOB, rate=0.1, who="ann"))
        new = serving.run(runs.begin(RunAction.REQUEUE, EVERY_JOB, rate=0.1, who="ann"))
    until_sync(lambda: old.id in ends)

    serving.run(runs.close())

    assert (newest(serving)["id"], newest(serving)["state"]) == (new.id, "stopped")


def test_errors_of_dead_letters_are_grouped_over_all_kinds(serving):
    made = failed_jobs(serving, 3)
    failed_jobs(serving, 1, "NO_MILL")

    first, second = serving.reader().get("/api/ops/dead-letters/groups").json()["groups"]

    assert (first["code"], first["count"], first["kinds"]) == ("NO_GRAIN", 3, ["demo.grind"])
    assert first["message"] == "ground to a halt"
    assert first["exampleIds"] == [made[2], made[0]]
    assert first["firstAt"] <= first["lastAt"]
    assert (second["code"], second["count"]) == ("NO_MILL", 1)
