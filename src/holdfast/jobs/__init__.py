"""Durable jobs: the model, what a store must do, and the use cases on top of both.

Leases
    A claim moves a job to `processing` and records the worker and the lease's expiry. A heartbeat
    extends the lease while the worker lives. When the store can tell that a worker is dead, or the
    lease expires, maintenance puts the job back in the queue. Nothing else takes a job from its
    worker; an attempt may run for any length of time. Attempts are counted at the claim, so a job
    that kills every worker runs out of attempts and becomes a dead letter.

Fencing
    A worker can lose its lease without knowing it: it was paused or cut off, and another worker
    runs the job now. So each claim raises the job's *token* by one; the token never falls, not even
    on a manual retry. Every write of a worker (complete, fail, retry, extend, progress) is a
    compare-and-set on `(id, status = processing, token)` that must change exactly one row. A
    zombie's token is old, so its write is refused and counted. Files are written under a name that
    contains the token and are published by that same compare-and-set.

One tick
    A worker reports finished attempts and claims the next jobs in one transaction: a job is never
    finished twice, and no attempt runs uncounted.

Lanes
    A lane is (queue, downstream). A claim skips all lanes of a held downstream, so a million held
    jobs cost it nothing, and a full lane does not starve the others. Within a lane jobs are ordered
    by priority, then by the time they became ready. A scheduled job joins its lane when it is due.

Where a rule is
    Which jobs a claim may take: `downstreams/record.py` (whether they are held) and
    `downstreams/claim_permits.py` (how many may start); `claim_sharing.py` shares them out among
    the lanes. Both stores follow these in their `claim`.
    Which status a job gets after an attempt: `worker/verdict.py` decides on the outcome,
    `worker/retry_delay.py` on the delay; `report_rules.py` says what overrules it.
    What happens to a job whose worker died: `maintenance/rescue.py` finds it, `report_rules.py`
    says which status it gets.
    How arguments and results are encoded: `declare/codecs.py`.

Time
    Leases, deadlines and retries follow the store's clock, in epoch seconds. Methods that depend on
    it take `now` for tests; None, used in production, means the store's own clock.
"""
