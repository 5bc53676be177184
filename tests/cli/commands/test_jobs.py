"""`holdfast jobs list`, `show`, `retry` and `cancel`."""

import asyncio
import json

from tests.cli.commands.shop import filled, with_engine

from holdfast import JobStatus


def status(url, job_id):
    async def look(engine):
        return (await engine.get(job_id)).status

    return with_engine(url, look)


def test_jobs_of_all_owners_are_listed_newest_first_with_whole_ids(url, rows):
    done, declined, letter = filled(url, 1, -1, letters=1)
    assert [row["id"] for row in rows("jobs", "list")] == [letter, declined, done]
    assert [row["status"] for row in rows("jobs", "list")] == ["queued", "failed", "complete"]


def test_the_list_is_narrowed_by_status_kind_queue_downstream_and_error(url, rows):
    done, declined, letter = filled(url, 1, -1, letters=1)
    for words, expected in (
        (["--status", "complete"], [done]),
        (["--kind", "shop.mail"], [letter]),
        (["--queue", "mail"], [letter]),
        (["--downstream", "bank"], [declined, done]),
        (["--error", "CARD_DECLINED"], [declined]),
        (["--error", "Ask your bank"], [declined]),
        (["--owner", "ann"], []),
    ):
        assert [row["id"] for row in rows("jobs", "list", *words)] == expected, words


def test_a_cut_list_says_so_on_standard_error_alone(url, run):
    filled(url, letters=2)
    code, out, err = run("jobs", "list", "--limit", "1")
    assert (code, len(out.splitlines())) == (0, 2)
    assert err == "holdfast: these are the newest 1; --limit shows more\n"
    assert run("jobs", "list", "--limit", "1", "--json")[2] == ""
    assert run("jobs", "list", "--status", "lost")[0] == 2


def test_a_job_is_shown_with_its_attempts_and_the_last_traceback(url, run, data):
    (declined,) = filled(url, -1)
    _, out, _ = run("jobs", "show", declined)
    assert "error\tCARD_DECLINED: Ask your bank about -1." in out
    assert "holdfast.errors.Permanent: Ask your bank about -1." in out
    shown = data("jobs", "show", declined)
    assert (shown["id"], shown["attemptCount"], shown["finishedAt"][-1]) == (declined, 1, "Z")
    assert shown["attemptHistory"][0]["outcome"] == "failed"
    assert [event["name"] for event in shown["events"]] == ["queued", "processing", "failed"]
    assert "arguments" not in shown


def test_a_failed_job_is_retried_and_another_is_refused_beside_it(url, run):
    done, declined = filled(url, 1, -1)
    code, out, err = run("jobs", "retry", declined, done)
    assert (code, out) == (1, f"requeued {declined}\n")
    assert err == f"holdfast: job {done} is complete and cannot be retried\n"
    assert status(url, declined) is JobStatus.QUEUED


def test_waiting_jobs_are_cancelled(url, run):
    (letter,) = filled(url, letters=1)
    code, out, _ = run("jobs", "cancel", letter, letter, "--json")
    assert code == 0
    assert [job["status"] for job in json.loads(out)] == ["cancelled"]


def test_a_running_job_is_asked_to_stop(url, run):
    (letter,) = filled(url, letters=1)

    async def claim(engine):
        from holdfast.jobs.store_port import ClaimRequest

        request = ClaimRequest(kinds={"shop.mail": None}, queues=("mail",), limit=1)
        await engine.store.tick("worker", claim=request)

    with_engine(url, claim)
    assert run("jobs", "cancel", letter)[1] == f"asked to stop {letter}\n"


def test_a_job_that_does_not_exist_is_one_line_and_exit_code_2(empty, run):
    for words in (["show", "nobody"], ["retry", "nobody"], ["cancel", "nobody"]):
        code, out, err = run("jobs", *words)
        assert (code, out, err) == (2, "", "holdfast: there is no job 'nobody'\n")


def test_the_command_may_be_used_while_an_event_loop_runs_elsewhere(url, rows):
    filled(url, letters=1)
    assert len(asyncio.run(asyncio.to_thread(rows, "jobs", "list"))) == 1
