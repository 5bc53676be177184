"""Every frequent query uses an index."""

import re

import apsw
import pytest

from holdfast.store.sqlite.migrations import migrate
from holdfast.store.sqlite.transaction import SQL

INDEXES = {
    "claim_next_due": "jobs_due",
    "claim_promote": "jobs_due",
    "claim_next_cooled": "downstreams_cooling",
    "claim_lanes": "lanes_eligible",
    "claim_running_of_kind": "lanes_running",
    "claim_running_of_downstream": "lanes_by_downstream",
    "claim_trial_leases": "jobs_trials",
    "claim_candidates": "jobs_ready_by_owner",
    "claim_candidates_of_owner": "jobs_ready_by_owner",
    "claim_next_owner": "jobs_ready_by_owner",
    "control_twin": "jobs_dedup",
    "enqueue_twins": "jobs_dedup",
    "maintain_expired_leases": "jobs_leased",
    "maintain_past_deadline": "jobs_deadline",
    "maintain_oldest_finished": "jobs_finished",
    "read_jobs_of_owner": "jobs_owned",
    "read_jobs_unfinished": "jobs_unfinished",
    "read_jobs_unsuccessful": "jobs_ended_badly",
    "read_jobs_of_kind": "jobs_of_kind",
    "floor_read_jobs_of_owner": "jobs_owned",
    "floor_read_jobs_unfinished": "jobs_unfinished",
    "floor_read_jobs_unsuccessful": "jobs_ended_badly",
    "floor_read_jobs_of_kind": "jobs_of_kind",
    "read_dead_letters": "jobs_dead",
    "read_dead_letters_of_group": "jobs_dead_groups",
    "read_dead_letter_groups": "jobs_dead_groups",
    "read_events": "events_of_job",
    "read_attempts": "events_of_job",
    "control_zombies": "events_of_job",
    "worker_leases": "jobs_leased",
    "maintain_leases_of_dead": "jobs_leased",
    "maintain_delete_events": "events_of_job",
    "owner_running": "jobs_leased",
    "owner_unfinished": "jobs_unfinished_of_owner",
    "outbox_erase": "outbox_of_aggregate",
    "downstream_unused": "downstreams_by_use",
    "enqueue_repeated": "jobs_dedup",
}
SMALL = {
    "lanes",
    "heads",
    "intake_pause",
    "webhooks",
    "webhook_waits",
    "totals",
    "outcome_counts",
    "dead_letter_groups",
    "downstreams",
    "workers",
    "leaders",
    "cancel_requests",
    "finish_requests",
    "pauses",
    "kinds_without_dead_letters",
    "api_keys",
    "rate_starts",
    "rates",
    "schedules",
    "sqlite_sequence",
    "dead_letter_runs",
    "new",
}


@pytest.fixture(scope="module")
def db():
    db = apsw.Connection(":memory:")
    migrate(db)
    return db


def plan(db, name) -> list[str]:
    parameters = dict.fromkeys(re.findall(r":(\w+)", SQL[name]))
    return [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + SQL[name], parameters)]


@pytest.mark.parametrize("name, index", INDEXES.items())
def test_the_query_uses_its_index(db, name, index):
    assert any(re.search(rf"INDEX holdfast_{index}\b", step) for step in plan(db, name)), plan(
        db, name
    )


def test_unused_records_are_found_by_their_parent_and_their_last_use(db):
    """So that none of those that are used, and none of other downstreams, is read."""
    assert plan(db, "downstream_unused")[0].endswith(
        "INDEX holdfast_downstreams_by_use (parent=? AND used_at<?)"
    )


@pytest.mark.parametrize("name", [name for name in SQL if name.startswith(("claim", "finish"))])
def test_nothing_on_the_hot_path_sorts_or_scans_a_table(db, name):
    for step in plan(db, name):
        assert "TEMP B-TREE" not in step
        assert not step.startswith("SCAN") or "VIRTUAL TABLE" in step, step


@pytest.mark.parametrize("name", SQL)
def test_no_query_scans_jobs_or_their_history(db, name):
    for step in plan(db, name):
        if step.startswith("SCAN") and "VIRTUAL TABLE" not in step and "CONSTANT" not in step:
            # A subquery's own steps stand beside it. The partial indexes of the outbox hold only
            # messages that wait.
            derived = step.startswith("SCAN (subquery") or "INDEX holdfast_outbox_" in step
            assert derived or step.split()[1] in SMALL, step


def test_constraints_and_triggers_build_no_lists(db):
    rows = db.execute(
        "SELECT sql FROM sqlite_schema WHERE tbl_name IN ('holdfast_jobs', 'holdfast_events')"
    )
    text = "\n".join(sql for (sql,) in rows if sql and "jobs_are_born" not in sql)
    assert " IN (" not in text


@pytest.mark.parametrize(
    "changed",
    [
        {"token": 1},
        {"token": None},
        {"outcome": None},
        {"outcome": "odd"},
        {"worker_id": None},
        {"started_at": None},
        {"duration": None},
    ],
)
def test_history_holds_one_whole_end_a_token(changed):
    db = apsw.Connection(":memory:")
    migrate(db)
    insert = (
        "INSERT INTO holdfast_events (job, name, at, attempt, token, outcome, worker_id, "
        "started_at, duration) VALUES (9, 'complete', 1.0, 1, :token, :outcome, "
        ":worker_id, :started_at, :duration)"
    )
    end = {"outcome": "complete", "worker_id": "w", "started_at": 1.0, "duration": 1.0}
    for token in (1, 2):
        db.execute(insert, {**end, "token": token})
    with pytest.raises(apsw.ConstraintError):
        db.execute(insert, {**end, "token": 3, **changed})


def test_history_is_not_rewritten(db):
    db.execute("INSERT INTO holdfast_events (job, name, at, attempt) VALUES (1, 'queued', 1.0, 0)")
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        db.execute("UPDATE holdfast_events SET at = 2.0")
