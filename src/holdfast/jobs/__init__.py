"""Durable jobs: the model, what a store must do, and the use cases on top of both.

Leases
    A worker owns a job only for a time. A claim moves the job to `processing` and writes down who
    holds it and until when; a heartbeat moves that time forward for as long as the worker lives.
    A worker that dies stops moving it, the time passes, and maintenance puts the job back in the
    queue. Nothing else takes a job away from a worker: how long an attempt runs is never a reason.
    The attempt was counted when it was claimed, so a job that kills every worker it meets runs out
    of attempts like any other and ends in the dead letters.

Fencing
    A worker can lose its lease without knowing: it was stopped, starved or cut off, and another
    runs the job by now. So each claim raises the job's *token* by one, and it never falls, not even
    when a person retries the job. Whatever a worker writes about a job (complete, fail, retry,
    extend, progress) is a compare-and-set on `(id, status = processing, token)` and must touch
    exactly one row. A zombie carries an old token, touches none, and its write is refused and
    counted; the run that holds the job stands. What a worker writes outside the database goes
    under a name that carries the token and is published by that same compare-and-set.

One tick
    A worker reports what it finished and claims what comes next in one transaction. Either all of
    it happened or none: a job is never finished twice, and an attempt is never run uncounted.

Lanes
    A lane is (queue, downstream). A downstream that is held takes its lanes out of the claim as a
    whole, so a million held jobs cost a claim nothing, and a flood in one lane does not starve
    the others. Jobs wait in a lane by priority, then by the time they became ready; a job whose
    time has not come is in no lane at all until it is promoted.

Time
    Leases, deadlines and retries are judged by the store's clock, in epoch seconds. Wherever that
    matters a method takes `now`; None, the value used in production, means the store's own clock.
"""
