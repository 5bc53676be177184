"""The store on PostgreSQL, for more than one machine: asyncpg, raw SQL, functions for what is hot.

Round trips
    Enqueueing and a worker's tick are one call of a function in the database: `holdfast.enqueue`,
    `holdfast.tick`. A claim from lanes with a limit, or with a breaker that is not closed, is a
    transaction of several statements.

Locks, in the order in which they are taken
    1. an advisory lock per owner, by name, where jobs are created whose owner's limit is near
    2. rows of `jobs`, by `seq`
    3. one advisory lock for all claims, where an owner has a limit
    4. rows of `downstreams`, by name, where a report changes one or a limit must be counted for;
       further ones in the same claim only if they are not locked
    5. an advisory lock per kind, by name, where the kind has a limit
    Claims, heartbeats and maintenance skip locked jobs. Enqueueing enters dedup keys, then ids,
    each in their order. Counters are appended as deltas and folded by one process at a time. A
    deadlock that happens in spite of all this is retried.

History in pages
    All jobs that one statement moves in the same way share one row of `history`, and each has one
    element of its arrays; the view `events` shows one row per job and event. A job has the number
    of the page of its newest event, and each event that of the event before it.

Changes without gaps
    See `holdfast.announce` in functions/history.sql: an event is shown only once no open
    transaction can still commit one with a lower sequence. Events in a caller's transaction are
    numbered when it commits.
"""
