"""The store on PostgreSQL, for more than one machine: asyncpg, raw SQL, functions for what is hot.

Round trips
    What a worker does all the time is one call of a function in the database: `holdfast.enqueue`,
    `holdfast.tick`. What needs a breaker's or a limit's verdict is a transaction of several
    statements, and only where a lane that has such a thing has jobs waiting.

Locks, in the order in which they are taken
    1. rows of `jobs`, by `seq`: a worker's own; everybody else skips what is locked
    2. rows of `downstreams`, by name, where a report changes one or a limit must be counted for
    3. an advisory lock a kind, by name, where the kind has a limit
    Claims, heartbeats and maintenance skip locked jobs. Enqueueing enters dedup keys, then ids,
    each in their order. Counters are appended as deltas and folded by one process at a time. A
    deadlock that happens in spite of all this is retried.

History in pages
    All jobs that one statement moves alike share one row of `history`, an element of its arrays
    each; the view `events` shows a row a line. A job names the page of its newest line, and each
    line the page of the one before it.

Changes without gaps
    See `holdfast.announce` in functions/history.sql: an event is shown only once no open
    transaction can still commit one with a lower sequence.
"""
